log_density_at <- function(density, x, ...) mh_step(x, density, 0, seed = 1, ...)$log_density

test_that("the log density is the log-sum-exp over components", {
  x <- grid_matrix(60, 2, 501)
  means <- matrix(c(-1, 0, 1, 2, 3, 4), 3, 2)
  sds <- matrix(c(0.5, 1, 1.5, 2, 2.5, 3), 3, 2)
  w <- c(0.2, 0.3, 0.5)
  by_hand <- log(
    0.2 * dnorm(x[, 1], -1, 0.5) * dnorm(x[, 2], 2, 2) +
      0.3 * dnorm(x[, 1], 0, 1) * dnorm(x[, 2], 3, 2.5) +
      0.5 * dnorm(x[, 1], 1, 1.5) * dnorm(x[, 2], 4, 3)
  )
  expect_equal(log_density_at(density_mixture(w, means, sds), x), by_hand, tolerance = 1e-13)
  one_sd <- log(0.2 * dnorm(x[, 1], -1, 2) * dnorm(x[, 2], 2, 2) +
    0.3 * dnorm(x[, 1], 0, 2) * dnorm(x[, 2], 3, 2) + 0.5 * dnorm(x[, 1], 1, 2) * dnorm(x[, 2], 4, 2))
  expect_equal(log_density_at(density_mixture(w, means, 2), x), one_sd, tolerance = 1e-13)
})

test_that("in one dimension means and sds may be vectors", {
  x <- grid_matrix(20, 1, 502)
  expect_equal(
    log_density_at(density_mixture(c(1, 3), c(-1, 1), c(0.5, 2)), x),
    log(0.25 * dnorm(x[, 1], -1, 0.5) + 0.75 * dnorm(x[, 1], 1, 2)),
    tolerance = 1e-13
  )
  expect_same_bits(
    log_density_at(density_mixture(c(1, 3), matrix(c(-1, 1)), matrix(c(0.5, 2))), x),
    log_density_at(density_mixture(c(1, 3), c(-1, 1), c(0.5, 2)), x)
  )
})

test_that("far from every component the log density does not underflow", {
  density <- density_mixture(c(0.5, 0.5), c(-10, 10), 1)
  far <- log_density_at(density, matrix(c(1000, -1000, 0)))
  expect_equal(far, c(rep(log(0.5) + dnorm(990, log = TRUE), 2), dnorm(10, log = TRUE)), tolerance = 1e-14)
  # one component at -Inf, the other not
  expect_equal(
    log_density_at(density_mixture(c(0.5, 0.5), c(0, 0), c(1, 1e200)), matrix(1e200)),
    log(0.5) + dnorm(1e200, 0, 1e200, TRUE)
  )
})

test_that("components of weight zero contribute nothing", {
  expect_equal(
    log_density_at(density_mixture(c(1, 0), c(0, 0), c(1, 1)), matrix(0)), -0.918938533204673,
    tolerance = 1e-15
  )
  x <- grid_matrix(40, 2, 503)
  means <- case_means(3, 2)
  sds <- case_sds(3, 2)
  for (precision in case_precisions) {
    expect_same_bits(
      log_density_at(density_mixture(c(1, 0, 1), means, sds), x, precision = precision),
      log_density_at(density_mixture(c(1, 1), means[-2, ], sds[-2, ]), x, precision = precision)
    )
  }
  # at the mean of the weightless component, far from the other
  density <- density_mixture(c(1, 0), c(0, 1e100), 1)
  expect_equal(log_density_at(density, matrix(50)), dnorm(50, log = TRUE))
})

test_that("a single component is the normal density", {
  x <- grid_matrix(40, 3, 504)
  expect_equal(
    log_density_at(density_mixture(5, matrix(1:3, 1), matrix(3:1, 1)), x),
    log_density_at(density_normal(1:3, 3:1), x),
    tolerance = 1e-14
  )
})

test_that("a density has its class, and says what it is", {
  density <- density_mixture(c(1, 2), matrix(0, 2, 3), 1)
  expect_s3_class(density, c("fusedmc_density_mixture", "fusedmc_density"), exact = TRUE)
  expect_output(print(density), "mixture")
  expect_output(print(density), "2")
  expect_output(print(density), "3")
  expect_type(format(density), "character")
  expect_identical(withVisible(print_quietly(density))$visible, FALSE)
})

test_that("weights are checked", {
  means <- c(0, 1)
  expect_input_error(density_mixture(c(1, -0.5), means, 1), "weights", "-0.5")
  expect_input_error(density_mixture(c(0, 0), means, 1), "weights", "0")
  for (bad in list(c(1, NA), c(1, NaN), c(1, Inf), c("1", "2"), NULL, numeric(0), list(1, 2))) {
    expect_input_error(density_mixture(bad, means, 1), "weights")
  }
  expect_input_error(density_mixture(c(1, 1, 1), means, 1), "means", "c(0, 1)")
  expect_error(density_mixture(c(1, 1)))
  expect_silent(density_mixture(c(1e308, 1e308), means, 1))
})

test_that("huge weights are normalised without overflow", {
  x <- grid_matrix(5, 1, 505)
  expect_equal(
    log_density_at(density_mixture(c(1e308, 1e308), c(0, 1), 1), x),
    log_density_at(density_mixture(c(1, 1), c(0, 1), 1), x),
    tolerance = 1e-14
  )
})

test_that("means are checked", {
  expect_input_error(density_mixture(c(1, 1), matrix(0, 3, 2), 1), "means", "3")
  expect_input_error(density_mixture(c(1, 1), matrix(0, 2, 0), 1), "means")
  for (bad in list(c(0, NA), c(0, NaN), c(0, Inf), c("a", "b"), NULL, array(0, c(2, 1, 1)))) {
    expect_input_error(density_mixture(c(1, 1), bad, 1), "means")
  }
})

test_that("sds are checked in every component, also in those of weight zero", {
  means <- c(0, 1)
  expect_input_error(density_mixture(c(1, 0), means, c(1, 0)), "sds", "0")
  expect_input_error(density_mixture(c(1, 1), means, c(1, -2)), "sds", "-2")
  for (bad in list(0, -1, NA, NaN, Inf, c(1, NA), "1", NULL, c(1, 1, 1), numeric(0))) {
    expect_input_error(density_mixture(c(1, 1), means, bad), "sds")
  }
  expect_input_error(density_mixture(c(1, 1), matrix(0, 2, 3), matrix(1, 2, 2)), "sds")
  expect_input_error(density_mixture(c(1, 1), matrix(0, 2, 2), c(1, 1)), "sds")
})

test_that("a mixture of another dimension than x is an error", {
  density <- density_mixture(c(1, 1), matrix(0, 2, 3), 1)
  expect_input_error(mh_step(matrix(0, 2, 2), density), "target", "3")
  expect_input_error(is_weights(matrix(0, 2, 2), density), "target", "3")
  expect_input_error(is_weights(matrix(0, 2, 2), density_normal(0, 1), density), "proposal", "3")
})
