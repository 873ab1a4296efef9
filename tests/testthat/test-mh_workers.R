# Chains in several processes, and parts by hand.

big_run <- function(n_steps = 30, workers = NULL, ...) {
  mh_sample(density_normal(c(0, 1), c(1, 2)),
    n_chains = 48, n_steps = n_steps, n_warmup = 60, seed = 21, workers = workers, backend = "cpu", ...
  )
}

test_that("workers give what one process gives", {
  skip_if_not_installed("future.apply")
  skip_on_cran()
  old <- future::plan(future::multisession, workers = 2)
  withr::defer(future::plan(old))
  for (keep in c("draws", "summary")) {
    one <- big_run(keep = keep)
    two <- big_run(keep = keep, workers = 2)
    expect_same_bits(bare(two), bare(one))
    expect_identical(two$run$workers, 2)
    expect_identical(one$run$workers, 0)
    expect_same_bits(bare(mh_resume(two, 20, workers = 2)), bare(mh_resume(one, 20)))
  }
})

test_that("any plan and any number of parts will do", {
  skip_if_not_installed("future.apply")
  old <- future::plan(future::sequential)
  withr::defer(future::plan(old))
  one <- big_run(n_superchains = 3)
  for (workers in c(1, 5, 100)) {
    expect_same_bits(bare(big_run(n_superchains = 3, workers = workers)), bare(one))
  }
})

test_that("parts by mh_split(), continued by themselves and joined, are the whole", {
  start <- big_run(0, n_superchains = 3)
  for (keep in c("draws", "summary")) {
    one <- big_run(n_superchains = 3, keep = keep, batch = 31)
    parts <- mh_split(big_run(0, n_superchains = 3, keep = keep), 5)
    expect_identical(vapply(parts, function(part) part$chain_offset, 0), c(0, 10, 20, 30, 39))
    joined <- mh_bind(lapply(parts, mh_resume, n_steps = 30))
    expect_same_bits(bare(joined), bare(one))
    again <- mh_bind(mh_resume(parts[[1]], 30), mh_resume(parts[[2]], 30))
    expect_identical(again$draws, one$draws[, 1:20, , drop = FALSE])
  }
  expect_same_bits(bare(mh_bind(mh_split(start, 7))), bare(start))
  expect_same_bits(bare(mh_bind(mh_split(one, 7))), bare(one))
})

test_that("counts of proposals that are not finite survive splitting and joining", {
  target <- density_function(function(x) ifelse(x[, 1] > 1, NaN, -x[, 1]^2 / 2))
  run <- function(n_steps) {
    suppressWarnings(mh_sample(target, matrix(seq(0.9, -1, length.out = 9)),
      n_steps = n_steps, n_warmup = 4, batch = 3, adapt = FALSE, step_size = 0.3, seed = 5
    ))
  }
  one <- run(20)
  joined <- suppressWarnings(mh_bind(lapply(mh_split(run(0), 3), mh_resume, n_steps = 20)))
  expect_gt(one$state$not_finite[["n"]], 0)
  expect_identical(bare(joined), bare(one))
})

test_that("of the first places the one of the lowest step is kept, then of the lowest row", {
  count <- function(n, step, row) c(n = n, step = step, row = row)
  none <- count(0, NA, NA)
  expect_identical(bind_not_finite(list(count(1, 9, 1), count(2, 3, 4)), c(0, 10)), count(3, 3, 14))
  expect_identical(bind_not_finite(list(none, count(2, 3, 4), count(1, 3, 1)), c(0, 10, 20)), count(3, 3, 14))
  expect_identical(bind_not_finite(list(none, none), c(0, 10)), none)
})

test_that("runs of their own with chain_offset join to the same draws, and to the same summary up to rounding", {
  x <- grid_matrix(24, 2, 95) + rep(c(0, 100), each = 24)
  run <- function(rows, ...) {
    mh_sample(density_normal(c(0, 100), 1), x[rows, ],
      n_steps = 50, step_size = 1, adapt = FALSE, seed = 8, chain_offset = rows[1] - 1, ...
    )
  }
  one <- run(1:24)
  joined <- mh_bind(list(run(1:5), run(6:6 + 0:10), run(17:24)))
  same <- setdiff(names(one), c("run", "state"))
  expect_identical(unclass(joined)[same], unclass(one)[same])
  for (part in c("x", "log_density", "n_accepted", "range")) {
    expect_identical(joined$state[[part]], one$state[[part]])
  }
  expect_equal(summary(joined), summary(one), tolerance = 1e-10)
  few <- mh_bind(run(1:2), run(3:4))
  expect_equal(summary(few), summary(run(1:4)), tolerance = 1e-10)
})

test_that("parts that do not fit are refused", {
  fit <- small_run(20, adapt = FALSE)
  other <- function(...) mh_sample(fit$target, fit$state$x, adapt = FALSE, chain_offset = 5, backend = "cpu", ...)
  expect_input_error(mh_bind(), "...")
  expect_input_error(mh_bind(list()), "...")
  expect_input_error(mh_bind(fit, 1), "...")
  expect_input_error(mh_bind(fit[1:2], fit[3:4]), "...", "mh_split()")
  expect_input_error(mh_bind(fit, fit), "...", "chains from 0, not 5")
  expect_input_error(mh_bind(fit, other(n_steps = 20, seed = 12)), "...", "seed")
  expect_input_error(mh_bind(fit, other(n_steps = 20, seed = 11, step_size = 3)), "...", "step size")
  expect_input_error(mh_bind(fit, other(n_steps = 21, seed = 11)), "...", "number of steps")
  expect_input_error(mh_bind(fit, other(n_steps = 20, seed = 11, thin = 2)), "...", "settings")
  different <- mh_sample(density_normal(0, 1), fit$state$x, n_steps = 20, adapt = FALSE, chain_offset = 5, seed = 11)
  expect_input_error(mh_bind(fit, different), "...", "target")
  expect_input_error(mh_split(fit, 0), "n", "0")
  expect_input_error(mh_split(fit, 6), "n", "6")
})
