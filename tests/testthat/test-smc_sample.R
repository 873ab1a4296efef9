# smc_sample(): evidence and moments against closed forms, the same bits however it runs, bad input.

# Fits over seeds against the exact log evidence: each within its standard error, and no bias. The standard error has as
# many degrees of freedom as islands, less one.
expect_evidence <- function(run, exact, n_seeds, largest_se, info = NULL) {
  fits <- lapply(seq_len(n_seeds), run)
  df <- fits[[1]]$settings$n_islands - 1
  se <- vapply(fits, function(fit) fit$log_evidence_se, 0)
  z <- (vapply(fits, function(fit) fit$log_evidence, 0) - exact) / se
  shown <- paste(c(info, "z:", format(z, digits = 3)), collapse = " ")
  expect_true(all(abs(z) < stats::qt(1 - 1e-5, df)), info = shown)
  expect_lt(abs(mean(z)), 4 * sqrt(df / (df - 2) / n_seeds))
  expect_lt(sqrt(mean(z^2)), 1.08 * (1 + 4 / sqrt(2 * n_seeds)))
  expect_lt(sqrt(mean(se^2)), largest_se)
  invisible(fits)
}

normal_case <- function(d) {
  list(target = density_normal(seq(-1, 1, length.out = d), rep_len(c(0.3, 1, 2), d)), initial = density_normal(0, 3))
}

mixture_case <- function(d) {
  target <- density_mixture(c(0.3, 0.7), means = rbind(rep(-3, d), rep(3, d)), sds = 0.7)
  list(target = target, initial = density_normal(0, 6))
}

run_case <- function(case, ...) {
  function(seed) smc_sample(case$target, case$initial, ..., seed = seed)
}

# Log evidence of y = X b + noise with normal priors: y is normal.
gaussian_case <- function() {
  prior_sd <- c(20, 5, 0.1, 2)
  X <- stats::model.matrix(mpg ~ wt + hp + qsec, datasets::mtcars)
  y <- datasets::mtcars$mpg
  S <- 2.5^2 * diag(nrow(X)) + X %*% (prior_sd^2 * t(X))
  target <- density_glm(mpg ~ wt + hp + qsec, datasets::mtcars, sigma = 2.5, prior_sd = prior_sd)
  half_log_det <- as.numeric(determinant(S)$modulus) / 2
  b <- solve(crossprod(X) / 2.5^2 + diag(prior_sd^-2), crossprod(X, y) / 2.5^2)
  list(
    target = target, initial = density_normal(0, prior_sd),
    exact = -nrow(X) / 2 * log(2 * pi) - half_log_det - sum(y * solve(S, y)) / 2, mean = as.vector(b)
  )
}

test_that("the evidence of normals is 1, within its standard error", {
  for (d in c(2, 8)) {
    expect_evidence(run_case(normal_case(d)), 0, 3, 0.12, d)
  }
  expect_evidence(run_case(normal_case(8), covariance = "diagonal", precision = "single"), 0, 3, 0.12, "single")
  # 32 dims with few particles: learning shapes from themselves would make it too large by 0.25
  expect_evidence(run_case(normal_case(32), n_particles = 2048, n_moves = 64), 0, 3, 0.25, 32)
})

test_that("the evidence of a mixture with modes apart, and their shares", {
  for (d in c(2, 4)) {
    fits <- expect_evidence(run_case(mixture_case(d)), 0, 3, 0.12, d)
    for (fit in fits) {
      shares <- colMeans(matrix(fit$draws[, d] > 0, ncol = 16))
      expect_lt(abs(mean(shares) - 0.7), 4.5 * stats::sd(shares) / 4)
      expect_lt(stats::sd(shares) / 4, 0.04)
    }
  }
})

test_that("the evidence of a regression, and its posterior means", {
  case <- gaussian_case()
  fits <- expect_evidence(run_case(case), case$exact, 3, 0.15)
  for (fit in fits) {
    table <- summary(fit)
    expect_true(all(abs(table$mean - case$mean) < 4.9 * table$mcse))
    expect_true(all(table$mcse < 0.1 * table$sd))
    expect_identical(table$variable, c("(Intercept)", "wt", "hp", "qsec"))
  }
})

test_that("evidences over 20 seeds, in up to 32 dims", {
  skip_unless_long()
  for (d in c(2, 8, 32)) {
    expect_evidence(run_case(normal_case(d)), 0, 20, 0.12, d)
  }
  for (d in c(2, 8)) {
    expect_evidence(run_case(mixture_case(d)), 0, 20, 0.12, d)
  }
  case <- gaussian_case()
  expect_evidence(run_case(case), case$exact, 20, 0.15)
  # a logistic regression, against importance sampling from a t at its mode
  post <- density_glm(am ~ wt + qsec, datasets::mtcars, family = stats::binomial(), prior_sd = 2.5)
  fit <- mh_sample(post, n_chains = 256, n_steps = 400, seed = 5, keep = "draws")
  t_around <- density_student_t(8, summary(fit)$mean, vcov(fit))
  x <- draw(t_around, 2e6, seed = 6)
  exact <- is_weights(x, post, t_around, weights = FALSE)$log_mean_weight
  expect_evidence(run_case(list(target = post, initial = density_normal(0, rep(2.5, 3)))), exact, 20, 0.1)
})

test_that("moments of the draws", {
  fit <- small_smc(n_particles = 8192)
  table <- summary(fit)
  expect_true(all(abs(table$mean - c(1, -1)) < 4.9 * table$mcse))
  expect_equal(table$sd, c(0.5, 1), tolerance = 0.05)
  expect_equal(unname(vcov(fit)[1, 2]), 0, tolerance = 0.03)
  ks <- stats::ks.test(fit$draws[seq(1, 8192, by = 16), 1], "pnorm", 1, 0.5)
  expect_gt(ks$p.value, 1e-4)
})

test_that("threads, instruction sets and the wish for a GPU change no bit", {
  one <- with_threads(1, small_smc(n_particles = 4096))
  expect_same_bits(smc_bare(with_threads(2, small_smc(n_particles = 4096))), smc_bare(one))
  for (level in simd_levels()) {
    expect_same_bits(smc_bare(with_simd(level, small_smc(n_particles = 4096))), smc_bare(one), info = level)
  }
  split <- smc_sample(one$target, one$initial, 4096, seed = 1, devices = c("cpu", "cpu"))
  expect_same_bits(smc_bare(split), smc_bare(one))
})

test_that("a GPU gives the same bits", {
  skip_without_gpu()
  for (precision in case_precisions) {
    for (d in c(1, 2, 8)) {
      run <- function(backend) {
        case <- mixture_case(d)
        smc_bare(smc_sample(case$target, case$initial, 2048, n_dim = d, seed = d, precision = precision,
          backend = backend
        ))
      }
      expect_same_bits(run("cuda"), run("cpu"), info = paste(precision, d))
    }
  }
  case <- gaussian_case()
  run <- function(devices) smc_bare(smc_sample(case$target, case$initial, 1024, seed = 3, devices = devices))
  expect_same_bits(run(0), run("cpu"))
  expect_same_bits(run(c("cpu", "0")), run("cpu"))
})

test_that("a function of R gives the bits of the density it calls", {
  normal <- density_normal(c(1, -1), c(0.5, 1))
  in_r <- density_function(n_dim = 2, function(x) log_density(normal, x, backend = "cpu"))
  a <- small_smc(target = in_r)
  b <- small_smc(target = normal)
  for (part in c("draws", "islands", "stages", "log_evidence_se")) {
    expect_same_bits(a[[part]], b[[part]], info = part)
  }
})

test_that("the seed governs, and set.seed() where there is none", {
  case <- normal_case(2)
  expect_false(identical(small_smc(seed = 1)$draws, small_smc(seed = 2)$draws))
  set.seed(4)
  a <- smc_sample(case$target, case$initial, 128)
  set.seed(4)
  b <- smc_sample(case$target, case$initial, 128)
  expect_same_bits(smc_bare(a), smc_bare(b))
  expect_same_bits(a$draws, smc_sample(case$target, case$initial, 128, seed = a$seed)$draws)
  before <- .Random.seed
  small_smc()
  expect_identical(.Random.seed, before)
})

test_that("from a density to itself it is one stage, of evidence 1", {
  density <- density_normal(c(0, 1), c(1, 2))
  fit <- small_smc(target = density, initial = density)
  expect_identical(fit$log_evidence, 0)
  expect_identical(fit$log_evidence_se, 0)
  expect_identical(fit$temperatures, c(0, 1))
  expect_identical(fit$stages$ess, 512)
  expect_identical(fit$stages$unique, 1)
})

test_that("one island has no standard error; one dim and one particle are no special case", {
  fit <- small_smc(n_islands = 1)
  expect_identical(fit$log_evidence_se, NA_real_)
  expect_true(all(is.na(summary(fit)[c("mcse", "ess")])))
  expect_lt(abs(fit$log_evidence), 0.5)
  fit <- smc_sample(density_normal(2, 0.5), density_normal(0, 3), 1024, n_dim = 1, seed = 1)
  expect_identical(dim(fit$draws), c(1024L, 1L))
  expect_lt(abs(fit$log_evidence), 4.9 * fit$log_evidence_se)
  expect_equal(mean(fit$draws), 2, tolerance = 0.05)
  fit <- smc_sample(density_normal(2, 0.5), density_normal(0, 3), 1, n_dim = 1, seed = 1)
  expect_identical(dim(fit$draws), c(1L, 1L))
  expect_identical(fit$beta, 1)
  fit <- smc_sample(density_normal(2, 0.5), density_normal(0, 3), 3, n_dim = 2, n_islands = 3, seed = 1)
  expect_identical(fit$beta, 1)
})

test_that("regions of density zero are left, and their share counts in the evidence", {
  half <- density_function(n_dim = 2, function(x) ifelse(x[, 1] > 0, -rowSums(x^2) / 2, -Inf))
  in_c <- density_source(
    "double log_density(const double *x, int n_dim) {
       return x[0] > 0 ? -(x[0] * x[0] + x[1] * x[1]) / 2 : -INFINITY;
     }",
    n_dim = 2
  )
  for (target in list(half, in_c)) {
    fits <- expect_evidence(run_case(list(target = target, initial = density_normal(0, 4))), log(pi), 3, 0.1)
    expect_true(all(fits[[1]]$draws[, 1] > 0))
    expect_equal(mean(fits[[1]]$draws[, 1]), sqrt(2 / pi), tolerance = 0.05)
  }
  # a share of 1 in 50 has a positive weight, less than the threshold
  corner <- density_function(n_dim = 1, function(x) ifelse(x[, 1] > 0.98 & x[, 1] < 1, 0, -Inf))
  wide <- density_mixture(rep(1, 2), means = c(0.25, 0.75), sds = 0.2)
  fit <- smc_sample(corner, wide, 8192, n_islands = 8, seed = 1)
  expect_lt(abs(fit$log_evidence - log(0.02)), 4.9 * fit$log_evidence_se)
  expect_true(all(fit$draws > 0.98 & fit$draws < 1))
})

test_that("a target that is nowhere, or nowhere in an island, is an error that says so", {
  far <- density_function(n_dim = 2, function(x) ifelse(x[, 1] > 1e3, 0, -Inf))
  error <- expect_error(small_smc(target = far), class = "fusedmc_error_nonfinite")
  expect_match(conditionMessage(error), "`initial` must cover `target`")
  rare <- density_function(n_dim = 2, function(x) ifelse(x[, 1] > 6, 0, -Inf))
  error <- expect_error(small_smc(target = rare, n_islands = 256), class = "fusedmc_error_nonfinite")
  expect_match(conditionMessage(error), "all 2 particles of island")
  expect_true(length(error$islands) > 100)
})

test_that("log densities of NaN and +Inf: an error at the start, or dropped; at proposals rejected and counted", {
  for (bad in c(NaN, Inf)) {
    target <- density_function(n_dim = 2, function(x) ifelse(x[, 1] > 1, bad, -rowSums(x^2) / 2))
    error <- expect_error(small_smc(target = target), class = "fusedmc_error_nonfinite")
    x <- draw(density_normal(0, 3), 512, start_seed(1), n_dim = 2)
    expect_identical(error$indices, utils::head(which(x[, 1] > 1), 5))
    expect_identical(error$n, sum(x[, 1] > 1))
    warnings <- testthat::capture_warnings(fit <- small_smc(target = target, nonfinite = "drop", n_particles = 4096))
    expect_length(warnings, 2)
    expect_match(warnings[1], "which got weight zero")
    expect_match(warnings[2], "Rejected [0-9]+ proposals .* the first: particle [0-9]+ at step [0-9]+")
    expect_gt(fit$not_finite[["n"]], 100)
    expect_gt(fit$n_dropped, 1000)
    expect_true(all(fit$draws[, 1] <= 1))
    expect_lt(abs(fit$log_evidence - log(2 * pi * stats::pnorm(1))), 4.9 * fit$log_evidence_se)
  }
  silent <- small_smc()
  expect_identical(silent$not_finite, c(n = 0, step = NA, row = NA))
})

test_that("n_moves, covariance and ess_threshold do what they say", {
  fit <- small_smc(n_moves = 7)
  expect_true(all(fit$stages$n_moves == 7))
  expect_identical(small_smc(covariance = "diagonal")$settings$covariance, "diagonal")
  expect_length(small_smc(covariance = "diagonal")$state$proposals[[1]]$base, 2)
  expect_identical(dim(small_smc(covariance = "full")$state$proposals[[2]]$base), c(2L, 2L))
  expect_identical(small_smc()$settings$covariance, "full")
  expect_identical(choose_covariance("auto", 1e5, 51), "diagonal")
  expect_identical(choose_covariance("auto", 499, 50), "diagonal")
  expect_identical(choose_covariance("auto", 500, 50), "full")
  for (threshold in c(0.2, 0.9)) {
    fit <- small_smc(ess_threshold = threshold, n_particles = 1024)
    all_but_last <- utils::head(fit$stages$ess, -1)
    expect_equal(all_but_last, rep(1024 * threshold, length(all_but_last)), tolerance = 1e-5)
    expect_gte(utils::tail(fit$stages$ess, 1), 1024 * threshold)
  }
  expect_gt(nrow(small_smc(ess_threshold = 0.9)$stages), nrow(small_smc(ess_threshold = 0.2)$stages))
  # correlated dims: only the full shape gets far
  S <- matrix(c(1, 0.999, 0.999, 1), 2)
  narrow <- small_smc(target = density_mvnormal(c(0, 0), S), covariance = "diagonal", n_moves = 10)
  full <- small_smc(target = density_mvnormal(c(0, 0), S), covariance = "full", n_moves = 10)
  expect_gt(utils::tail(full$stages$jump, 1), 2 * utils::tail(narrow$stages$jump, 1))
})

test_that("the default of n_islands", {
  expect_identical(check_n_islands(NULL, 4096), 16)
  expect_identical(check_n_islands(NULL, 1000), 8)
  expect_identical(check_n_islands(NULL, 1004), 4)
  expect_identical(check_n_islands(NULL, 1023), 1)
  expect_identical(check_n_islands(NULL, 100), 1)
  expect_identical(check_n_islands(NULL, 1024), 16)
  expect_identical(check_n_islands(NULL, 1008), 8)
})

test_that("names of parameters", {
  expect_identical(colnames(small_smc()$draws), c("a", "b"))
  plain <- density_normal(c(1, 0), 1)
  expect_identical(small_smc(target = plain)$parameters, c("x[1]", "x[2]"))
  expect_identical(small_smc(target = plain, initial = density_normal(c(u = 0, v = 0), 3))$parameters, c("u", "v"))
})

test_that("progress is a line a stage on the standard error, and none by default", {
  expect_silent(small_smc())
  said <- testthat::capture_messages(expect_output(small_smc(progress = TRUE), NA))
  expect_match(said[1], "^stage 1: inverse temperature 0[.0-9]+, ESS 256, [0-9]+ moves, accepted 0[.0-9]+\n$")
  expect_match(said[length(said)], "inverse temperature 1,")
})

test_that("bad arguments are errors that name them", {
  target <- density_normal(c(0, 0), 1)
  initial <- density_normal(0, 3)
  bad <- function(..., argument, value = NULL) expect_input_error(smc_sample(...), argument, value)
  bad(1, initial, argument = "target")
  bad(target, "normal", argument = "initial", value = "normal")
  bad(target, density_normal(c(0, 0, 0), 1), argument = "initial", value = "2 dims")
  bad(target, density_product(initial, initial), argument = "initial", value = "normalised")
  bad(target, density_tempered(initial, 0.5), argument = "initial", value = "normalised")
  bad(target, density_function(function(x) x[, 1]), argument = "initial", value = "function of R")
  bad(density_normal(0, 1), initial, argument = "n_dim", value = "NULL")
  bad(target, initial, n_dim = 3, argument = "n_dim", value = "3")
  bad(density_normal(0, 1), initial, n_dim = 1.5, argument = "n_dim", value = "1.5")
  bad(target, initial, n_particles = 0, argument = "n_particles", value = "0")
  bad(target, initial, n_particles = 100, n_islands = 3, argument = "n_islands", value = "divides the 100")
  bad(target, initial, n_particles = 100, n_islands = 200, argument = "n_islands", value = "200")
  for (threshold in list(0, 1, NA_real_, "a", c(0.1, 0.2))) {
    bad(target, initial, ess_threshold = threshold, argument = "ess_threshold")
  }
  for (n_moves in list(0, 1.5, "many", NULL, NA_real_, 1e7)) {
    bad(target, initial, n_moves = n_moves, argument = "n_moves")
  }
  bad(target, initial, covariance = "none", argument = "covariance", value = "none")
  bad(target, initial, max_stages = 5000, argument = "max_stages", value = "5000")
  bad(target, initial, nonfinite = "keep", argument = "nonfinite", value = "keep")
  bad(target, initial, seed = -1, argument = "seed", value = "-1")
  bad(target, initial, precision = "half", argument = "precision", value = "half")
  bad(target, initial, backend = "gpu", argument = "backend", value = "gpu")
  bad(target, initial, devices = "tpu", argument = "devices", value = "tpu")
  bad(target, initial, progress = 2, argument = "progress", value = "2")
  expect_error(
    withr::with_options(list(fusedmc.max_gb = 0.01), smc_sample(target, initial, 1e6)),
    class = "fusedmc_error_memory"
  )
})
