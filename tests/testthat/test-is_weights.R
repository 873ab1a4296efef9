# is_weights() against the oracle. A log weight is a difference of two log densities: 1e-12 relative
# to the sum of their sizes. Mean and ESS: 1e-10 relative to sum w |x| and to the ESS.

sizes <- c(1, 2, 31, 32, 33, 4095, 4096, 4097, 100003)

weight_faults <- function(result, expected, samples, precision, label, log_tolerance = NULL) {
  single <- precision == "single"
  tol_log <- if (single) 1e-5 else 1e-12
  # an error of e in a log weight is a relative error of e in the weight
  tol_sum <- if (single) 4 * tol_log * max(1, expected$scale) else 1e-10
  size <- if (is.null(samples)) NULL else colSums(abs(samples) * expected$weights)
  relative <- function(a, b) max(abs(as.vector(a) - as.vector(b)) / abs(as.vector(b)))
  faults <- c(
    n = !isTRUE(result$n == expected$n),
    log_weights = largest_relative(result$log_weights, expected$log_weights, expected$scale) > tol_log,
    weights = !isTRUE(relative(result$weights, expected$weights) < tol_sum),
    mean = if (is.null(samples)) !is.null(result$mean) else any(abs(result$mean - expected$mean) > tol_sum * size),
    ess = !isTRUE(relative(result$ess, expected$ess) < tol_sum),
    log_mean_weight = largest_relative(
      result$log_mean_weight, expected$log_mean_weight, max(1, expected$scale)
    ) > tol_log
  )
  if (any(faults)) paste(label, paste(names(which(faults)), collapse = "+")) else character()
}

compare_weights <- function(n, n_dim, target_kind, proposal, oracle_proposal, precision) {
  samples <- grid_matrix(n, n_dim, 101)
  target <- case_target(target_kind, n_dim)
  result <- is_weights(samples, target$density, proposal, precision = precision, backend = "cpu")
  expected <- oracle_is_weights(samples, target$oracle, oracle_proposal, precision = precision)
  weight_faults(result, expected, samples, precision, paste(n, "x", n_dim, target_kind, precision))
}

wide <- function(n_dim) oracle_mixture(1, matrix(0, 1, n_dim), matrix(3, 1, n_dim))

test_that("every number of samples gives the oracle's weights, mean and ESS", {
  for (n in sizes) {
    for (precision in case_precisions) {
      expect_none(compare_weights(n, 2, "normal", density_normal(0, 3), wide(2), precision))
      expect_none(compare_weights(n, 1, "mixture3", density_normal(0, 3), wide(1), precision))
    }
  }
})

test_that("every target and dimension gives the oracle's weights, mean and ESS", {
  for (n_dim in c(1, 2, 3, 4, 5, 8, 31, 32, 33, 64, 100, 130)) {
    faults <- character()
    for (target_kind in case_target_kinds) {
      for (precision in case_precisions) {
        faults <- c(faults, compare_weights(
          65, n_dim, target_kind, density_normal(0, 3), wide(n_dim), precision
        ))
      }
    }
    expect_none(faults)
  }
})

test_that("proposals of both kinds, with vectors of parameters and many components", {
  d <- 4
  for (kind in c("normal", "mixture3", "mixture7")) {
    proposal <- case_target(kind, d)
    samples <- grid_matrix(257, d, 102)
    target <- case_target("mixture2", d)
    result <- is_weights(samples, target$density, proposal$density, backend = "cpu")
    expect_none(weight_faults(
      result, oracle_is_weights(samples, target$oracle, proposal$oracle), samples, "double", kind
    ))
  }
  k <- 40
  weights <- grid_uniform(k, 103)
  means <- case_means(k, d)
  sds <- case_sds(k, d)
  result <- is_weights(samples, density_mixture(weights, means, sds), backend = "cpu")
  expected <- oracle_is_weights(samples, oracle_mixture(weights, means, sds), wide(d))
  expect_none(weight_faults(result, expected, samples, "double", "K = 40"))
})

test_that("the log_weights route gives the same sums, with and without samples", {
  for (n in sizes) {
    log_weights <- grid_values(n, 104) * 3
    samples <- grid_matrix(n, 3, 105)
    alone <- is_weights(log_weights = log_weights, backend = "cpu")
    expected <- oracle_is_weights(log_weights = log_weights)
    expect_none(weight_faults(alone, expected, NULL, "double", paste(n, "alone")))
    both <- is_weights(samples, log_weights = log_weights, backend = "cpu")
    expected <- oracle_is_weights(samples, log_weights = log_weights)
    expect_none(weight_faults(both, expected, samples, "double", paste(n, "samples")))
    expect_same_bits(alone$log_weights, log_weights)
    expect_same_bits(both$weights, alone$weights)
    expect_same_bits(both$ess, alone$ess)
  }
})

test_that("feeding the log weights back gives the same weights, mean and ESS bit for bit", {
  samples <- grid_matrix(5000, 3, 106)
  first <- is_weights(samples, case_target("mixture3", 3)$density)
  second <- is_weights(samples, log_weights = first$log_weights)
  for (part in c("log_weights", "weights", "mean", "ess", "log_mean_weight")) {
    expect_same_bits(second[[part]], first[[part]], part)
  }
})

test_that("weights = FALSE leaves out the vectors and changes nothing else", {
  samples <- grid_matrix(4097, 2, 107)
  target <- density_normal(0.5, 1)
  for (precision in case_precisions) {
    full <- is_weights(samples, target, precision = precision)
    lean <- is_weights(samples, target, weights = FALSE, precision = precision)
    expect_null(lean$log_weights)
    expect_null(lean$weights)
    for (part in c("mean", "ess", "log_mean_weight", "n")) {
      expect_same_bits(lean[[part]], full[[part]], part)
    }
  }
  lean <- is_weights(log_weights = c(0, 1), weights = FALSE)
  expect_null(lean$weights)
  expect_equal(lean$ess, (1 + exp(1))^2 / (1 + exp(2)))
})

test_that("the result has the documented parts, and columns name the mean", {
  samples <- grid_matrix(10, 3, 108)
  colnames(samples) <- c("a", "b", "c")
  result <- is_weights(samples, density_normal(0, 1))
  expect_s3_class(result, "fusedmc_is_weights")
  expect_setequal(names(result), c("log_weights", "weights", "mean", "ess", "log_mean_weight", "n"))
  expect_named(result$mean, c("a", "b", "c"))
  expect_length(result$weights, 10)
  expect_equal(sum(result$weights), 1, tolerance = 1e-14)
  expect_equal(result$n, 10)
  expect_null(names(is_weights(unname(samples), density_normal(0, 1))$mean))
  no_samples <- is_weights(log_weights = c(0, 1))
  expect_null(no_samples$mean)
  expect_s3_class(is_weights(log_weights = 0), "fusedmc_is_weights")
})

test_that("the default proposal is normal with mean 0 and sd 3", {
  samples <- grid_matrix(100, 2, 109)
  expect_same_bits(
    is_weights(samples, density_normal(0, 1)),
    is_weights(samples, density_normal(0, 1), density_normal(0, 3))
  )
})

test_that("single precision log weights are floats, its sums are taken in double", {
  samples <- grid_matrix(100003, 1, 110)
  single <- is_weights(samples, density_normal(0, 1), precision = "single")
  expect_identical(single$log_weights, f32(single$log_weights))
  # from the float log weights on, 1e-10: a float sum of 100003 terms would be off by 1e-6 or more
  expected <- oracle_is_weights(f32(samples), log_weights = single$log_weights)
  expect_lt(abs(single$ess / expected$ess - 1), 1e-10)
  expect_lt(abs(single$mean - expected$mean), 1e-10)
  expect_lt(abs(single$log_mean_weight - expected$log_mean_weight), 1e-10)
})
