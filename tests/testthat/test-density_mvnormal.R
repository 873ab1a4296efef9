test_that("the log density is that of mvtnorm and of the formula", {
  skip_if_not_installed("mvtnorm")
  for (d in c(1:5, 7, 8, 9, 31, 32, 33, 50, 500)) {
    for (sd in if (d <= 50) c(1e-6, 1, 1e8) else 1) {
      sigma <- grid_covariance(d, 900 + d, sd)
      mean <- sd * grid_values(d, 901)
      x <- sd * 3 * grid_matrix(33, d, 902)
      density <- density_mvnormal(mean, sigma)
      oracle <- oracle_elliptical(oracle_part(mean, sigma))
      expect_lt(oracle_error(density, oracle, x), 1e-12)
      theirs <- mvtnorm::dmvnorm(x, mean, sigma, log = TRUE)
      expect_lt(largest_relative(log_density(density, x), theirs, oracle$scale(x)), 1e-12)
      expect_lt(oracle_error(density, oracle, x, "single"), 1e-4)
      expect_lt(oracle_error(density_mvnormal(mean, chol = chol(sigma)), oracle, x), 1e-12)
      expect_lt(oracle_error(density_mvnormal(mean, chol = t(chol(sigma))), oracle, x), 1e-12)
    }
  }
})

test_that("closed forms", {
  density <- density_mvnormal(0, matrix(c(2, 0.5, 0.5, 1), 2))
  expect_equal(log_density(density, matrix(c(1, -1), 1)), -2 / 1.75 - log(1.75) / 2 - log(2 * pi), tolerance = 1e-14)
  expect_equal(log_density(density, matrix(c(1, -1), 1)), -3.260542, tolerance = 1e-6)
  expect_equal(log_density(density_mvnormal(3, matrix(4)), matrix(c(3, 7))), dnorm(c(3, 7), 3, 2, log = TRUE))
})

test_that("a diagonal covariance has the bits of independent normals", {
  for (d in c(1, 3, 4, 6, 130)) {
    x <- grid_matrix(40, d, 903)
    mean <- grid_values(d, 904)
    sd <- as.vector(case_sds(1, d))
    for (precision in case_precisions) {
      expected <- log_density(density_normal(mean, sd), x, precision)
      expect_same_bits(log_density(density_mvnormal(mean, chol = diag(sd, d)), x, precision), expected)
      # as rows of a full matrix: an entry too small to matter keeps it from being taken as diagonal
      lower <- diag(sd, d)
      if (d > 1) {
        lower[d, 1] <- 1e-30
        expect_same_bits(log_density(density_mvnormal(mean, chol = lower), x, precision), expected)
      }
    }
  }
})

test_that("far out nothing is NaN", {
  density <- density_mvnormal(c(0, 0, 0), grid_covariance(3, 905))
  x <- rbind(c(1e5, 0, 0), c(1e200, -1e200, 1e200), c(1e308, 1e308, 1e308), c(-1.7e308, 1.7e308, 1.7e308))
  oracle <- oracle_elliptical(oracle_part(c(0, 0, 0), grid_covariance(3, 905)))
  expect_equal(log_density(density, x[1, , drop = FALSE]), oracle$log_density(x[1, , drop = FALSE]), tolerance = 1e-12)
  expect_identical(log_density(density, x[-1, ]), rep(-Inf, 3))
  expect_identical(log_density(density, x[-1, ], "single"), rep(-Inf, 3))
  far_mean <- density_mvnormal(c(-1.7e308, 1.7e308), matrix(c(1, -0.5, -0.5, 1), 2))
  expect_identical(log_density(far_mean, matrix(c(1.7e308, -1.7e308), 1)), -Inf)
  # a point that is not finite
  expect_identical(log_density(density, rbind(c(Inf, 0, 0), c(-Inf, Inf, 0))), c(-Inf, -Inf))
  expect_true(all(is.nan(log_density(density, rbind(c(NaN, 0, 0), c(0, Inf, NaN))))))
})

test_that("covariances are checked", {
  expect_input_error(density_mvnormal(0, matrix(c(1, 2, 2, 1), 2)), "cov", "pivot 2 of its Cholesky factor is -3")
  expect_input_error(density_mvnormal(0, matrix(1, 2, 2)), "cov", "singular")
  asymmetric <- matrix(c(2, 99, 0.5, 1), 2)
  expect_input_error(density_mvnormal(0, asymmetric), "cov", "entry [2, 1] is 99 and entry [1, 2] is 0.5")
  t <- grid_values(50, 906)
  expect_input_error(density_mvnormal(0, cov(cbind(t, 0.3 * t))), "cov", "variable 2")
  expect_input_error(density_mvnormal(0, cov(cbind(t, grid_values(50, 907), t + grid_values(50, 907)))), "cov", "3")
  expect_input_error(density_mvnormal(0, matrix(c(1, 0, 0, 0), 2)), "cov", "[2, 2]")
  expect_input_error(density_mvnormal(0, diag(c(1, -1))), "cov", "-1")
  for (bad in list(4, "a", matrix(1, 2, 3), matrix(0, 0, 0), diag(c(1, NA)), diag(c(1, Inf)), list(1), "x", TRUE)) {
    expect_input_error(density_mvnormal(0, bad), "cov")
  }
  # rounding is no asymmetry
  a <- matrix(c(2, 0.5, 0.5 * (1 + 8 * .Machine$double.eps), 1), 2)
  expect_s3_class(density_mvnormal(0, a), "fusedmc_density")
  # strong correlation is no singularity
  expect_s3_class(density_mvnormal(0, matrix(c(1, 1 - 1e-12, 1 - 1e-12, 1), 2)), "fusedmc_density")
})

test_that("factors are checked", {
  expect_input_error(density_mvnormal(0, chol = matrix(1, 2, 2)), "chol", "triangular")
  expect_input_error(density_mvnormal(0, chol = diag(c(1, 0))), "chol", "[2, 2]")
  expect_input_error(density_mvnormal(0, chol = diag(c(-1, 1))), "chol", "-1")
  lower <- diag(c(1e-300, 1e-300))
  lower[2, 1] <- 1e300
  expect_input_error(density_mvnormal(0, chol = lower), "chol", "inverse")
  for (bad in list(1, "a", matrix(1, 1, 2), matrix(c(1, 0, NA, 1), 2))) {
    expect_input_error(density_mvnormal(0, chol = bad), "chol")
  }
})

test_that("exactly one matrix is given, and the mean fits it", {
  expect_input_error(density_mvnormal(0), "cov", "exactly one")
  expect_input_error(density_mvnormal(0, diag(2), diag(2)), "cov", "exactly one")
  for (bad in list(1:3, NA, Inf, "a", NULL, numeric(0), matrix(0, 1, 2))) {
    expect_input_error(density_mvnormal(bad, diag(2)), "mean")
  }
  expect_identical(density_mvnormal(3, diag(2))$mean, c(3, 3))
  expect_input_error(log_density(density_mvnormal(0, diag(2)), matrix(0, 1, 3)), "density", "2 dims")
})

test_that("scales that do not fit single precision are an error there", {
  small <- matrix(c(1e-45, 0, 1e-46, 1e-45), 2)
  expect_input_error(log_density(density_mvnormal(0, chol = small), matrix(0, 1, 2), "single"), "density", "single")
  expect_true(is.finite(log_density(density_mvnormal(0, chol = small), matrix(0, 1, 2))))
  large <- matrix(c(1, 0.5, 0, 1e45), 2)
  expect_input_error(log_density(density_mvnormal(0, chol = large), matrix(0, 1, 2), "single"), "density", "1e+45")
})

test_that("it says what it is", {
  density <- density_mvnormal(c(1, 2), diag(2))
  expect_s3_class(density, c("fusedmc_density_mvnormal", "fusedmc_density"), exact = TRUE)
  expect_output(print(density), "<density> multivariate normal in 2 dims: mean (1, 2)", fixed = TRUE)
})

test_that("two thousand dims work", {
  skip_on_cran()
  d <- 2000
  lower <- diag(1, d)
  lower[cbind(2:d, 1:(d - 1))] <- 0.5
  sigma <- lower %*% t(lower)
  x <- grid_matrix(3, d, 908)
  z <- x
  for (i in 2:d) {
    z[, i] <- x[, i] - 0.5 * z[, i - 1]
  }
  expected <- -rowSums(z^2) / 2 - d / 2 * log(2 * pi)
  expect_equal(log_density(density_mvnormal(0, sigma), x), expected, tolerance = 1e-13)
})
