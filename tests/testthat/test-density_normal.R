# log densities are read through mh_step(step_size = 0), which returns the one of x itself.
log_density_at <- function(density, x, ...) mh_step(x, density, 0, seed = 1, ...)$log_density

test_that("the log density is dnorm's, summed over dims", {
  x <- grid_matrix(50, 3, 401)
  expect_equal(log_density_at(density_normal(), x), rowSums(dnorm(x, log = TRUE)), tolerance = 1e-14)
  expect_equal(
    log_density_at(density_normal(c(1, 2, 3), c(0.5, 1, 2)), x),
    dnorm(x[, 1], 1, 0.5, TRUE) + dnorm(x[, 2], 2, 1, TRUE) + dnorm(x[, 3], 3, 2, TRUE),
    tolerance = 1e-14
  )
  expect_equal(
    log_density_at(density_normal(1:3, 2), x),
    rowSums(dnorm(x, matrix(1:3, 50, 3, byrow = TRUE), 2, TRUE)),
    tolerance = 1e-14
  )
  expect_equal(
    log_density_at(density_normal(1, c(0.5, 1, 2)), x),
    rowSums(dnorm(x, 1, matrix(c(0.5, 1, 2), 50, 3, byrow = TRUE), TRUE)),
    tolerance = 1e-14
  )
})

test_that("it is normalised and right at extremes", {
  expect_equal(log_density_at(density_normal(0, 1), matrix(0)), -0.918938533204673, tolerance = 1e-15)
  for (sd in c(1e-300, 1e-8, 1e8, 1e300)) {
    expect_equal(log_density_at(density_normal(0, sd), matrix(c(0, sd, 3 * sd))),
      dnorm(c(0, sd, 3 * sd), 0, sd, TRUE),
      tolerance = 1e-14
    )
  }
  expect_equal(log_density_at(density_normal(1e8, 1e-3), matrix(1e8 + 1)), dnorm(1e8 + 1, 1e8, 1e-3, TRUE))
})

test_that("a density has its class, and says what it is", {
  density <- density_normal(c(1, 2), 3)
  expect_s3_class(density, c("fusedmc_density_normal", "fusedmc_density"), exact = TRUE)
  expect_output(print(density), "normal")
  expect_type(format(density), "character")
  expect_identical(withVisible(print_quietly(density))$visible, FALSE)
  expect_output(print(density_normal(seq_len(1000), 1)), "1000")
  expect_lt(sum(nchar(format(density_normal(seq_len(1000), 1)))), 400)
})

test_that("lengths are 1 or a common d", {
  expect_input_error(density_normal(1:2, 1:3), "sd")
  expect_input_error(density_normal(numeric(0), 1), "mean")
  expect_input_error(density_normal(0, numeric(0)), "sd")
  expect_silent(density_normal(1:3, 1:3))
})

test_that("mean and sd are checked at once", {
  for (bad in list(NA, NaN, NA_real_, Inf, -Inf, "0", NULL, list(1), c(0, NaN), 1i)) {
    expect_input_error(density_normal(bad, 1), "mean")
    expect_input_error(density_normal(0, bad), "sd")
  }
  expect_input_error(density_normal(0, -1), "sd", "-1")
  expect_input_error(density_normal(0, 0), "sd", "0")
  expect_input_error(density_normal(0, c(1, 2, -3.5)), "sd", "-3.5")
  expect_input_error(density_normal(NaN, 1), "mean", "NaN")
  expect_input_error(density_normal(factor("a"), 1), "mean")
  expect_error(density_normal(mu = 0))
})

test_that("integers are numbers, and the arguments are not changed", {
  mu <- c(1, 2, 3)
  sd <- c(1, 2, 3)
  density <- density_normal(mu, sd)
  mh_step(matrix(0, 2, 3), density, seed = 1)
  expect_identical(mu, c(1, 2, 3))
  expect_identical(sum(sd), 6)
  expect_same_bits(
    log_density_at(density_normal(1:3, 1L), matrix(0.5, 2, 3)),
    log_density_at(density_normal(c(1, 2, 3), 1), matrix(0.5, 2, 3))
  )
})

test_that("a density of another dimension than x is an error", {
  expect_input_error(mh_step(matrix(0, 2, 2), density_normal(1:3, 1)), "target", "3")
  expect_input_error(is_weights(matrix(0, 2, 2), density_normal(1:3, 1)), "target", "3")
  expect_input_error(is_weights(matrix(0, 2, 2), density_normal(0, 1), density_normal(1:3, 1)), "proposal", "3")
})

test_that("names of means are names of parameters, and pass through combinations", {
  named <- density_normal(c(a = 0, b = 1), 2)
  expect_identical(named$parameters, c("a", "b"))
  expect_identical(density_normal(0, c(a = 1, b = 2))$parameters, c("a", "b"))
  expect_null(density_normal(c(a = 0))$parameters)
  expect_identical(colnames(draw(named, 2, seed = 1)), c("a", "b"))
  expect_identical(mh_sample(named, n_chains = 4, n_steps = 4, seed = 1)$parameters, c("a", "b"))
  expect_identical(density_student_t(3, c(a = 0, b = 1))$parameters, c("a", "b"))
  expect_identical(density_student_t(3, c(a = 0, b = 1), diag(2))$parameters, c("a", "b"))
  expect_identical(density_mvnormal(c(a = 0, b = 1), diag(2))$parameters, c("a", "b"))
  expect_identical(density_mixture(c(1, 1), cbind(a = 0:1, b = 1:2), 1)$parameters, c("a", "b"))
  expect_identical(density_tempered(density_product(density_normal(), named), 0.5)$parameters, c("a", "b"))
  expect_identical(density_mixture(c(1, 1), components = list(density_normal(), named))$parameters, c("a", "b"))
})
