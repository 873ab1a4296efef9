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

# ---- full covariances ----------------------------------------------------------------------

full_mixture <- function(k, d, salt = 930) {
  means <- case_means(k, d, salt)
  covs <- lapply(seq_len(k), function(j) grid_covariance(d, salt + j))
  weights <- (seq_len(k) %% 3 + 1) / 8
  parts <- lapply(seq_len(k), function(j) oracle_part(means[j, ], covs[[j]], Inf, weights[j]))
  list(weights = weights, means = means, covs = covs, oracle = do.call(oracle_elliptical, parts))
}

test_that("components may have covariances", {
  for (shape in list(c(1, 1), c(2, 1), c(3, 4), c(7, 33), c(1000, 2), c(40, 50))) {
    case <- full_mixture(shape[1], shape[2])
    x <- 2 * grid_matrix(40, shape[2], 931)
    density <- density_mixture(case$weights, case$means, covs = case$covs)
    expect_lt(oracle_error(density, case$oracle, x), 1e-12)
    expect_lt(oracle_error(density, case$oracle, x, "single"), 1e-4)
    expected <- log_density(density, x)
    array <- aperm(array(unlist(case$covs), c(shape[2], shape[2], shape[1])), c(3, 1, 2))
    expect_same_bits(log_density(density_mixture(case$weights, case$means, covs = array), x), expected)
    factors <- lapply(case$covs, function(s) core_cholesky(s)$factor)
    expect_same_bits(log_density(density_mixture(case$weights, case$means, chols = factors), x), expected)
    expect_same_bits(log_density(density_mixture(case$weights, case$means, chols = lapply(factors, t)), x), expected)
  }
})

test_that("with diagonal covariances it is the mixture of independent normals", {
  means <- case_means(3, 2)
  sds <- case_sds(3, 2)
  x <- grid_matrix(30, 2, 932)
  chols <- lapply(1:3, function(k) diag(sds[k, ]))
  expect_same_bits(
    log_density(density_mixture(1:3, means, chols = chols), x), log_density(density_mixture(1:3, means, sds), x)
  )
})

test_that("far out a mixture of full covariances does not underflow", {
  case <- full_mixture(3, 4)
  density <- density_mixture(case$weights, case$means, covs = case$covs)
  x <- 1e5 * grid_matrix(10, 4, 933)
  expect_lt(oracle_error(density, case$oracle, x), 1e-12)
  expect_identical(log_density(density, matrix(1e200, 1, 4)), -Inf)
})

test_that("matrices of components are checked, also in those of weight zero", {
  means <- matrix(0, 2, 2)
  good <- diag(2)
  singular <- matrix(1, 2, 2)
  expect_input_error(density_mixture(c(1, 0), means, covs = list(good, singular)), "covs[[2]]", "positive definite")
  expect_input_error(density_mixture(c(1, 1), means, covs = list(good, diag(3))), "covs[[2]]", "2 x 2")
  expect_input_error(density_mixture(c(1, 1), means, chols = list(good, matrix(1, 2, 2))), "chols[[2]]", "triangular")
  for (bad in list(list(good), good, array(1, c(2, 2, 3)), "a", list(good, "a"), list(good, good, good))) {
    expect_input_error(density_mixture(c(1, 1), means, covs = bad), "covs")
  }
  covs <- list(good, good)
  expect_input_error(density_mixture(c(1, 1), means, 1, covs = covs), "covs", "exactly one")
  expect_input_error(density_mixture(c(1, 1), means, covs = covs, chols = covs), "covs", "exactly one")
  x <- grid_matrix(5, 2, 934)
  other <- grid_covariance(2, 935)
  three <- density_mixture(c(1, 0, 1), cbind(c(0, 1e100, 1), 0), covs = list(good, 4 * good, other))
  two <- density_mixture(c(1, 1), cbind(c(0, 1), 0), covs = list(good, other))
  expect_same_bits(log_density(three, x), log_density(two, x))
})

# ---- densities as components ---------------------------------------------------------------

test_that("components may be densities, joined by log-sum-exp", {
  d <- 3
  x <- 2 * grid_matrix(50, d, 940)
  normal <- density_normal(1, 2)
  t <- density_student_t(3, c(0, 1, 2))
  full <- density_mvnormal(0, grid_covariance(d, 941))
  log_sum <- function(weights, ...) {
    terms <- vapply(list(...), log_density, numeric(nrow(x)), x = x)
    oracle_log_sum_exp(terms + matrix(log(weights / sum(weights)), nrow(x), length(weights), byrow = TRUE))
  }
  mixed <- density_mixture(c(1, 2, 5), components = list(normal, t, full))
  expect_equal(log_density(mixed, x), log_sum(c(1, 2, 5), normal, t, full), tolerance = 1e-13)
  nested <- density_mixture(c(3, 1), components = list(mixed, density_normal(0, 5)))
  expect_equal(log_density(nested, x), log_sum(c(3, 1), mixed, density_normal(0, 5)), tolerance = 1e-13)
  expect_length(density_nodes(nested, d), 1)
  # what is no leaf of its own
  halved <- density_tempered(full, 0.5)
  either <- density_mixture(c(1, 2), components = list(halved, t))
  expect_equal(log_density(either, x), log_sum(c(1, 2), halved, t), tolerance = 1e-13)
  expect_gt(length(density_nodes(either, d)), 1)
  deep <- density_mixture(c(1, 1), components = list(either, density_product(normal, either)))
  expect_equal(log_density(deep, x), log_sum(c(1, 1), either, density_product(normal, either)), tolerance = 1e-13)
})

test_that("independent normals as components have the bits of the plain mixture", {
  x <- grid_matrix(30, 2, 942)
  # two halves and a quarter: their products are exact
  parts <- list(density_normal(0, 1), density_normal(c(1, 2), 3))
  plain <- density_mixture(c(1, 1), rbind(c(0, 0), c(1, 2)), rbind(c(1, 1), c(3, 3)))
  for (precision in case_precisions) {
    expect_same_bits(
      log_density(density_mixture(c(1, 1), components = parts), x, precision), log_density(plain, x, precision)
    )
    inner <- density_mixture(c(1, 1), components = parts)
    outer <- density_mixture(c(1, 1), components = list(inner, density_normal(2, 1)))
    flat <- density_mixture(c(0.25, 0.25, 0.5), rbind(c(0, 0), c(1, 2), c(2, 2)), rbind(c(1, 1), c(3, 3), c(1, 1)))
    expect_same_bits(log_density(outer, x, precision), log_density(flat, x, precision))
  }
})

test_that("components that fit any number of dims make a mixture that does", {
  density <- density_mixture(c(1, 1), components = list(density_normal(0, 1), density_student_t(3)))
  expect_identical(density$n_dim, NA_integer_)
  expect_equal(log_density(density, matrix(0.5)), log(0.5 * dnorm(0.5) + 0.5 * dt(0.5, 3)), tolerance = 1e-14)
  expect_length(log_density(density, matrix(0, 2, 7)), 2)
  expect_output(print(density), "mixture of 2 components in any number of dims")
})

test_that("a function of R may be a component", {
  x <- grid_matrix(20, 1, 943)
  f <- density_function(function(x) dnorm(x[, 1], 1, log = TRUE))
  density <- density_mixture(c(1, 3), components = list(f, density_normal(0, 2)))
  expected <- log(0.25 * dnorm(x[, 1], 1) + 0.75 * dnorm(x[, 1], 0, 2))
  expect_equal(log_density(density, x), expected, tolerance = 1e-14)
  expect_equal(log_density(density, x, "single"), expected, tolerance = 1e-6)
  nowhere <- density_function(function(x) rep(-Inf, nrow(x)))
  expect_identical(log_density(density_mixture(c(1, 1), components = list(nowhere, nowhere)), x), rep(-Inf, 20))
  expect_equal(
    log_density(density_mixture(c(1, 1), components = list(nowhere, density_normal(0, 1))), x),
    dnorm(x[, 1], log = TRUE) - log(2)
  )
  # of weight zero it is not called
  never <- density_function(function(x) stop("called"))
  density <- density_mixture(c(0, 1), components = list(never, density_normal(0, 1)))
  expect_equal(log_density(density, x), dnorm(x[, 1], log = TRUE))
})

test_that("components are checked", {
  a <- density_normal(0, 1)
  for (bad in list(list(a), a, "a", list(a, a, a))) {
    expect_input_error(density_mixture(c(1, 1), components = bad), "components")
  }
  expect_input_error(density_mixture(c(1, 1), components = list(a, 3)), "components[[2]]", "a density")
  expect_input_error(
    density_mixture(c(1, 1, 0), components = list(density_normal(1:3, 1), a, density_normal(1:2, 1))),
    "components[[3]]", "3 dims"
  )
  expect_input_error(density_mixture(c(1, 1), matrix(0, 2, 2), components = list(a, a)), "components", "without")
  expect_input_error(density_mixture(c(1, -1), components = list(a, a)), "weights")
})
