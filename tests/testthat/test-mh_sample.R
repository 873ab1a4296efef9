# mh_sample(): a run is the path of mh_step(), however it is cut. Statistics of runs: test-mh_sample-statistics.R.

sample_targets <- function() {
  list(
    normal = density_normal(c(0, 1), c(1, 2)), mixture = case_target("mixture3", 2)$density,
    mvnormal = density_mvnormal(c(0, 1), matrix(c(2, 0.5, 0.5, 1), 2)),
    in_r = density_function(function(x) -rowSums(x^2) / 2 - x[, 1]^4)
  )
}

# The path by mh_step(): list(draws of every step, log_density, n_accepted).
walk <- function(x, target, step_size, n_steps, seed, chain_offset = 0, precision = "double", first = 0) {
  draws <- array(0, c(n_steps, dim(x)))
  n_accepted <- numeric(nrow(x))
  for (t in seq_len(n_steps)) {
    out <- mh_step(x, target, step_size,
      seed = seed, step = first + t - 1, chain_offset = chain_offset, precision = precision, backend = "cpu"
    )
    x <- out$x
    draws[t, , ] <- x
    n_accepted <- n_accepted + out$accepted
  }
  list(draws = draws, log_density = out$log_density, n_accepted = n_accepted)
}

# What of a run is not the path by mh_step().
path_faults <- function(target, step_size, precision) {
  x <- grid_matrix(5, 2, 91)
  fit <- mh_sample(target, x,
    n_steps = 30, step_size = step_size, adapt = FALSE, seed = 2^40 + 1, chain_offset = 2^33, precision = precision,
    backend = "cpu"
  )
  path <- walk(x, target, step_size, 30, 2^40 + 1, 2^33, precision)
  moved <- length(unique(as.vector(fit$draws[, 1, 1])))
  names(which(c(
    draws = !same_bits(unname(fit$draws), path$draws), last = !same_bits(fit$state$x, path$draws[30, , ]),
    log_density = !same_bits(fit$state$log_density, path$log_density),
    accepted = !identical(fit$state$n_accepted, path$n_accepted),
    acceptance = !identical(fit$acceptance, path$n_accepted / 30), both_outcomes = moved < 3 || moved > 29
  )))
}

test_that("T calls of mh_step() are the path of mh_sample()", {
  targets <- sample_targets()
  for (name in names(targets)) {
    for (precision in case_precisions) {
      for (kind in c("scalar", "vector", "lower")) {
        faults <- path_faults(targets[[name]], 3 * case_step(kind, 2), precision)
        expect_identical(faults, character(), info = paste(name, precision, kind))
      }
    }
  }
})

test_that("a run agrees with the oracle's, sums and counts included", {
  target <- density_function(function(x) ifelse(x[, 1] > 1, NaN, -rowSums(x^2) / 2))
  for (store in c(0, 1, 3)) {
    for (in_r in c(TRUE, FALSE)) {
      chosen <- if (in_r) target else case_target("mixture3", 3)$density
      state <- new_run_state(chosen, abs(grid_matrix(7, 3, 92)) * -0.4, "double", list("cpu"))
      state <- begin_sums(state, 4)
      run <- function(f, state, n) f(chosen, state, rep(0.9, 3), n, thin = 2, store = store, seed = 5, chain_offset = 9)
      actual <- run(run_steps, run(run_steps, state, 18)$state, 22)
      expected <- run(oracle_run_steps, run(oracle_run_steps, state, 18)$state, 22)
      for (part in c("x", "log_density", "n_accepted", "range", "n_kept", "step", "n_steps")) {
        expect_identical(actual$state[[part]], expected$state[[part]], info = part)
      }
      expect_equal(actual$state$not_finite, expected$state$not_finite)
      expect_identical(actual$draws, expected$draws)
      expect_equal(actual$state$sums, expected$state$sums, tolerance = 1e-13)
      expect_identical(actual$state$not_finite[["n"]] > 0, in_r)
    }
  }
})

test_that("thinned draws are a part of the unthinned, and sums of thinned states are theirs", {
  all <- small_run(60, adapt = FALSE, step_size = 1)
  for (thin in c(2, 3, 60)) {
    thinned <- small_run(60, adapt = FALSE, step_size = 1, thin = thin)
    expect_identical(thinned$draws, all$draws[seq_len(60 / thin) * thin, , , drop = FALSE])
    expect_identical(thinned$state$x, all$state$x)
    expect_identical(thinned$acceptance, all$acceptance)
    expect_equal(summary(thinned)$mean, unname(apply(thinned$draws, 3, mean)), tolerance = 1e-12)
  }
})

test_that("chain i is the same whatever the number of chains beside it", {
  x <- grid_matrix(40, 2, 93)
  run <- function(rows) {
    mh_sample(density_normal(0, 1), x[rows, , drop = FALSE],
      n_steps = 20, n_warmup = 10, step_size = 1, adapt = FALSE, seed = 3, chain_offset = 100 + rows[1] - 1
    )
  }
  all <- run(1:40)
  for (rows in list(1:1, 1:7, 8:40, 33:33)) {
    part <- run(rows)
    expect_identical(part$draws, all$draws[, rows, , drop = FALSE])
    expect_identical(part$state$log_density, all$state$log_density[rows])
  }
})

test_that("threads, builds of the CPU and how chains are split over devices change nothing", {
  run <- function(...) {
    bare(mh_sample(density_mvnormal(c(0, 1), matrix(c(2, 0.5, 0.5, 1), 2)),
      n_chains = 160, n_steps = 40, n_warmup = 100, adapt_shape = "full", seed = 4, ...
    ))
  }
  one <- with_threads(1, run(backend = "cpu"))
  expect_same_bits(with_threads(2, run(backend = "cpu")), one)
  for (level in simd_levels()) {
    expect_same_bits(with_simd(level, run(backend = "cpu")), one)
  }
  expect_same_bits(run(devices = "cpu"), one)
  expect_same_bits(run(devices = c("cpu", "cpu", "cpu")), one)
})

test_that("on a GPU, on one twice, and with the CPU beside it the result is the same", {
  skip_without_gpu()
  run <- function(devices, ...) {
    target <- density_normal(c(0, 1, 5), 1)
    bare(mh_sample(target, n_chains = 64, n_steps = 40, thin = 2, seed = 4, devices = devices, ...))
  }
  for (keep in c("draws", "summary")) {
    one <- run("cpu", keep = keep)
    expect_same_bits(run(0, keep = keep), one)
    expect_same_bits(run(c(0, 0), keep = keep), one)
    expect_same_bits(run(c("cpu", "0"), keep = keep), one)
  }
})

test_that("warm-up without adapting takes the steps before and keeps none of them", {
  x <- grid_matrix(3, 2, 94)
  fit <- mh_sample(density_normal(0, 1), x, n_steps = 10, n_warmup = 37, step_size = 1, adapt = FALSE, seed = 1)
  path <- walk(x, density_normal(0, 1), 1, 47, 1)
  expect_identical(unname(fit$draws), path$draws[38:47, , , drop = FALSE])
  expect_identical(fit$step_size, c(1, 1))
  expect_identical(fit$state$n_steps, 10)
})

test_that("the result has the documented parts, shapes and names", {
  fit <- small_run(20, adapt = FALSE)
  expect_s3_class(fit, "mh_draws")
  expect_named(fit, c(
    "draws", "sample", "state", "acceptance", "step_size", "settings", "seed", "chain_offset", "target", "parameters",
    "superchain", "warmup", "run", "version"
  ))
  expect_identical(dim(fit$draws), c(20L, 5L, 2L))
  expect_null(fit$sample)
  expect_identical(dim(fit), c(20, 5, 2))
  expect_identical(dimnames(fit), list(NULL, NULL, c("a", "b")))
  expect_identical(dimnames(fit$draws), dimnames(fit))
  expect_identical(fit$seed, 11)
  expect_identical(fit$superchain, 1:5)
  expect_identical(nrow(fit$warmup), 0L)
  expect_identical(fit$step_size, rep(2.38 / sqrt(2), 2))
  expect_named(fit$run, c("backend", "devices", "workers", "seconds"))
  one <- mh_sample(density_normal(0, 1), matrix(0.5), n_steps = 5, adapt = FALSE, seed = 1)
  expect_identical(dim(one$draws), c(5L, 1L, 1L))
  empty <- mh_sample(density_normal(0, 1), matrix(0, 0, 3), n_steps = 10, thin = 2, seed = 1)
  expect_identical(dim(empty$draws), c(5L, 0L, 3L))
  expect_true(all(is.na(summary(empty)[-1])))
  expect_output(print(empty), "0 chains")
})

test_that("names come from the starts, else from the target", {
  target <- density_glm(am ~ wt, mtcars, family = "binomial")
  names_of <- function(init) mh_sample(target, init, n_chains = 2, n_steps = 2, adapt = FALSE, seed = 1)$parameters
  expect_identical(names_of(NULL), c("(Intercept)", "wt"))
  expect_identical(names_of(c(a = 0, b = 0)), c("a", "b"))
  expect_identical(names_of(data.frame(u = c(0, 0), v = c(0, 0))), c("u", "v"))
})

test_that("without a seed set.seed() governs, and with one R's generator is untouched", {
  run <- function() mh_sample(density_normal(0, 1), matrix(0, 2, 2), n_steps = 5)
  withr::local_preserve_seed()
  set.seed(1)
  first <- run()
  second <- run()
  set.seed(1)
  expect_identical(bare(run()), bare(first))
  expect_false(identical(first$draws, second$draws))
  before <- .Random.seed
  small_run(5)
  expect_identical(.Random.seed, before)
  expect_identical(mh_sample(density_normal(0, 1), matrix(0, 2, 2), n_steps = 5, seed = first$seed)$draws, first$draws)
})

test_that("keep = \"summary\" stores sums and a bounded sample, at a stride that divides that of a longer run", {
  all <- small_run(64, thin = 2)
  kept <- small_run(64, thin = 2, keep = "summary")
  expect_null(kept$draws)
  expect_identical(kept$sample, all$draws)
  expect_identical(kept$state, all$state)
  same <- setdiff(names(summary(all)), "rhat") # of halves and of whole chains
  expect_identical(summary(kept)[same], summary(all)[same])
  expect_identical(sample_stride(1000, 4096, 64), 128)
  expect_identical(sample_stride(1000, 10, 10), 1)
  expect_identical(sample_stride(1000, 1e6, 3), 0)
  for (n in c(10, 100, 1e3, 1e4)) {
    stride <- sample_stride(n, 1000, 10)
    expect_lte(n %/% stride * 1e4, 2e6)
    expect_identical(sample_stride(10 * n, 1000, 10) %% stride, 0)
  }
})

test_that("a result that memory has no room for is refused before anything runs", {
  called <- FALSE
  target <- density_function(function(x) {
    called <<- TRUE
    -rowSums(x^2)
  })
  error <- expect_error(
    mh_sample(target, numeric(10), n_chains = 1e6, n_steps = 1e5),
    class = "fusedmc_error_memory"
  )
  expect_match(conditionMessage(error), "8e+03 GB", fixed = TRUE)
  expect_match(conditionMessage(error), "keep = \"summary\"", fixed = TRUE)
  expect_false(called)
  withr::local_options(fusedmc.max_gb = 1e-5)
  expect_error(small_run(600), class = "fusedmc_error_memory")
  expect_s3_class(small_run(600, keep = "summary", adapt = FALSE), "mh_draws")
  withr::local_options(fusedmc.max_gb = -1)
  expect_input_error(small_run(), "fusedmc.max_gb", "-1")
})

test_that("a bad argument is an error that names it", {
  run <- function(target = density_normal(0, 1), init = matrix(0, 4, 2), n_steps = 10, ...) {
    mh_sample(target, init, n_steps = n_steps, ...)
  }
  expect_input_error(run(target = "normal"), "target")
  expect_input_error(run(target = density_normal(1:3, 1)), "target")
  expect_input_error(run(n_steps = 1.5), "n_steps", "1.5")
  expect_input_error(run(n_steps = NA), "n_steps")
  expect_input_error(run(n_steps = -1), "n_steps", "-1")
  expect_input_error(run(n_steps = 10, thin = 3), "n_steps", "multiple of `thin`, 3")
  expect_input_error(run(n_steps = 2^32 - 1, n_warmup = 10), "n_steps")
  expect_input_error(run(n_warmup = "5"), "n_warmup")
  expect_input_error(run(thin = 0), "thin", "0")
  expect_input_error(run(thin = Inf), "thin")
  expect_input_error(run(step_size = -1), "step_size", "-1")
  expect_input_error(run(step_size = 1:3), "step_size")
  expect_input_error(run(step_size = 0), "step_size", "positive")
  expect_input_error(run(step_size = c(1, 0)), "step_size", "positive")
  expect_input_error(run(adapt = NA), "adapt")
  expect_input_error(run(adapt_shape = "dense"), "adapt_shape", "dense")
  expect_input_error(run(target_acceptance = 1), "target_acceptance", "1")
  expect_input_error(run(target_acceptance = 0), "target_acceptance")
  expect_input_error(run(keep = "all"), "keep", "all")
  expect_input_error(run(n_chains = 5), "n_chains", "4")
  expect_input_error(run(n_superchains = 3), "n_superchains", "3")
  expect_input_error(run(n_superchains = 8), "n_superchains")
  expect_input_error(run(batch = 0), "batch")
  expect_input_error(run(seed = -1), "seed")
  expect_input_error(run(seed = 0.5), "seed")
  expect_input_error(run(chain_offset = 2^54), "chain_offset")
  expect_input_error(run(precision = "half"), "precision", "half")
  expect_input_error(run(backend = "gpu"), "backend", "gpu")
  expect_input_error(run(devices = "gpu"), "devices", "gpu")
  expect_input_error(run(devices = -1), "devices", "-1")
  expect_input_error(run(devices = list("cpu")), "devices")
  expect_input_error(run(devices = NA), "devices")
  expect_input_error(run(workers = 0), "workers")
  expect_input_error(run(progress = "yes"), "progress")
  expect_identical(small_run(4, step_size = 0, adapt = FALSE)$state$x, grid_matrix(5, 2, 91))
})

test_that("a GPU that is not there is an error", {
  skip_with_gpu()
  expect_error(small_run(devices = 0), class = "fusedmc_error_cuda")
  expect_error(small_run(devices = c("cpu", "0")), class = "fusedmc_error_cuda")
})

test_that("proposals that are not finite are counted, with one warning that names the first", {
  target <- density_function(function(x) ifelse(x[, 1] > 1, NaN, -x[, 1]^2 / 2))
  x <- matrix(0, 50, 1)
  run <- function() mh_sample(target, x, n_steps = 20, step_size = 1, adapt = FALSE, seed = 1, chain_offset = 10)
  warnings <- testthat::capture_warnings(fit <- run())
  expect_length(warnings, 1)
  n <- 0
  first <- NULL
  for (t in 0:19) {
    out <- suppressWarnings(mh_step(x, target, 1, seed = 1, step = t, chain_offset = 10))
    bad <- which(is.nan(out$log_alpha))
    n <- n + length(bad)
    first <- if (is.null(first) && length(bad) > 0) c(t, bad[1]) else first
    x <- out$x
  }
  expect_equal(unname(fit$state$not_finite), c(n, first))
  expect_match(warnings, sprintf("Rejected %d proposals", n))
  expect_match(warnings, sprintf("row %d (chain %d) at step %d.", first[2], first[2] + 9, first[1]), fixed = TRUE)
  expect_warning(run(), class = "fusedmc_warning_nonfinite")
  # the count goes on, and what has been told is not told again
  expect_output(print(fit), sprintf("%d proposals rejected", n))
})

test_that("nothing that was given is changed", {
  x <- matrix(as.numeric(1:10), 5)
  y <- x + 0
  step <- c(0.5, 0.5)
  mh_sample(density_normal(0, 1), x, n_steps = 30, step_size = step, seed = 1)
  expect_identical(x, y)
  expect_identical(step, c(0.5, 0.5))
  fit <- small_run(20)
  copy <- unserialize(serialize(fit, NULL))
  mh_resume(fit, 20)
  expect_identical(fit, copy)
})
