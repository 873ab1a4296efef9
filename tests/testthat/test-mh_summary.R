# Summaries from sums against the same from stored draws, in plain R and by posterior.

column <- function(fit, name) summary(fit)[[name]]

test_that("sums give what stored draws give, for any length of batches", {
  for (batch in list(NULL, 1, 7, 200)) {
    for (n_chains in c(3, 40)) {
      fit <- small_run(90, n_chains = n_chains, n_warmup = 50, batch = batch, n_superchains = NULL)
      out <- summary(fit, probs = c(0, 0.05, 0.5, 1))
      by_dim <- function(f) unname(apply(fit$draws, 3, f))
      expect_equal(out$mean, by_dim(mean), tolerance = 1e-12)
      expect_equal(out$sd, by_dim(stats::sd), tolerance = 1e-12)
      expect_identical(out$min, by_dim(min))
      expect_identical(out$max, by_dim(max))
      expect_identical(out$q0, out$min)
      expect_identical(out$q100, out$max)
      expect_equal(out$q5, by_dim(function(x) stats::quantile(x, 0.05)), tolerance = 1e-14)
      b <- fit$settings$batch
      expect_identical(b, if (is.null(batch)) 9 else batch)
      expected <- if (n_chains == 40) {
        by_dim(function(x) stats::sd(colMeans(x)) / sqrt(40))
      } else if (b <= 90) {
        by_dim(function(x) oracle_batch_error(x, b))
      } else {
        c(NA_real_, NA_real_)
      }
      expect_equal(out$mcse, expected, tolerance = 1e-10)
      expect_equal(out$ess, (out$sd / out$mcse)^2, tolerance = 1e-12)
    }
  }
})

test_that("chains that do not meet have no more effective states than batches", {
  fit <- mh_sample(density_normal(0, 1), matrix(c(-1, 0, 1, 2)),
    n_steps = 400, step_size = 1e-3, adapt = FALSE, seed = 1
  )
  expect_lt(summary(fit)$ess, 4 * 20 * 1.1)
  expect_gt(summary(fit)$rhat, 10)
})

test_that("far from 0 and at very different scales nothing is lost", {
  target <- density_normal(c(1e8, -1e-8, 5), c(1, 1e-10, 1e6))
  fit <- mh_sample(target, matrix(c(1e8, -1e-8, 5), 30, 3, byrow = TRUE),
    n_steps = 400, n_warmup = 300, step_size = c(1, 1e-10, 1e6), adapt = FALSE, seed = 4
  )
  out <- summary(fit)
  expect_equal(out$sd, unname(apply(fit$draws, 3, stats::sd)), tolerance = 1e-9)
  expect_equal(out$mcse, unname(apply(fit$draws, 3, function(x) stats::sd(colMeans(x)))) / sqrt(30), tolerance = 1e-7)
})

test_that("nested R-hat is the one of its definition", {
  for (groups in c(2, 4, 8)) {
    for (n_steps in c(1, 2, 30)) {
      fit <- mh_sample(density_normal(c(0, 1), 1),
        n_chains = 16, n_superchains = groups, n_steps = n_steps, n_warmup = 5, seed = 5
      )
      expected <- apply(fit$draws, 3, function(x) oracle_nested_rhat(matrix(x, n_steps), fit$superchain))
      expect_equal(column(fit, "rhat"), unname(expected), tolerance = 1e-10)
    }
  }
})

test_that("split R-hat is posterior's basic one", {
  skip_if_not_installed("posterior")
  for (n_chains in c(1, 4)) {
    for (n_steps in c(5, 50, 101)) {
      fit <- small_run(n_steps, n_chains = n_chains)
      expected <- apply(fit$draws, 3, function(x) posterior::rhat_basic(matrix(x, n_steps)))
      expect_equal(column(fit, "rhat"), unname(expected), tolerance = 1e-12)
    }
  }
})

test_that("without draws R-hat compares whole chains", {
  fit <- small_run(50, keep = "summary")
  x <- fit$sample[, , 1]
  expect_equal(column(fit, "rhat")[1], sqrt(49 / 50 + stats::var(colMeans(x)) / mean(apply(x, 2, stats::var))))
  expect_identical(column(small_run(50, n_chains = 1, keep = "summary"), "rhat"), c(NA_real_, NA_real_))
})

# Runs of chains that stay where they are.
constant_run <- function(at, n_steps = 20, ...) {
  mh_sample(density_normal(0, 1), matrix(at), n_steps = n_steps, step_size = 0, adapt = FALSE, seed = 1, ...)
}

test_that("R-hat of constant chains is NA where they agree, Inf where they do not", {
  for (keep in c("draws", "summary")) {
    expect_identical(column(constant_run(rep(1, 4), keep = keep), "rhat"), NA_real_)
    expect_identical(column(constant_run(1:4, keep = keep), "rhat"), Inf)
    # numbers whose sums round
    expect_identical(column(constant_run(c(0.1, 1 / 3, pi, 7), 1000, keep = keep), "rhat"), Inf)
    expect_identical(column(constant_run(rep(1 / 3, 4), 1000, keep = keep), "rhat"), NA_real_)
    expect_identical(column(constant_run(rep(c(1, 2), each = 2), keep = keep, n_superchains = 2), "rhat"), Inf)
    expect_identical(column(constant_run(rep(1, 4), keep = keep, n_superchains = 2), "rhat"), NA_real_)
  }
  expect_identical(column(constant_run(1:4), "sd"), stats::sd(rep(1:4, 20)))
  expect_identical(column(constant_run(rep(1, 4)), "ess"), NA_real_)
  # one that is stuck on a spike, three that move
  target <- density_function(function(x) ifelse(x[, 1] == 3, 1e6, -x[, 1]^2 / 2))
  for (keep in c("draws", "summary")) {
    fit <- mh_sample(target, matrix(c(3, 0, 0.1, -1)),
      n_steps = 500, step_size = 2.4, adapt = FALSE, seed = 1, keep = keep
    )
    expect_true(all(stored_states(fit)[, 1, 1] == 3))
    expect_gt(column(fit, "rhat"), 1.3)
    expect_true(is.finite(column(fit, "rhat")))
  }
  one <- mh_sample(density_normal(0, 1), matrix(0), n_steps = 5000, step_size = 2.4, adapt = FALSE, seed = 1)
  expect_equal(column(one, "rhat"), 1, tolerance = 0.02)
})

test_that("a draw that is infinite gives NA, not an error", {
  fit <- small_run(100)
  fit$draws[7, 1, 1] <- Inf
  fit$state$sums[1, 1, c("total", "squares", "batch_squares")] <- Inf
  out <- summary(fit)
  expect_identical(out$mean[1], Inf)
  expect_true(all(is.na(out[1, c("sd", "mcse", "rhat", "ess")])))
  expect_false(anyNA(out[2, ]))
  expect_output(print(fit), "Inf")
})

test_that("0 to 4 kept states give NA, not an error", {
  for (n in 0:4) {
    fit <- small_run(n, n_chains = 3)
    out <- summary(fit)
    expect_identical(out$rhat, c(NA_real_, NA_real_))
    expect_identical(is.na(out$mean), rep(n == 0, 2))
    expect_identical(is.na(out$q50), rep(n == 0, 2))
    expect_output(print(fit), "mh_draws")
  }
  expect_identical(is.na(summary(small_run(1, n_chains = 1))$sd), c(TRUE, TRUE))
})

test_that("without a sample quantiles are of the last states", {
  fit <- mh_sample(density_normal(0, 1), matrix(0, 3000, 1000), n_steps = 3, adapt = FALSE, keep = "summary", seed = 1)
  expect_null(fit$sample)
  expect_identical(fit$settings$store, 0)
  few <- fit[, 1:2]
  expect_identical(summary(few)$q50, apply(fit$state$x[, 1:2], 2, stats::median))
  expect_equal(unname(vcov(few)), stats::cov(fit$state$x[, 1:2]))
})

test_that("the table has a row per parameter and the columns that are documented", {
  out <- summary(small_run(50), probs = c(0.025, 0.25))
  expect_s3_class(out, "data.frame")
  expect_named(out, c("variable", "mean", "sd", "mcse", "min", "q2.5", "q25", "max", "rhat", "ess"))
  expect_identical(out$variable, c("a", "b"))
  fit <- small_run(50)
  expect_input_error(summary(fit, probs = 1.5), "probs", "1.5")
  expect_input_error(summary(fit, probs = NA), "probs")
  expect_identical(dimnames(vcov(fit)), list(c("a", "b"), c("a", "b")))
})

test_that("print() says what the run was, and returns it", {
  fit <- small_run(60, n_warmup = 40, thin = 2)
  out <- paste(utils::capture.output(print(fit)), collapse = "\n")
  for (part in c(
    "5 chains, 30 kept states each, 2 parameters", "40 steps of warm-up, then 60 steps, every 2nd kept; accepted 0.",
    "        a ", "rhat: split chains; ess and mcse: batches", "target: <density> normal in 2 dims",
    "seed: 11; double precision"
  )) {
    expect_match(out, part, fixed = TRUE)
  }
  expect_identical(print_quietly(fit), fit)
  many <- mh_sample(density_normal(0, 1), matrix(0, 64, 12),
    n_steps = 10, n_superchains = 8, keep = "summary", seed = 1
  )
  out <- paste(utils::capture.output(print(many)), collapse = "\n")
  parts <- c("64 chains in 8 superchains", "only sums and a sample", "... 2 more", "rhat: nested", "mcse: chains")
  for (part in parts) {
    expect_match(out, part, fixed = TRUE)
  }
  expect_identical(vapply(c(1:4, 11, 12, 21, 112, 1e6), ordinal, ""), c(
    "1st", "2nd", "3rd", "4th", "11th", "12th", "21st", "112th", "1000000th"
  ))
})
