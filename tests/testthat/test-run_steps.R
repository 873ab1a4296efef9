# Many steps in C: the same bits as steps one by one, for every way of cutting and computing them.

run_case <- function(target, n, d, precision, step_size, thin, store, sums, devices, pieces = 24, ...) {
  x <- grid_matrix(n, d, 5)
  state <- new_run_state(target, x, precision, list("cpu"))
  if (sums) state <- begin_sums(state, 3)
  draws <- NULL
  for (size in pieces) {
    out <- run_steps(target, state, step_size, size,
      thin = thin, store = store, seed = 2^40 + 11, chain_offset = 3, precision = precision, devices = devices, ...
    )
    state <- out$state
    draws <- c(draws, if (!is.null(out$draws)) aperm(out$draws, c(2, 3, 1)))
  }
  list(state = state, draws = draws)
}

run_shapes <- list(
  c(1, 1), c(7, 3), c(100, 4), c(33, 5), c(65, 8), c(77, 16), c(50, 17), c(40, 32), c(129, 33), c(64, 64), c(31, 100),
  c(9, 129), c(9, 256), c(5, 300), c(5, 512), c(3, 777), c(3, 1024), c(2, 1500)
)
run_plans <- list(c(thin = 1, store = 0), c(thin = 3, store = 1), c(thin = 2, store = 2))

test_that("a run is the same steps as mh_step() takes", {
  for (precision in case_precisions) {
    for (kind in c("standard", "mixture3")) {
      target <- case_target(kind, 5)$density
      run <- run_case(target, 37, 5, precision, case_step("vector", 5), 2, 1, TRUE, list("cpu"))
      x <- grid_matrix(37, 5, 5)
      if (precision == "single") x[] <- f32(x)
      kept <- array(0, c(37, 5, 12))
      accepted <- numeric(37)
      for (t in 0:23) {
        out <- mh_step(x, target, case_step("vector", 5),
          seed = 2^40 + 11, step = t, chain_offset = 3, precision = precision, backend = "cpu"
        )
        x <- out$x
        accepted <- accepted + out$accepted
        if (t %% 2 == 1) kept[, , (t + 1) / 2] <- x
      }
      expect_same_bits(run$state$x, x)
      expect_same_bits(run$draws, as.vector(kept))
      expect_identical(run$state$n_accepted, accepted)
      expect_identical(run$state$log_density, out$log_density)
      expect_identical(unname(run$state$range), unname(t(apply(kept, 2, range))))
      d <- kept - rep(run$state$shift, each = 37)
      sums <- run$state$sums
      expect_equal(unname(sums[, , "total"] + sums[, , "batch"]), apply(d, 1:2, sum), tolerance = 1e-13)
      expect_equal(unname(sums[, , "squares"]), apply(d^2, 1:2, sum), tolerance = 1e-13)
      batches <- apply(array(d, c(37, 5, 3, 4)), c(1, 2, 4), sum)
      expect_equal(unname(sums[, , "batch_squares"]), apply(batches^2, 1:2, sum), tolerance = 1e-12)
    }
  }
})

test_that("pieces, threads, builds and parts do not change a run", {
  cases <- expand.grid(precision = case_precisions, kind = c("normal", "mixture3"), shape = c(2, 5, 9, 12))
  failed <- character()
  for (i in seq_len(nrow(cases))) {
    case <- lapply(cases[i, ], function(column) if (is.factor(column)) as.character(column) else column)
    n <- run_shapes[[case$shape]][1]
    d <- run_shapes[[case$shape]][2]
    run <- function(...) {
      run_case(case_target(case$kind, d)$density, n, d, case$precision, case_step("vector", d), 3, 1, TRUE, ...)
    }
    whole <- with_simd("baseline", with_threads(1, run(list("cpu"))))
    others <- list(
      pieces = run(list("cpu"), pieces = c(2, 5, 1, 16)), parts = run(list("cpu", "cpu", "cpu")),
      threads = with_threads(2, run(list("cpu"))), single_steps = run(list("cpu"), pieces = rep(1, 24))
    )
    for (level in simd_levels()) others[[level]] <- with_simd(level, run(list("cpu")))
    different <- !vapply(others, same_bits, NA, whole)
    failed <- c(failed, sprintf("%s %s %s %d x %d", names(others)[different], case$kind, case$precision, n, d))
  }
  expect_none(failed)
})

test_that("a function of R takes the same steps, a Cholesky factor too", {
  for (precision in case_precisions) {
    target <- density_function(function(x) log_density(density_normal(), x, precision = precision, backend = "cpu"))
    for (step in list(case_step("vector", 4), case_step("lower", 4))) {
      in_r <- run_case(target, 20, 4, precision, step, 2, 1, FALSE, list("cpu"))
      in_c <- run_case(density_normal(), 20, 4, precision, step, 2, 1, FALSE, list("cpu"))
      expect_same_bits(in_r, in_c)
    }
  }
})

test_that("proposals that are not finite are counted, with the first of them", {
  target <- density_source(
    "double log_density(const double *x, int n_dim) { return x[0] > 2.5 ? FMC_NAN : -0.5 * x[0] * x[0]; }",
    n_dim = 1
  )
  in_c <- run_case(target, 50, 1, "double", 2, 1, 0, FALSE, list("cpu"))
  same <- density_function(function(x) ifelse(x[, 1] > 2.5, NaN, -0.5 * x[, 1]^2), n_dim = 1)
  in_r <- run_case(same, 50, 1, "double", 2, 1, 0, FALSE, list("cpu"))
  expect_gt(in_c$state$not_finite[["n"]], 0)
  expect_identical(in_c$state$not_finite, in_r$state$not_finite)
  expect_true(all(in_c$state$x <= 2.5))
})

# What differs between devices and the CPU, by name.
run_differences <- function(label, target, n, d, precision, step, plan, sums, devices = list(0L)) {
  run <- function(devices, ...) {
    run_case(target, n, d, precision, step, plan[["thin"]], plan[["store"]], sums, devices, ...)
  }
  same <- same_bits(run(devices, pieces = if (sums) c(5, 1, 18) else 24), run(list("cpu")))
  if (same) character() else paste(label, n, d, precision, length(devices), sums)
}

gpu_cases <- expand.grid(precision = case_precisions, sums = c(FALSE, TRUE), stringsAsFactors = FALSE)

test_that("a GPU gives the CPU's bits in every shape", {
  skip_without_gpu()
  cases <- merge(gpu_cases, expand.grid(plan = 1:3, shape = seq_along(run_shapes), kind = 1:3))
  kinds <- c("standard", "normal", "mixture3")
  failed <- unlist(Map(function(precision, sums, plan, shape, kind) {
    d <- run_shapes[[shape]][2]
    run_differences(
      kinds[kind], case_target(kinds[kind], d)$density, run_shapes[[shape]][1], d, precision, case_step("vector", d),
      run_plans[[plan]], sums
    )
  }, cases$precision, cases$sums, cases$plan, cases$shape, cases$kind))
  expect_none(as.character(failed))
})

test_that("a GPU gives the CPU's bits for every density, twice, and beside the CPU", {
  skip_without_gpu()
  source <- density_source("real log_density(const real *x, int n_dim) {
    real s = 0;
    for (int d = 0; d < n_dim; d++) s += x[d] * x[d] * a;
    return -s;
  }", list(a = 0.5), n_dim = 6)
  failed <- character()
  for (i in seq_len(nrow(gpu_cases))) {
    compare <- function(label, target, n, d, step, plan, ...) {
      out <- run_differences(label, target, n, d, gpu_cases$precision[i], step, plan, gpu_cases$sums[i], ...)
      failed <<- c(failed, out)
    }
    for (d in c(2, 10)) {
      cases <- density_cases(d, 130)
      for (name in names(cases)) {
        compare(name, cases[[name]], 41, d, rep(0.1, d), run_plans[[2]])
        compare(name, cases[[name]], 41, d, case_step("lower", d), run_plans[[1]])
      }
    }
    for (devices in list(list(0L), list(0L, 0L), list("cpu", 0L))) {
      compare("source", source, 90, 6, rep(0.4, 6), run_plans[[3]], devices)
      compare("mixture", case_target("mixture3", 7)$density, 101, 7, rep(0.4, 7), run_plans[[3]], devices)
    }
    compare("large", density_normal(), 200000, 16, rep(0.3, 16), c(thin = 3, store = 5))
  }
  expect_none(failed)
})
