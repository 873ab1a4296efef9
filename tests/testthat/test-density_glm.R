expect_close <- function(case, b, info = NULL) {
  expect_lte(
    largest_relative(log_density(case$density, b), case$oracle$log_density(b), case$oracle$scale(b)), 1e-12,
    label = paste(c("double", info), collapse = " ")
  )
  b <- f32(b)
  error <- abs(log_density(case$density, b, precision = "single") - case$oracle$log_density(b))
  expect_lte(max(error / case$oracle$single_bound(b)), 1, label = paste(c("single", info), collapse = " "))
}

test_that("every family agrees with R's densities, for any number of observations and coefficients", {
  for (kind in glm_kinds) {
    for (n_obs in c(1, 63, 64, 65, 1000)) {
      for (p in c(1, 3, 4, 10)) {
        expect_close(glm_case(kind, n_obs, p), glm_points(p + (kind == "gaussian")), paste(kind, n_obs, p))
      }
    }
    for (p in 1:20) {
      expect_close(glm_case(kind, 70, p, salt = p), glm_points(p + (kind == "gaussian")), paste(kind, 70, p))
    }
  }
})

test_that("weights, offsets and Student t priors agree with R's densities", {
  for (kind in glm_kinds) {
    for (weighted in c(FALSE, TRUE)) {
      for (shifted in c(FALSE, TRUE)) {
        for (prior_df in c(0.5, 4, Inf)) {
          case <- glm_case(kind, 200, 5, weighted, shifted, prior_df)
          expect_close(case, glm_points(case$n_dim), paste(kind, weighted, shifted, prior_df))
        }
      }
    }
  }
})

test_that("many coefficients keep their prior", {
  for (prior_df in c(3, Inf)) {
    case <- glm_case("binomial", 30, 300, prior_df = prior_df)
    expect_close(case, glm_points(300, 6) / 8, prior_df)
  }
})

# Squares of multiples of 2^-24 below 2 are exact, so a plain loop rounds as fma does.
squares_in_order <- function(y) {
  blocks <- vapply(split(y, (seq_along(y) - 1) %/% 64), function(block) Reduce(function(s, v) s + v * v, block, 0), 0)
  while (length(blocks) > 1) {
    left <- seq(1, length(blocks), 2)
    blocks <- ifelse(left < length(blocks), blocks[left] + blocks[left + 1], blocks[left])
  }
  blocks[[1]]
}

test_that("observations are added in blocks of 64, and the blocks as a tree of neighbours", {
  for (n_obs in c(1, 63, 64, 65, 128, 129, 193, 320, 323, 1000, 5000)) {
    y <- grid_values(n_obs, 711)
    density <- density_glm(x = matrix(0, n_obs, 1), y = y, sigma = 1, prior_mean = 0.5)
    constant <- density$node$numbers[1]
    expect_same_bits(log_density(density, matrix(0.5)), -0.5 * squares_in_order(y) + constant, n_obs)
    expect_equal(log_density(density, matrix(0.5)), sum(dnorm(y, log = TRUE)) + dnorm(0, 0, 2.5, log = TRUE))
  }
})

test_that("the log of the inverse logit is right to the last bits of 1", {
  density <- density_glm(x = matrix(1), y = 0, family = "binomial", prior_sd = Inf)
  eta <- c(seq(-40, 40, length.out = 20001), -(2^-(1:60)), 2^-(1:60), 0)
  truth <- -pmax(eta, 0) - log1p(exp(-abs(eta)))
  expect_lte(max(abs(log_density(density, matrix(eta)) - truth) / pmax(1, abs(truth))), 3 * 2^-53)
  eta <- f32(eta)
  truth <- -pmax(eta, 0) - log1p(exp(-abs(eta)))
  expect_lte(max(abs(log_density(density, matrix(eta), precision = "single") - truth) / pmax(1, abs(truth))), 3 * 2^-24)
})

test_that("a linear predictor of +-1000, or an infinite one, gives what the likelihood is", {
  flat <- function(y, family, ...) density_glm(x = matrix(rep(1, NROW(y))), y = y, family = family, prior_sd = Inf, ...)
  at <- matrix(c(1000, -1000))
  huge <- matrix(c(1.75e308, -1.75e308))
  doubled <- function(y, family, ...) density_glm(x = matrix(2), y = y, family = family, prior_sd = Inf, ...)
  for (precision in case_precisions) {
    value <- function(density, x = at) log_density(density, x, precision = precision)
    expect_identical(value(flat(0, "binomial")), c(-1000, 0))
    expect_identical(value(flat(1, "binomial")), c(0, -1000))
    expect_identical(value(flat(cbind(0, 3), "binomial")), c(-3000, 0))
    expect_identical(value(flat(cbind(3, 0), "binomial")), c(0, -3000))
    expect_identical(value(flat(0, "poisson")), c(-Inf, 0))
    expect_equal(value(flat(3, "poisson")), c(-Inf, -3000 - log(6)), tolerance = 1e-7)
    expect_equal(value(flat(3, "gaussian", sigma = 2)), dnorm(3, at[, 1], 2, log = TRUE), tolerance = 1e-7)
    infinite <- if (precision == "double") huge else f32(huge / 1e270)
    expect_identical(value(doubled(0, "binomial"), infinite), c(-Inf, 0))
    expect_identical(value(doubled(1, "binomial"), infinite), c(0, -Inf))
    expect_identical(value(doubled(cbind(2, 0), "binomial"), infinite), c(0, -Inf))
    expect_identical(value(doubled(0, "poisson"), infinite), c(-Inf, 0))
    expect_identical(value(doubled(2, "poisson"), infinite), c(-Inf, -Inf))
    expect_identical(value(doubled(2, "gaussian", sigma = 1), infinite), c(-Inf, -Inf))
    for (family in c("binomial", "poisson", "gaussian")) {
      density <- flat(c(1, 0, 1), family, sigma = if (family == "gaussian") 1)
      expect_identical(value(density, matrix(c(NaN, NA))), c(NaN, NaN), label = family)
    }
  }
})

test_that("where the prior is 0 the density is, whatever the likelihood", {
  # eta is Inf - Inf
  density <- density_glm(x = cbind(a = 10, b = 10), y = 1, family = "binomial")
  expect_identical(log_density(density, cbind(1e308, -1e308)), -Inf)
  expect_identical(log_density(density, cbind(NaN, -1e308)), NaN)
})

test_that("a Student t prior has the right tails and limits", {
  one <- function(df, ...) density_glm(x = matrix(0), y = 0, sigma = 1, prior_sd = 1, prior_df = df, ...)
  rest <- dnorm(0, log = TRUE)
  for (z in c(0, 1e-200, 1, 1e8, 1e160, -1e200, 1e300)) {
    for (df in c(1e-3, 0.5, 3, 100)) {
      far <- abs(z) > 1e100
      expected <- if (far) {
        dt(0, df, log = TRUE) - (df + 1) / 2 * (2 * log(abs(z)) - log(df))
      } else {
        dt(z, df, log = TRUE)
      }
      expect_equal(log_density(one(df), matrix(z)), expected + rest, tolerance = 1e-13, label = paste(z, df))
    }
  }
  expect_equal(log_density(one(3), matrix(1e200)), -1840.871739 + rest, tolerance = 1e-9)
  for (df in c(1e10, 1e15, 1e17, 1e300, Inf)) {
    for (precision in case_precisions) {
      expect_equal(
        log_density(one(df), matrix(1), precision = precision), dnorm(1, log = TRUE) + rest,
        tolerance = if (precision == "double") 2e-10 else 1e-7, label = paste(df, precision)
      )
    }
  }
  expect_equal(
    log_density(one(3), matrix(f32(1e30)), precision = "single"), dt(f32(1e30), 3, log = TRUE) + rest,
    tolerance = 1e-7
  )
})

test_that("flat priors contribute nothing, by coefficient", {
  x <- grid_matrix(40, 3, 721)
  b <- glm_points(3)
  y <- as.double(grid_values(40, 722) > 0)
  for (prior_df in c(4, Inf)) {
    prior <- list(prior_sd = c(2, Inf, 3), prior_mean = 1:3, prior_df = prior_df)
    density <- do.call(density_glm, c(list(x = x, y = y, family = "binomial"), prior))
    oracle <- do.call(oracle_glm, c(list(x, cbind(y, 1 - y), "binomial"), prior))
    expect_lte(largest_relative(log_density(density, b), oracle$log_density(b)), 1e-12)
    # far from a mean that does not matter
    density <- density_glm(
      x = matrix(1e-300), y = 0, family = "binomial", prior_sd = Inf, prior_mean = 1e308, prior_df = prior_df
    )
    expect_identical(log_density(density, matrix(-1e308)), 0)
    density <- density_glm(
      x = cbind(1e-300, 1), y = 0, family = "binomial", prior_sd = c(Inf, 1), prior_mean = c(1e308, 0),
      prior_df = prior_df
    )
    expect_equal(log_density(density, cbind(-1e308, 0)), dt(0, prior_df, log = TRUE))
  }
})

test_that("log sigma may be far out", {
  x <- matrix(1, 4, 1)
  density <- density_glm(x = x, y = c(1, 2, 3, 4), prior_sigma = 2)
  expect_identical(log_density(density, cbind(2, c(-800, 800, 1e300, -1e300))), rep(-Inf, 4))
  expect_identical(log_density(density, cbind(1e200, 800)), -Inf)
  # a perfect fit has a finite density at any sigma
  density <- density_glm(x = x, y = rep(2, 4), prior_sigma = 2)
  s <- c(-300, -700, -1e5)
  expected <- dnorm(2, 0, 2.5, log = TRUE) - 4 * (s + log(2 * pi) / 2) + s - log(2)
  expect_equal(log_density(density, cbind(2, s)), expected, tolerance = 1e-14)
  # sigma of 1e-170, whose square underflows, and residuals as small
  density <- density_glm(x = x, y = rep(0, 4), prior_sd = 1, prior_sigma = 2)
  oracle <- oracle_glm(x, rep(0, 4), "gaussian", prior_sd = 1, prior_sigma = 2)
  b <- cbind(1e-154, log(1e-155))
  expect_lte(largest_relative(log_density(density, b), oracle$log_density(b)), 1e-12)
})

# ---- bits -----------------------------------------------------------------------------------------

test_that("builds, threads and splits of the chains give the same bits", {
  withr::local_options(fusedmc.backend = "cpu")
  for (kind in c(glm_kinds, "binomial_weighted")) {
    prior_df <- if (kind == "poisson") 3 else Inf
    for (precision in case_precisions) {
      case <- glm_case(sub("_weighted", "", kind), 150, 6, kind == "binomial_weighted", TRUE, prior_df)
      b <- glm_points(case$n_dim, 67)
      run <- function(b, chain_offset = 0) {
        step <- mh_step(b, case$density, 0.1, seed = 5, chain_offset = chain_offset, precision = precision)
        weights <- is_weights(b, case$density, density_normal(0, 3), precision = precision)
        list(x = step$x, log_density = step$log_density, log_alpha = step$log_alpha, weights = weights$log_weights)
      }
      whole <- run(b)
      for (level in simd_levels()) {
        expect_same_bits(with_simd(level, run(b)), whole, paste(kind, precision, level))
      }
      for (threads in 1:2) {
        expect_same_bits(with_threads(threads, run(b)), whole, paste(kind, precision, threads))
      }
      first <- run(b[1:40, ])
      second <- run(b[41:67, ], 40)
      expect_same_bits(rbind(first$x, second$x), whole$x)
      expect_same_bits(c(first$log_density, second$log_density), whole$log_density)
      expect_true(any(mh_step(b, case$density, 0.1, seed = 5)$accepted))
    }
  }
})

test_that("a step and weights use the log density", {
  for (kind in glm_kinds) {
    case <- glm_case(kind, 80, 3)
    b <- glm_points(case$n_dim, 40)
    step <- mh_step(b, case$density, 0.2, seed = 9)
    expect_same_bits(log_density(case$density, step$x), step$log_density, kind)
    weights <- is_weights(b, case$density, density_normal(0, 2))
    expected <- case$oracle$log_density(b) - rowSums(matrix(dnorm(b, 0, 2, log = TRUE), 40))
    expect_lte(largest_relative(weights$log_weights, expected, case$oracle$scale(b)), 1e-12, label = kind)
  }
})
