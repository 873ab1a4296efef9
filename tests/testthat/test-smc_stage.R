# The parts of a stage, each against plain R.

test_that("a stage is draws, weights, resampling and steps of the public functions", {
  target <- density_normal(c(1, -1), c(0.5, 1))
  initial <- density_normal(0, 3)
  for (case in list(list("double", 1), list("single", 1), list("double", 2))) {
    precision <- case[[1]]
    n_islands <- case[[2]]
    suppressWarnings(
      fit <- smc_sample(target, initial, 200,
        n_islands = n_islands, n_moves = 2, max_stages = 1, covariance = "diagonal", seed = 5, precision = precision
      ),
      classes = "fusedmc_warning_unfinished"
    )
    x <- draw(initial, 200, start_seed(5), n_dim = 2)
    x <- if (precision == "single") matrix(round_to_float(x), 200) else matrix(x, 200)
    gap <- log_density(target, x, precision) - log_density(initial, x, precision)
    ess <- function(beta) sum(exp(beta * gap))^2 / sum(exp(2 * beta * gap))
    beta <- stats::uniroot(function(beta) ess(beta) - 100, c(1e-6, 1), tol = 1e-12)$root
    expect_equal(fit$beta, beta, tolerance = 1e-5)
    expect_equal(fit$log_evidence, log(mean(exp(fit$beta * gap))), tolerance = 1e-12)
    expect_equal(fit$stages$ess, ess(fit$beta), tolerance = 1e-12)
    index <- as.vector(resample(log_weights = fit$beta * gap, seed = 5, step = 1))
    if (n_islands == 2) {
      islands <- list(1:100, 101:200)
      index <- unlist(lapply(islands, function(at) {
        at[resample_indices(fit$beta * gap[at], 100, "systematic", 5, 1, at[1] - 1)]
      }))
    }
    expect_identical(fit$stages$unique, length(unique(index)) / 200)
    x <- x[index, ]
    path <- density_product(density_tempered(initial, 1 - fit$beta), density_tempered(target, fit$beta))
    halves <- list(1:100, 101:200)
    for (half in 1:2) {
      own <- halves[[half]]
      step_size <- fit$state$proposals[[half]]$base
      expect_equal(step_size, 2.38 / sqrt(2) * apply(x[halves[[3 - half]], ], 2, stats::sd), tolerance = 1e-12)
      moved <- x[own, ]
      accepted <- 0
      for (step in 0:1) {
        out <- mh_step(moved, path, step_size,
          seed = 5, step = step, chain_offset = own[1] - 1, precision = precision, backend = "cpu"
        )
        moved <- out$x
      }
      expect_same_bits(unname(fit$draws)[own, ], moved)
    }
  }
})

test_that("islands are resampled apart, with words of their own", {
  settings <- list(n_particles = 12, n_islands = 3)
  expect_equal(island_places(settings), list(1:4, 5:8, 9:12))
  weights <- log(c(4, 1, 1, 1e-3))
  chosen <- lapply(c(0, 400, 800), function(first) resample_island(rep(weights, 100), 1, 2, first))
  expect_false(identical(chosen[[1]], chosen[[2]]))
  expect_identical(chosen[[2]], resample_indices(rep(weights, 100), 400, "systematic", 1, 2, 400))
})

test_that("the log density of the path is that of the kernels, to the bit", {
  target <- case_target("mixture3", 3)$density
  initial <- density_normal(0, 3)
  x <- grid_matrix(100, 3, 7)
  for (precision in case_precisions) {
    for (beta in c(1e-9, 0.123456789, 0.5, 1 - 1e-9, 1)) {
      fit <- list(target = target, initial = initial)
      log_target <- log_density(target, x, precision)
      log_initial <- log_density(initial, x, precision)
      expect_same_bits(
        path_log_density(log_target, log_initial, beta, precision), log_density(path_density(fit, beta), x, precision)
      )
    }
  }
})

test_that("the next temperature solves for the effective sample size", {
  gap <- 20 * grid_values(1000, 3)
  ess <- function(rise) sum(exp(rise * gap))^2 / sum(exp(2 * rise * gap))
  for (threshold in c(0.1, 0.5, 0.99)) {
    for (scale in c(1, 1e-8, 1e8, 1e-150)) {
      root <- stats::uniroot(function(rise) ess(rise) - threshold * 1000, c(1e-9, 1), tol = 1e-13)$root
      expect_equal(next_temperature(gap / scale, 0, threshold), min(1, root * scale), tolerance = 1e-5)
    }
  }
  # what is left of the way to 1
  root <- next_temperature(gap, 0, 0.5)
  expect_equal(next_temperature(gap, 0.25, 0.5), 0.25 + root, tolerance = 1e-6)
  expect_identical(next_temperature(gap, 1 - root / 2, 0.5), 1)
  expect_identical(next_temperature(numeric(10), 0.5, 0.5), 1)
  # particles of weight zero do not count
  expect_equal(next_temperature(c(gap, rep(-Inf, 9000)), 0, 0.5), root, tolerance = 1e-9)
  # always further, however uneven the weights
  expect_gt(next_temperature(c(0, 1e300), 0, 0.9), 0)
  expect_gt(next_temperature(c(0, 1e300), 0.5, 0.9), 0.5)
})

test_that("rounds of moves", {
  rounds <- function(n_moves, jump_at, n_dim = 2) {
    n <- 0
    before <- 0
    repeat {
      jump <- jump_at(n)
      size <- next_round(n, jump, before, n_moves, n_dim)
      if (size == 0) {
        return(n)
      }
      n <- n + size
      before <- jump
    }
  }
  expect_identical(rounds(1, function(n) 0), 1)
  expect_identical(rounds(7, function(n) 1), 7)
  expect_identical(rounds("auto", function(n) 1), 4)
  expect_identical(rounds("auto", function(n) 0), 100)
  expect_identical(rounds("auto", function(n) 0, 32), 320)
  # independent after some 40 steps
  expect_identical(rounds("auto", function(n) 1 - exp(-n / 25)), 42)
  # stuck in modes: as far as it gets
  expect_identical(rounds("auto", function(n) 0.1 * (1 - exp(-n / 4))), 13)
})

test_that("halves are of whole islands, and learn from each other", {
  halves <- function(n, islands) halves_of(list(n_particles = n, n_islands = islands))
  expect_equal(halves(12, 4), list(1:6, 7:12))
  expect_equal(halves(12, 3), list(1:4, 5:12))
  expect_equal(halves(7, 1), list(1:3, 4:7))
  expect_equal(halves(1, 1), list(1L))
  x <- rbind(grid_matrix(100, 2, 1), 10 * grid_matrix(100, 2, 2))
  fit <- list(
    target = density_normal(0, 1), initial = density_normal(0, 2), seed = 1,
    settings = list(
      n_particles = 200, n_islands = 2, ess_threshold = 1e-3, n_moves = 2, covariance = "diagonal", precision = "double"
    )
  )
  now <- first_particles(fit, x, list("cpu"))
  now$log_target <- now$log_initial
  started <- start_stage(now, fit)
  own <- lapply(started$moving$parts, function(part) apply(part$start, 2, stats::sd))
  learnt <- lapply(started$proposals, function(proposal) proposal$sd)
  expect_equal(learnt, rev(own), tolerance = 1e-12)
})

test_that("the scale of the proposal is kept from shape to shape", {
  proposal <- new_proposal(c(1, 1))
  proposal$log_scale <- -1
  x <- grid_matrix(100, 2, 1)
  new <- reshape_proposal(reshape_proposal(proposal, x, "full"), 100 * x, "full")
  expect_identical(new$log_scale, -1)
  expect_equal(new$sd, 100 * apply(x, 2, stats::sd), tolerance = 1e-12)
})

test_that("the evidence of islands, by plain R", {
  Z <- c(1, 2, 4, 0.5)
  pooled <- pool_evidence(log(Z) - 2000)
  expect_equal(pooled$log_evidence, log(mean(Z)) - 2000, tolerance = 1e-15)
  expect_equal(pooled$log_evidence_se, stats::sd(Z) / 2 / mean(Z), tolerance = 1e-12)
  expect_identical(pool_evidence(-3), list(log_evidence = -3, log_evidence_se = NA_real_))
  expect_identical(pool_evidence(c(-3, -3))$log_evidence_se, 0)
})

test_that("jumps are 1 minus the correlation", {
  x <- grid_matrix(1000, 2, 1)
  y <- 0.6 * x + 0.8 * grid_matrix(1000, 2, 9)
  sd <- apply(x, 2, stats::sd)
  expect_equal(mean_jump(y, x, sd), mean(colMeans((y - x)^2) / sd^2) / 2, tolerance = 1e-12)
  expect_equal(mean_jump(y, x, sd), 0.4, tolerance = 0.1)
  many <- grid_matrix(1e5, 1, 2)
  expect_equal(mean_jump(2 * many, many, 1), mean(many^2) / 2, tolerance = 0.05)
})
