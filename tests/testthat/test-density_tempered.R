test_that("the log density is beta times", {
  x <- grid_matrix(40, 3, 960)
  density <- density_mixture(c(1, 2), components = list(density_normal(0, 1), density_student_t(3, 1:3)))
  for (precision in case_precisions) {
    value <- log_density(density, x, precision)
    for (beta in c(1e-10, 0.1, 0.5, 1, 7, 1000)) {
      expect_same_bits(
        log_density(density_tempered(density, beta), x, precision),
        round_to(round_to(beta, precision) * value, precision)
      )
    }
    twice <- density_tempered(density_tempered(density, 0.25), 4)
    expect_same_bits(log_density(twice, x, precision), value)
  }
})

test_that("beta = 0 is the constant 1, even where the density is zero", {
  x <- matrix(c(-1, 1, 1e200))
  half_line <- function(x) ifelse(x[, 1] > 0, 0, -Inf)
  for (density in list(density_function(half_line), density_normal(0, 1))) {
    for (precision in case_precisions) {
      expect_identical(log_density(density_tempered(density, 0), x, precision), c(0, 0, 0))
    }
  }
  expect_true(all(mh_step(matrix(0, 500, 2), density_tempered(density_normal(0, 1), 0), 3, seed = 1)$accepted))
})

test_that("the power of a function of R", {
  f <- density_function(function(x) ifelse(x[, 1] > 0, -x[, 1]^2, -Inf))
  expect_identical(log_density(density_tempered(f, 0.3), matrix(c(-1, 2))), c(-Inf, 0.3 * -4))
  expect_same_bits(log_density(density_tempered(f, 0.3), matrix(1.1), "single"), f32(f32(0.3) * f32(-f32(1.1)^2)))
})

test_that("a tempered normal moves as a wider one", {
  x <- matrix(0, 1e5, 1)
  out <- mh_step(x, density_tempered(density_normal(0, 1), 0.25), 2.4, seed = 9)
  expect_rate(out$accepted, acceptance_at_mode(1.2, 1))
})

test_that("arguments are checked", {
  a <- density_normal(0, 1)
  for (bad in list(-1, NA, NaN, Inf, "1", NULL, c(1, 2), numeric(0), 1e39)) {
    expect_input_error(density_tempered(a, bad), "beta")
  }
  for (bad in list(3, NULL, "a", list())) {
    expect_input_error(density_tempered(bad, 1), "density")
  }
})

test_that("it says what it is", {
  density <- density_tempered(density_normal(1:2, 1), 0.5)
  expect_s3_class(density, c("fusedmc_density_tempered", "fusedmc_density"), exact = TRUE)
  expect_identical(density$n_dim, 2L)
  expect_output(print(density), "<density> (normal in 2 dims: mean (1, 2), sd 1) to the power 0.5", fixed = TRUE)
})
