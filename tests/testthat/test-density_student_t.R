test_that("the log density is that of mvtnorm and of the formula", {
  skip_if_not_installed("mvtnorm")
  for (d in c(1:5, 8, 9, 33, 50, 500)) {
    for (df in c(0.3, 1, 2.5, 30, 1e6)) {
      sigma <- grid_covariance(d, 920 + d)
      mean <- grid_values(d, 921)
      x <- 3 * grid_matrix(33, d, 922)
      density <- density_student_t(df, mean, sigma)
      oracle <- oracle_elliptical(oracle_part(mean, sigma, df))
      expect_lt(oracle_error(density, oracle, x), 1e-12)
      expect_lt(oracle_error(density, oracle, x, "single"), 1e-4)
      if (df <= 30) {
        theirs <- mvtnorm::dmvt(x, mean, sigma, df = df, log = TRUE)
        expect_lt(largest_relative(log_density(density, x), theirs, oracle$scale(x)), 1e-12)
      }
      scale <- as.vector(case_sds(1, d))
      oracle <- oracle_elliptical(oracle_part(mean, diag(scale^2, d), df))
      expect_lt(oracle_error(density_student_t(df, mean, scale), oracle, x), 1e-12)
      expect_lt(oracle_error(density_student_t(df, mean, scale), oracle, x, "single"), 1e-5)
    }
  }
})

test_that("in one dim it is dt(), moved and scaled", {
  x <- matrix(c(-50, -1, 0, 0.3, 2, 1000))
  for (df in c(0.01, 0.5, 1, 4, 342, 1e5)) {
    expect_equal(
      log_density(density_student_t(df, 1, 2), x), dt((x[, 1] - 1) / 2, df, log = TRUE) - log(2), tolerance = 1e-12
    )
  }
})

test_that("huge df go over into the normal, never into a flat density", {
  values <- c(-1.837877066409345, -1.538688, -1.4203998, rep(-1.418938533204673, 4))
  dfs <- c(1, 4, 342, 1e10, 1e15, 1e17, Inf)
  for (k in seq_along(dfs)) {
    density <- density_student_t(dfs[k])
    expect_equal(log_density(density, matrix(1)), values[k], tolerance = 1e-6)
    expect_equal(log_density(density, matrix(1), "single"), values[k], tolerance = 1e-6)
  }
  # df = 1e10 differs from the normal by (q^2 - 2 q - 1) / (4 df) at q = 1
  expect_equal(
    vapply(dfs[4:7], function(df) log_density(density_student_t(df), matrix(1)), 0),
    dnorm(1, log = TRUE) - 0.5 / dfs[4:7],
    tolerance = 1e-15
  )
  x <- grid_matrix(20, 5, 923)
  sigma <- grid_covariance(5, 924)
  for (precision in case_precisions) {
    expect_same_bits(
      log_density(density_student_t(Inf, 1, sigma), x, precision), log_density(density_mvnormal(1, sigma), x, precision)
    )
    expect_same_bits(
      log_density(density_student_t(Inf, 1, 2), x, precision), log_density(density_normal(1, 2), x, precision)
    )
  }
  # beyond the largest float
  expect_same_bits(
    log_density(density_student_t(1e60, 0, sigma), x, "single"), log_density(density_mvnormal(0, sigma), x, "single")
  )
})

test_that("a chain on a t of huge df moves as on a normal", {
  for (precision in case_precisions) {
    for (df in c(1e10, 1e17, Inf)) {
      out <- mh_step(matrix(0, 1e5, 1), density_student_t(df), 2.4, seed = 31, precision = precision)
      expect_rate(out$accepted, acceptance_at_mode(2.4, 1), paste(df, precision))
    }
  }
})

test_that("it is multivariate, not a product", {
  x <- matrix(c(1, 1), 1)
  expect_equal(log_density(density_student_t(4), x), -3.054272, tolerance = 1e-6)
  expect_false(isTRUE(all.equal(log_density(density_student_t(4), x), 2 * dt(1, 4, log = TRUE))))
  # one matrix of independent scales, one vector of them
  expect_same_bits(
    log_density(density_student_t(4, 0, diag(c(4, 9))), x), log_density(density_student_t(4, 0, c(2, 3)), x)
  )
})

# log(1 + q / df) is log q - log df there, to all digits
far_t <- function(x, df, scale = 1) {
  lgamma((df + 1) / 2) - lgamma(df / 2) - log(pi * df) / 2 - log(scale) -
    (df + 1) / 2 * (2 * (log(x) - log(scale)) - log(df))
}

test_that("far out the square may overflow", {
  expect_equal(log_density(density_student_t(3), matrix(1e200)), -1840.871739, tolerance = 1e-9)
  for (df in c(0.5, 3, 100)) {
    for (x in c(1e153, 1e155, 1e200, 1e308)) {
      expect_equal(log_density(density_student_t(df), matrix(x)), far_t(x, df), tolerance = 1e-13)
    }
    narrow <- density_student_t(df, 0, 1e-100)
    expect_equal(log_density(narrow, matrix(1e200)), far_t(1e200, df, 1e-100), tolerance = 1e-13)
    for (x in c(1e18, 1e20, 1e37)) {
      expect_equal(log_density(density_student_t(df), matrix(x), "single"), far_t(x, df), tolerance = 1e-5)
    }
  }
  # q is a number, q / df is not
  expect_equal(log_density(density_student_t(1e-30), matrix(1e150)), far_t(1e150, 1e-30), tolerance = 1e-13)
  # full, and with overflow of what W multiplies
  sigma <- grid_covariance(3, 925)
  x <- 1e200 * rbind(c(1, -1, 2), c(1, 0, 0))
  z <- backsolve(chol(sigma), t(x / 1e200), transpose = TRUE)
  expected <- lgamma(3) - lgamma(1.5) - 1.5 * log(3 * pi) - sum(log(diag(chol(sigma)))) -
    3 * (log(colSums(z^2)) + 400 * log(10) - log(3))
  expect_equal(log_density(density_student_t(3, 0, sigma), x), expected, tolerance = 1e-13)
  wide <- density_student_t(3, c(-1.7e308, 1.7e308), matrix(c(1, -0.5, -0.5, 1), 2))
  expect_true(is.finite(log_density(wide, matrix(c(1.7e308, -1.7e308), 1))))
  # among points that are not far out, each by itself
  x <- matrix(c(1, 1e200, 2, 1e250), 4)
  alone <- vapply(x, function(x) log_density(density_student_t(3), matrix(x)), 0)
  expect_same_bits(log_density(density_student_t(3), x), alone)
})

test_that("points that are not finite", {
  density <- density_student_t(3, 0, matrix(c(1, 0.5, 0.5, 1), 2))
  expect_identical(log_density(density, rbind(c(Inf, 0), c(Inf, -Inf))), c(-Inf, -Inf))
  expect_true(is.nan(log_density(density, matrix(c(NaN, 0), 1))))
  expect_identical(log_density(density_student_t(3), matrix(Inf)), -Inf)
})

test_that("arguments are checked", {
  for (bad in list(0, -1, NaN, NA, "4", NULL, c(1, 2), numeric(0), 1e-300, TRUE, matrix(c(1, 2)))) {
    expect_input_error(density_student_t(bad), "df")
  }
  for (bad in list(NA, NaN, Inf, "a", numeric(0), NULL)) {
    expect_input_error(density_student_t(4, bad), "mean")
  }
  for (bad in list(0, -1, NA, Inf, "a", numeric(0), NULL, 1e-310, matrix(1, 2, 3), matrix(c(1, 2, 2, 1), 2))) {
    expect_input_error(density_student_t(4, 0, bad), "scale")
  }
  expect_input_error(density_student_t(4, 1:3, 1:2), "scale", "3")
  expect_input_error(density_student_t(4, 1:3, diag(2)), "mean", "2")
  expect_input_error(density_student_t(4, 0, matrix(1, 2, 2)), "scale", "positive definite")
  expect_input_error(log_density(density_student_t(4, 1:2), matrix(0, 1, 3)), "density", "2 dims")
})

test_that("with single numbers it fits any number of dims, and says what it is", {
  expect_identical(density_student_t(4)$n_dim, NA_integer_)
  expect_identical(density_student_t(4, 1:3)$n_dim, 3L)
  expect_s3_class(density_student_t(4), c("fusedmc_density_student_t", "fusedmc_density"), exact = TRUE)
  expect_output(print(density_student_t(4)), "Student t in any number of dims: df 4, mean 0, scale 1")
  expect_output(print(density_student_t(Inf, 1, diag(2))), "Student t in 2 dims: df Inf, mean 1, a scale matrix")
})
