# mh_step() against the oracle. States and acceptances must be identical. Log densities agree to
# 1e-12 (double) or 1e-5 (single) relative to the log density itself; log_alpha is a difference of
# two of them, so its tolerance is relative to the larger of the two, not to log_alpha.
# helper-cases.R keeps every term of a log density negative, so no cancellation hides in it.

tolerance <- c(double = 1e-12, single = 1e-5)

# What is wrong with a result, as labels; character() if nothing.
step_faults <- function(result, expected, precision, label) {
  scale <- pmax(1, abs(expected$old), abs(expected$new))
  clear <- abs(expected$log_u - expected$log_alpha) > tolerance[[precision]] * scale |
    expected$log_alpha == 0
  # where the oracle's log_alpha is too near log_u to tell, take the package's word for the choice
  accepted <- ifelse(clear, expected$accepted, result$accepted)
  x <- expected$old_x
  x[accepted, ] <- expected$proposal[accepted, ]
  log_density <- ifelse(accepted, expected$new, expected$old)
  faults <- c(
    accepted = !identical(result$accepted, accepted),
    x = !same_bits(result$x, x),
    log_alpha = largest_relative(result$log_alpha, expected$log_alpha, scale) > tolerance[[precision]],
    log_density = largest_relative(result$log_density, log_density, scale) > tolerance[[precision]],
    unclear = precision == "double" && !all(clear)
  )
  if (any(faults)) paste(label, paste(names(which(faults)), collapse = "+")) else character()
}

compare_step <- function(x, target, size, noise, u, precision, label, proposal = NULL, ...) {
  result <- mh_step(
    x, target$density, size, noise = noise, u = u, precision = precision, backend = "cpu", ...
  )
  expected <- oracle_mh_step(x, target$oracle, size, noise, u, precision = precision, proposal = proposal, ...)
  expected$old_x <- round_to(x, precision)
  step_faults(result, expected, precision, label)
}

compare_shape <- function(n_chains, n_dim, target_kinds, step_kinds, precisions = case_precisions) {
  x <- grid_matrix(n_chains, n_dim, 11)
  noise <- grid_matrix(n_chains, n_dim, 12)
  u <- grid_uniform(n_chains, 13)
  faults <- character()
  for (step_kind in step_kinds) {
    size <- case_step(step_kind, n_dim)
    for (precision in precisions) {
      proposal <- oracle_proposal(x, size, noise, precision)
      for (target_kind in target_kinds) {
        label <- paste(n_chains, "x", n_dim, target_kind, step_kind, precision)
        target <- case_target(target_kind, n_dim)
        faults <- c(faults, compare_step(x, target, size, noise, u, precision, label, proposal))
      }
    }
  }
  faults
}

test_that("given noise and u, every target, step kind and dimension gives the oracle's step", {
  for (n_dim in c(1, 2, 3, 4, 5, 8, 31, 32, 33, 64)) {
    expect_none(compare_shape(33, n_dim, case_target_kinds, case_step_kinds))
  }
  for (n_dim in c(100, 130)) {
    expect_none(compare_shape(33, n_dim, c("normal", "mixture3"), case_step_kinds))
  }
})

test_that("given noise and u, every number of chains gives the oracle's step", {
  for (n_chains in c(1, 2, 7, 31, 32, 33, 63, 64, 65, 1000)) {
    for (n_dim in c(1, 3, 8, 33)) {
      expect_none(compare_shape(n_chains, n_dim, c("normal", "mixture3"), c("vector", "lower")))
    }
  }
})

test_that("high dimensions and many components give the oracle's step", {
  expect_none(compare_shape(3, 10000, c("normal", "mixture2"), c("scalar", "vector")))
  k <- 40
  means <- case_means(k, 5)
  sds <- case_sds(k, 5)
  weights <- grid_uniform(k, 21)
  target <- list(
    density = density_mixture(weights, means, sds), oracle = oracle_mixture(weights, means, sds)
  )
  x <- grid_matrix(65, 5, 22)
  noise <- grid_matrix(65, 5, 23)
  for (precision in case_precisions) {
    expect_none(compare_step(x, target, 0.5, noise, grid_uniform(65), precision, precision))
  }
})

test_that("both outcomes occur in the shapes compared", {
  result <- mh_step(grid_matrix(1000, 3, 11), case_target("normal", 3)$density, 0.3,
    noise = grid_matrix(1000, 3, 12), u = grid_uniform(1000, 13), backend = "cpu"
  )
  expect_gt(mean(result$accepted), 0.2)
  expect_lt(mean(result$accepted), 0.95)
})

test_that("a proposal is rounded twice, never once", {
  # fl(x + fl(s z)) differs from fma(s, z, x) for these
  x <- matrix(1)
  z <- 1 + 2^-52
  s <- 1 + 2^-51
  result <- mh_step(x, density_normal(0, 1e6), s, noise = matrix(z), u = 0.5, backend = "cpu")
  expect_identical(result$x[1], 1 + s * z)
  n <- 1000
  x <- grid_matrix(n, 2, 31) / 3
  noise <- grid_matrix(n, 2, 32) / 7
  result <- mh_step(x, density_normal(0, 1e9), 1 / 3, noise = noise, u = rep(1e-9, n), backend = "cpu")
  expect_true(all(result$accepted))
  expect_same_bits(result$x, x + noise * (1 / 3))
})

# ---- the generator -------------------------------------------------------------------------

compare_generated <- function(n_chains, n_dim, size_kind, target_kind, precision, ...) {
  target <- case_target(target_kind, n_dim)
  compare_step(
    grid_matrix(n_chains, n_dim, 41), target, case_step(size_kind, n_dim), NULL, NULL, precision,
    paste(n_chains, "x", n_dim, size_kind, target_kind, precision, paste(..., collapse = " ")), ...
  )
}

test_that("with the generator, states are those of the oracle's words and normals", {
  for (precision in case_precisions) {
    for (n_dim in c(1, 2, 3, 4, 5, 8, 31, 32, 33, 64, 100, 130)) {
      expect_none(compare_generated(65, n_dim, "vector", "normal", precision, seed = 2^32 + 5))
    }
    for (n_chains in c(1, 2, 7, 31, 32, 33, 63, 64, 65, 1000)) {
      expect_none(compare_generated(n_chains, 5, "lower", "mixture3", precision, seed = 99))
    }
  }
})

test_that("with the generator, seed, step and chain_offset enter as the contract says", {
  steps <- c(0, 1, 2, 3, 4, 5, 1000001, 2^31, 2^32 - 1)
  offsets <- c(0, 1, 2^32 - 3, 2^32, 2^40 + 17, 2^53 - 9, 2^53)
  for (precision in case_precisions) {
    for (seed in c(0, 1, 2^31, 2^32 + 1, 2^53)) {
      expect_none(compare_generated(9, 5, "scalar", "normal", precision, seed = seed))
    }
    for (step in steps) {
      expect_none(compare_generated(9, 5, "scalar", "normal", precision, seed = 7, step = step))
    }
    for (offset in offsets) {
      expect_none(compare_generated(
        9, 5, "scalar", "normal", precision, seed = 7, step = 3, chain_offset = offset
      ))
    }
  }
})

test_that("one of noise and u may be given, the generator makes the other", {
  x <- grid_matrix(40, 3, 51)
  target <- case_target("normal", 3)
  for (precision in case_precisions) {
    for (step in 0:4) {
      expect_none(compare_step(
        x, target, 0.7, grid_matrix(40, 3, 52), NULL, precision, "noise", seed = 3, step = step
      ))
      expect_none(compare_step(
        x, target, 0.7, NULL, grid_uniform(40, 53), precision, "u", seed = 3, step = step
      ))
    }
  }
  expect_identical(mh_step(x, noise = grid_matrix(40, 3, 52), seed = 3)$seed, 3)
  expect_identical(mh_step(x, u = grid_uniform(40), seed = 3)$seed, 3)
})

test_that("acceptance uniforms are the oracle's to the last of their bits that can be seen", {
  # From 0, N(0, 1) and noise z: log alpha = -z^2 / 2. With z set so that log alpha lies just above log u
  # every chain accepts, just below none does. In double "just" is 1e-13: a wrong low word would show.
  n <- 2000
  for (precision in case_precisions) {
    just <- c(double = 1e-13, single = 2e-5)[[precision]]
    for (step in c(0, 1, 2, 3, 2^32 - 1)) {
      log_u <- log(oracle_uniform(n, seed = 2^40 + 3, step, chain_offset = 2^33, precision))
      # |z| from 0.3 to 1.5: there both rounding errors of log alpha are well below "just"
      used <- which(log_u < -0.05 & log_u > -1.2)
      expect_gt(length(used), 500)
      accepted <- function(shift) {
        noise <- matrix(0, n, 1)
        noise[used, 1] <- sqrt(-2 * (log_u[used] + shift))
        mh_step(matrix(0, n, 1), density_normal(0, 1), 1,
          noise = noise, seed = 2^40 + 3, step = step, chain_offset = 2^33, precision = precision
        )$accepted[used]
      }
      expect_true(all(accepted(just)))
      expect_false(any(accepted(-just)))
    }
  }
})

# ---- what comes back -----------------------------------------------------------------------

test_that("the result has the documented parts, types and shapes", {
  for (shape in list(c(5, 1), c(1, 4), c(1, 1), c(6, 3))) {
    result <- mh_step(matrix(0.5, shape[1], shape[2]), seed = 1)
    expect_s3_class(result, "fusedmc_mh_step")
    expect_named(result, c("x", "accepted", "log_density", "log_alpha", "seed"))
    expect_identical(dim(result$x), as.integer(shape))
    expect_type(result$x, "double")
    expect_type(result$accepted, "logical")
    expect_length(result$accepted, shape[1])
    expect_type(result$log_density, "double")
    expect_length(result$log_density, shape[1])
    expect_type(result$log_alpha, "double")
    expect_length(result$log_alpha, shape[1])
    expect_identical(result$seed, 1)
    expect_false(anyNA(result$accepted))
  }
})

test_that("dimnames come back, and rownames name the vectors", {
  x <- matrix(0.1, 2, 3, dimnames = list(c("a", "b"), c("p", "q", "r")))
  result <- mh_step(x, seed = 1)
  expect_identical(dimnames(result$x), dimnames(x))
  for (part in c("accepted", "log_density", "log_alpha")) {
    expect_named(result[[part]], c("a", "b"))
  }
  columns_only <- x
  rownames(columns_only) <- NULL
  result <- mh_step(columns_only, seed = 1)
  expect_identical(dimnames(result$x), list(NULL, c("p", "q", "r")))
  expect_null(names(result$accepted))
  expect_null(dimnames(mh_step(unname(x), seed = 1)$x))
})

test_that("the returned log density is that of the returned state", {
  target <- case_target("mixture3", 4)
  result <- mh_step(grid_matrix(500, 4, 61), target$density, 0.8, seed = 4)
  expect_lt(largest_relative(result$log_density, oracle_log_density(target$oracle, result$x)), 1e-12)
  again <- mh_step(result$x, target$density, 0, seed = 5)
  expect_same_bits(again$log_density, result$log_density)
})

test_that("accepted is exactly log_alpha >= 0 or log_u < log_alpha of the returned log_alpha", {
  x <- grid_matrix(2000, 2, 71)
  u <- grid_uniform(2000, 72)
  for (precision in case_precisions) {
    result <- mh_step(x, density_normal(0, 1), 1, noise = grid_matrix(2000, 2, 73), u = u, precision = precision)
    sure <- result$log_alpha >= 0
    near <- abs(log(u) - result$log_alpha) < 1e-6
    expect_true(all(result$accepted[sure]))
    expect_identical(result$accepted[!sure & !near], (log(u) < result$log_alpha)[!sure & !near])
    expect_lt(sum(near), 5)
  }
})

test_that("a given u is clamped below at 1e-10", {
  x <- matrix(0, 3, 1)
  # log(1e-10) = -23.03: a fall of 23 is accepted at u = 0, a fall of 24 is not
  noise <- matrix(sqrt(2 * c(23, 24, 1000)))
  result <- mh_step(x, density_normal(0, 1), 1, noise = noise, u = c(0, 0, 0))
  expect_identical(result$accepted, c(TRUE, FALSE, FALSE))
  same <- mh_step(x, density_normal(0, 1), 1, noise = noise, u = rep(1e-10, 3))
  expect_same_bits(result, same)
})

test_that("single precision returns floats and differs from double", {
  x <- grid_matrix(50, 4, 81)
  single <- mh_step(x, density_normal(0, 1), 0.5, seed = 1, precision = "single")
  double <- mh_step(x, density_normal(0, 1), 0.5, seed = 1)
  for (part in c("x", "log_density", "log_alpha")) {
    expect_identical(single[[part]], f32(single[[part]]))
    expect_false(identical(single[[part]], double[[part]]))
  }
  expect_equal(single$x[single$accepted & double$accepted, ], double$x[single$accepted & double$accepted, ],
    tolerance = 1e-6
  )
})
