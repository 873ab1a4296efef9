# is_weights(): closed forms, invariants and the edges of its inputs.

parts <- c("log_weights", "weights", "mean", "ess", "log_mean_weight")

test_that("a shift of all log weights moves the evidence by as much and nothing else", {
  withr::local_preserve_seed()
  set.seed(1)
  log_weights <- stats::rnorm(1000)
  samples <- grid_matrix(1000, 2, 301)
  base <- is_weights(samples, log_weights = log_weights)
  for (shift in c(-1e4, 1e4, -700, 700, 1e300)) {
    shifted <- is_weights(samples, log_weights = log_weights + shift)
    if (abs(shift) < 1e5) {
      # 1e4 + x keeps x to 1.8e-12
      expect_lt(max(abs(shifted$weights - base$weights)), 1e-12)
      expect_lt(abs(shifted$ess - base$ess), 1e-9)
      expect_lt(max(abs(shifted$mean - base$mean)), 1e-11)
      expect_lt(abs(shifted$log_mean_weight - base$log_mean_weight - shift), 1e-11)
    } else {
      # x drowns in the shift: all weights are equal
      expect_equal(shifted$weights, rep(1e-3, 1000))
      expect_equal(shifted$ess, 1000)
    }
  }
})

test_that("log weights far below zero do not underflow, far above do not overflow", {
  expected <- exp(c(0, -1, -2)) / sum(exp(c(0, -1, -2)))
  expect_equal(expected, c(0.665241, 0.244728, 0.090031), tolerance = 1e-5)
  for (top in c(-1000, -1e4, 0, 700, 1e4)) {
    result <- is_weights(log_weights = top - 0:2)
    expect_equal(result$weights, expected, tolerance = 1e-13)
    expect_equal(result$ess, 1.958699, tolerance = 1e-6)
    expect_equal(result$log_mean_weight, top - 0.691006, tolerance = 1e-6 / max(1, abs(top)))
  }
  wide <- is_weights(log_weights = c(0, -800, -1e4))
  expect_identical(wide$weights, c(1, exp(-800), 0))
  expect_identical(wide$ess, 1)
})

test_that("log weights of -Inf are weight zero", {
  result <- is_weights(log_weights = c(1e4, 1e4, -Inf))
  expect_equal(result$weights, c(0.5, 0.5, 0), tolerance = 1e-14)
  expect_equal(result$ess, 2, tolerance = 1e-14)
  expect_equal(result$log_mean_weight, 9999.594535, tolerance = 1e-10)
  expect_identical(result$log_weights, c(1e4, 1e4, -Inf))
  one <- expect_silent(is_weights(log_weights = c(0, -Inf, -Inf)))
  expect_identical(one$weights, c(1, 0, 0))
  expect_identical(one$ess, 1)
  expect_equal(one$log_mean_weight, -log(3), tolerance = 1e-14)
})

test_that("a zero weight on a sample that is not finite contributes nothing", {
  for (value in c(Inf, -Inf, NaN)) {
    samples <- matrix(c(1, value, 3, 2, 5, value), 3)
    result <- is_weights(samples[, 1, drop = FALSE], log_weights = c(0, -Inf, 0))
    expect_equal(result$mean, 2)
    result <- is_weights(samples, log_weights = c(0, -Inf, -Inf))
    expect_identical(as.vector(result$mean), c(1, 2))
    # among many, before and after samples that count
    for (n in c(300, 1000, 5000, 10000)) {
      samples <- grid_matrix(n, 2, 310)
      log_weights <- grid_values(n, 311)
      zero <- seq(2, n, by = 3)
      samples[zero, ] <- value
      log_weights[zero] <- -Inf
      result <- is_weights(samples, log_weights = log_weights)
      kept <- oracle_is_weights(samples[-zero, ], log_weights = log_weights[-zero])
      expect_equal(as.vector(result$mean), kept$mean, tolerance = 1e-12)
      expect_equal(result$ess, kept$ess, tolerance = 1e-12)
      # and where a weight is zero because it underflows
      log_weights[zero] <- -1e5
      expect_equal(as.vector(is_weights(samples, log_weights = log_weights)$mean), kept$mean, tolerance = 1e-12)
    }
  }
})

test_that("all log weights -Inf: NA, ESS 0 and one warning", {
  for (n in c(1, 3, 5000)) {
    warnings <- list()
    result <- withCallingHandlers(
      is_weights(matrix(1, n, 2), log_weights = rep(-Inf, n)),
      warning = function(w) {
        warnings <<- c(warnings, list(w))
        invokeRestart("muffleWarning")
      }
    )
    expect_length(warnings, 1)
    expect_s3_class(warnings[[1]], "fusedmc_warning_nonfinite")
    expect_identical(result$log_mean_weight, -Inf)
    expect_identical(as.vector(result$mean), c(NA_real_, NA_real_))
    expect_true(all(is.na(result$weights)) && !any(is.nan(result$weights)))
    expect_length(result$weights, n)
    expect_identical(result$ess, 0)
    expect_equal(result$n, n)
  }
})

test_that("no samples is an empty result without a warning", {
  for (result in list(
    expect_silent(is_weights(matrix(0, 0, 2), density_normal(0, 1))),
    expect_silent(is_weights(matrix(0, 0, 2), log_weights = numeric(0)))
  )) {
    expect_identical(result$log_weights, numeric(0))
    expect_identical(result$weights, numeric(0))
    expect_identical(as.vector(result$mean), c(NA_real_, NA_real_))
    expect_identical(result$ess, 0)
    expect_identical(result$log_mean_weight, -Inf)
    expect_equal(result$n, 0)
  }
  expect_identical(expect_silent(is_weights(log_weights = numeric(0)))$ess, 0)
  expect_identical(is_weights(log_weights = 0)$ess, 1)
})

test_that("one sample has all the weight", {
  result <- is_weights(matrix(4, 1, 1), log_weights = -7)
  expect_identical(result$weights, 1)
  expect_identical(result$ess, 1)
  expect_identical(result$log_mean_weight, -7)
  expect_identical(as.vector(result$mean), 4)
})

test_that("log weights +Inf or NaN are an error that names them, or dropped with a warning", {
  for (bad in c(Inf, NaN, NA)) {
    log_weights <- c(0, bad, 0, bad)
    condition <- expect_error(is_weights(log_weights = log_weights), class = "fusedmc_error")
    expect_match(conditionMessage(condition), "2")
    expect_match(conditionMessage(condition), "4")
  }
  expect_error(is_weights(log_weights = c(Inf, 0, 0)), class = "fusedmc_error_nonfinite")
  expect_error(is_weights(log_weights = c(0, NaN)), class = "fusedmc_error_nonfinite")
  for (bad in c(Inf, NaN)) {
    samples <- matrix(c(1, 100, 3, 100), 4)
    expect_warning(
      result <- is_weights(samples, log_weights = c(0, bad, 0, bad), nonfinite = "drop"),
      class = "fusedmc_warning_nonfinite"
    )
    expect_identical(result$log_weights, c(0, -Inf, 0, -Inf))
    expect_equal(result$weights, c(0.5, 0, 0.5, 0))
    expect_equal(as.vector(result$mean), 2)
    expect_equal(result$ess, 2)
    # they count in n
    expect_equal(result$n, 4)
    expect_equal(result$log_mean_weight, log(2 / 4))
  }
})

test_that("densities that make a weight NaN or +Inf are caught, and where both vanish dropped on request", {
  # beyond 1e154 the square of x overflows and the log density is -Inf
  far <- matrix(c(0.5, 1e200, 0.25), 3)
  expect_error(is_weights(far, density_normal(0, 1e200), density_normal(0, 1)), "2", class = "fusedmc_error_nonfinite")
  expect_error(is_weights(far, density_normal(0, 1), density_normal(0, 2)), "2", class = "fusedmc_error_nonfinite")
  zero <- expect_silent(is_weights(far, density_normal(0, 1), density_normal(0, 1e200)))
  expect_identical(zero$weights[2], 0)
  expect_warning(
    dropped <- is_weights(far, density_normal(0, 1), density_normal(0, 2), nonfinite = "drop"),
    class = "fusedmc_warning_nonfinite"
  )
  expect_identical(dropped$log_weights[2], -Inf)
  kept <- is_weights(far[-2, , drop = FALSE], density_normal(0, 1), density_normal(0, 2))
  expect_equal(dropped$weights[-2], kept$weights, tolerance = 1e-14)
  expect_equal(dropped$log_mean_weight, kept$log_mean_weight + log(2 / 3), tolerance = 1e-14)
})

test_that("equal weights: ESS is n and the evidence is the mean, not the sum", {
  result <- is_weights(log_weights = rep(log(2), 4))
  expect_equal(result$weights, rep(0.25, 4), tolerance = 1e-15)
  expect_equal(result$ess, 4, tolerance = 1e-15)
  expect_equal(is_weights(log_weights = numeric(1000))$log_mean_weight, 0, tolerance = 1e-15)
})

test_that("1 <= ESS <= n", {
  for (n in c(1, 2, 3, 10, 1000, 65537)) {
    for (spread in c(0, 1e-9, 1, 30, 1e4)) {
      ess <- is_weights(log_weights = grid_values(n, 302) * spread)$ess
      expect_gte(ess, 1)
      expect_lte(ess, n)
    }
  }
})

test_that("a permutation of rows permutes the weights and leaves mean and ESS", {
  n <- 4097
  samples <- grid_matrix(n, 3, 303)
  log_weights <- grid_values(n, 304)
  order <- rev(seq_len(n))
  for (route in c("log_weights", "target")) {
    run <- function(rows) {
      if (route == "target") {
        is_weights(samples[rows, ], case_target("mixture3", 3)$density)
      } else {
        is_weights(samples[rows, ], log_weights = log_weights[rows])
      }
    }
    straight <- run(seq_len(n))
    permuted <- run(order)
    expect_same_bits(permuted$log_weights, straight$log_weights[order])
    expect_equal(permuted$weights, straight$weights[order], tolerance = 1e-13)
    expect_equal(permuted$mean, straight$mean, tolerance = 1e-11)
    expect_equal(permuted$ess, straight$ess, tolerance = 1e-12)
    expect_equal(permuted$log_mean_weight, straight$log_mean_weight, tolerance = 1e-12)
  }
})

test_that("scaling a mixture's weights changes nothing: they are normalised", {
  samples <- grid_matrix(100, 1, 305)
  for (scale in c(1, 2, 2^-40)) {
    result <- is_weights(samples, density_mixture(c(1, 1) * scale, c(-1, 1), 1))
    expect_same_bits(result, is_weights(samples, density_mixture(c(0.5, 0.5), c(-1, 1), 1)))
  }
  equal <- is_weights(samples, density_mixture(c(1, 1), c(0, 0), 3))
  expect_equal(equal$log_weights, numeric(100), tolerance = 1e-14)
  expect_lt(abs(equal$log_mean_weight), 1e-14)
})

test_that("far samples keep their log weight", {
  x <- matrix(100)
  expect_equal(is_weights(x, density_normal(0, 1), density_normal(0, 10))$log_weights, -4947.697415, tolerance = 1e-10)
  expect_equal(is_weights(x, density_normal(0, 10), density_normal(0, 1))$log_weights, 4947.697415, tolerance = 1e-10)
})

# Delta method: ESS / n = m1^2 / m2 with m1, m2 the means of w and w^2.
ess_share_se <- function(log_weights) {
  w <- exp(log_weights)
  share <- mean(w)^2 / mean(w^2)
  share * stats::sd(2 * w / mean(w) - w^2 / mean(w^2)) / sqrt(length(w))
}

test_that("ESS, evidence and mean have their closed forms", {
  withr::local_preserve_seed()
  set.seed(7)
  n <- 200000
  z <- matrix(stats::rnorm(n), n)
  # target N(0, 1), proposal N(0, s^2): ESS / n -> sqrt(2 s^2 - 1) / s^2
  for (s in c(1.2, 2, 3)) {
    for (precision in case_precisions) {
      result <- is_weights(z * s, density_normal(0, 1), density_normal(0, s), precision = precision)
      w <- exp(result$log_weights)
      expect_mc(result$ess / n, sqrt(2 * s^2 - 1) / s^2, ess_share_se(result$log_weights), s)
      expect_mc(result$log_mean_weight, 0, stats::sd(w) / sqrt(n), s)
      expect_mc(as.vector(result$mean), 0, stats::sd(w * z * s) / sqrt(n), s)
    }
  }
  # target N(m, 1), proposal N(0, 1): ESS / n -> exp(-m^2)
  for (m in c(0.25, 0.5, 1)) {
    result <- is_weights(z, density_normal(m, 1), density_normal(0, 1))
    w <- exp(result$log_weights)
    expect_mc(result$ess / n, exp(-m^2), ess_share_se(result$log_weights), m)
    expect_mc(result$log_mean_weight, 0, stats::sd(w) / sqrt(n), m)
    expect_mc(as.vector(result$mean), m, stats::sd(w * (z - m)) / sqrt(n), m)
  }
})

test_that("thread counts give the same bits", {
  for (precision in case_precisions) {
    for (shape in list(c(1, 1), c(33, 5), c(4097, 3), c(100003, 2))) {
      samples <- grid_matrix(shape[1], shape[2], 306)
      target <- case_target("mixture3", shape[2])$density
      run <- function(n) with_threads(n, is_weights(samples, target, precision = precision, backend = "cpu"))
      expect_same_bits(run(2), run(1), paste(shape, collapse = "x"))
    }
  }
})

test_that("integers, logicals and data frames are taken as numbers, inputs stay as they are", {
  target <- density_normal(0, 1)
  expect_same_bits(is_weights(matrix(1:6, 3), target), is_weights(matrix(1:6 + 0, 3), target))
  expect_same_bits(is_weights(matrix(c(TRUE, FALSE), 2), target), is_weights(matrix(c(1, 0), 2), target))
  expect_identical(is_weights(data.frame(a = 1:3), target)$weights, is_weights(matrix(1:3 + 0), target)$weights)
  expect_named(is_weights(data.frame(a = 1:3), target)$mean, "a")
  expect_identical(is_weights(log_weights = 1:3)$weights, is_weights(log_weights = c(1, 2, 3))$weights)
  samples <- grid_matrix(100, 2, 307)
  log_weights <- c(-Inf, grid_values(99, 308))
  before <- list(bits_of(samples), bits_of(log_weights))
  for (precision in case_precisions) {
    is_weights(samples, target, precision = precision)
    is_weights(samples, log_weights = log_weights, precision = precision)
    suppressWarnings(
      is_weights(samples, log_weights = c(NaN, log_weights[-1]), nonfinite = "drop", precision = precision)
    )
  }
  expect_identical(list(bits_of(samples), bits_of(log_weights)), before)
})

test_that("a result survives saveRDS()", {
  result <- is_weights(grid_matrix(10, 2, 309), density_normal(0, 1))
  path <- withr::local_tempfile()
  saveRDS(result, path)
  expect_identical(readRDS(path), result)
})

test_that("a dropped sample may be anything: only the others are to blame for a mean that is not finite", {
  samples <- matrix(c(Inf, NaN, 1, 2))
  weigh <- function(log_weights) {
    suppressWarnings(is_weights(samples, log_weights = log_weights, nonfinite = "drop"))
  }
  expect_identical(weigh(c(-Inf, NaN, 0, 0))$mean, 1.5)
  error <- expect_error(weigh(c(0, NaN, 0, 0)), class = "fusedmc_error_input")
  expect_match(conditionMessage(error), "row 1;", fixed = TRUE)
})
