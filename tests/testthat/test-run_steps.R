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
  failed <- character()
  for (precision in case_precisions) {
    for (kind in c("normal", "mixture3")) {
      for (shape in run_shapes[c(2, 5, 9, 12)]) {
        run <- function(...) {
          run_case(
            case_target(kind, shape[2])$density, shape[1], shape[2], precision, case_step("vector", shape[2]), 3, 1,
            TRUE, ...
          )
        }
        whole <- with_simd("baseline", with_threads(1, run(list("cpu"))))
        others <- list(
          pieces = run(list("cpu"), pieces = c(3, 9, 12)), parts = run(list("cpu", "cpu", "cpu")),
          threads = with_threads(2, run(list("cpu"))), single_steps = run(list("cpu"), pieces = rep(3, 8))
        )
        for (level in simd_levels()) others[[level]] <- with_simd(level, run(list("cpu")))
        for (name in names(others)) {
          if (!same_bits(others[[name]], whole)) failed <- c(failed, paste(name, kind, precision, shape[1], shape[2]))
        }
      }
    }
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
  in_r <- run_case(
    density_function(function(x) ifelse(x[, 1] > 2.5, NaN, -0.5 * x[, 1]^2), n_dim = 1), 50, 1, "double", 2, 1, 0, FALSE,
    list("cpu")
  )
  expect_gt(in_c$state$not_finite[["n"]], 0)
  expect_identical(in_c$state$not_finite, in_r$state$not_finite)
  expect_true(all(in_c$state$x <= 2.5))
})

test_that("a GPU gives the CPU's bits, alone, twice, and beside the CPU", {
  skip_without_gpu()
  failed <- character()
  compare <- function(target, n, d, precision, step, plan, sums, label) {
    run <- function(devices) run_case(target, n, d, precision, step, plan[["thin"]], plan[["store"]], sums, devices)
    expected <- run(list("cpu"))
    for (devices in list(list(0L), list(0L, 0L), list("cpu", 0L))) {
      if (!same_bits(run(devices), expected)) failed <<- c(failed, paste(label, n, d, precision, length(devices), sums))
    }
  }
  for (precision in case_precisions) {
    for (sums in c(FALSE, TRUE)) {
      for (plan in run_plans) {
        for (shape in run_shapes) {
          for (kind in c("standard", "normal", "mixture3")) {
            step <- case_step("vector", shape[2])
            compare(case_target(kind, shape[2])$density, shape[1], shape[2], precision, step, plan, sums, kind)
          }
        }
      }
      for (d in c(2, 10)) {
        cases <- density_cases(d, 130)
        for (name in names(cases)) {
          compare(cases[[name]], 41, d, precision, rep(0.1, d), run_plans[[2]], sums, name)
          compare(cases[[name]], 41, d, precision, case_step("lower", d), run_plans[[1]], sums, name)
        }
      }
      source <- density_source("real log_density(const real *x, int n_dim) {
        real s = 0;
        for (int d = 0; d < n_dim; d++) s += x[d] * x[d] * a;
        return -s;
      }", list(a = 0.5), n_dim = 6)
      compare(source, 90, 6, precision, rep(0.4, 6), run_plans[[3]], sums, "source")
      compare(density_normal(), 300000, 16, precision, rep(0.3, 16), c(thin = 3, store = 5), sums, "large")
    }
  }
  expect_none(failed)
})
