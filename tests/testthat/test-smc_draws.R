# The result of smc_sample(): what it holds and shows.

test_that("the parts agree with each other", {
  fit <- small_smc()
  expect_s3_class(fit, "smc_draws")
  expect_identical(dim(fit$draws), c(512L, 2L))
  expect_identical(fit$temperatures, c(0, fit$stages$beta))
  expect_identical(fit$stages$stage, as.double(seq_len(nrow(fit$stages))))
  expect_false(is.unsorted(fit$temperatures, strictly = TRUE))
  expect_identical(fit$beta, 1)
  expect_length(fit$islands, 8)
  expect_equal(fit$log_evidence, log(mean(exp(fit$islands))), tolerance = 1e-12)
  expect_equal(fit$log_evidence, sum(fit$stages$log_increment), tolerance = 0.05)
  shares <- fit$stages[c("unique", "acceptance", "moved")]
  expect_true(all(shares > 0 & shares <= 1))
  expect_identical(fit$state$log_target, unname(log_density(fit$target, fit$draws)))
  # steps are counted on, so no stage meets words of another
  expect_identical(fit$state$step, sum(fit$stages$n_moves))
  expect_null(fit$state$x)
  expect_identical(as.matrix(fit), fit$draws)
})

test_that("summary() is of the draws, its standard error of the islands", {
  fit <- small_smc(n_islands = 8)
  table <- summary(fit, probs = c(0.25, 0.5))
  expect_named(table, c("variable", "mean", "sd", "mcse", "q25", "q50", "ess"))
  x <- fit$draws[, "b"]
  expect_equal(table$mean[2], mean(x), tolerance = 1e-14)
  expect_equal(table$sd[2], stats::sd(x), tolerance = 1e-14)
  expect_equal(table$q25[2], stats::quantile(x, 0.25, names = FALSE), tolerance = 1e-14)
  means <- vapply(1:8, function(k) mean(x[64 * (k - 1) + 1:64]), 0)
  expect_equal(table$mcse[2], stats::sd(means) / sqrt(8), tolerance = 1e-14)
  expect_equal(table$ess[2], min(512, (table$sd[2] / table$mcse[2])^2), tolerance = 1e-12)
  expect_equal(vcov(fit), stats::cov(fit$draws))
  expect_input_error(summary(fit, probs = 2), "probs", "2")
})

test_that("print() shows it and gives it back", {
  fit <- small_smc()
  expect_identical(print_quietly(fit), fit)
  shown <- utils::capture.output(print(fit, n_parameters = 1))
  expect_match(shown[1], "<smc_draws> 512 particles in 8 islands, 2 parameters, [0-9]+ stages")
  expect_match(shown[2], "log evidence: -?[0-9.]+ [(]standard error [0-9.]+[)]")
  expect_true(any(grepl("1 more", shown)))
  long <- small_smc(n_particles = 65536, n_islands = 16, n_moves = 7)
  shown <- grep("^target|^initial", utils::capture.output(print(long)), value = TRUE, invert = TRUE)
  expect_lte(max(nchar(shown)), 80)
  part <- suppressWarnings(small_smc(max_stages = 1))
  expect_output(print(part), "not finished: at inverse temperature 0")
  one <- suppressWarnings(smc_sample(density_normal(0, 1), density_normal(0, 2), 1, n_dim = 1, seed = 1))
  expect_output(print(one), "1 particle in 1 island")
  bad <- density_function(n_dim = 2, function(x) ifelse(x[, 1] > 9, NaN, -2 * rowSums(x^2)))
  expect_output(print(suppressWarnings(small_smc(target = bad, nonfinite = "drop"))), "precision")
})
