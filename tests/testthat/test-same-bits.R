# One result whatever computes it: SIMD builds here, the GPU in test-cuda.R, other machines in test-golden.R.

shapes <- list(c(1, 1), c(1, 64), c(7, 3), c(33, 5), c(65, 33), c(4096, 64), c(65537, 5), c(3, 10000))

test_that("every SIMD build gives the bits of the baseline", {
  levels <- setdiff(simd_levels(), "baseline")
  skip_if(length(levels) == 0, "the processor has neither AVX2 nor AVX-512, or the build lacks them")
  failed <- character()
  for (case in bit_cases(shapes)) {
    baseline <- with_simd("baseline", run_bit_case(case, "cpu"))
    for (level in levels) {
      if (!same_bits(with_simd(level, run_bit_case(case, "cpu")), baseline)) {
        failed <- c(failed, paste(level, case$label))
      }
    }
  }
  expect_none(failed)
})

test_that("set_simd() returns the level before and refuses what is not there", {
  now <- backend_info()$simd
  expect_identical(set_simd("baseline"), now)
  expect_identical(backend_info()$simd, "baseline")
  expect_identical(set_simd(now), "baseline")
  expect_error(set_simd("sse9"))
  expect_identical(backend_info()$simd, now)
})

test_that("every SIMD build agrees at every remainder of chains and dimensions", {
  levels <- setdiff(simd_levels(), "baseline")
  skip_if(length(levels) == 0, "the processor has neither AVX2 nor AVX-512, or the build lacks them")
  failed <- character()
  sizes <- c(1:9, 15, 16, 17)
  for (case in bit_cases(Map(c, rep(sizes, 3), rep(c(1, 4, 17), each = length(sizes))))) {
    baseline <- with_simd("baseline", run_bit_case(case, "cpu"))
    for (level in levels) {
      if (!same_bits(with_simd(level, run_bit_case(case, "cpu")), baseline)) {
        failed <- c(failed, paste(level, case$label))
      }
    }
  }
  expect_none(failed)
})

test_that("every SIMD build handles zero weights, dropped ones and NaN proposals alike", {
  levels <- simd_levels()
  log_weights <- grid_values(1000, 701) * 5
  log_weights[c(3, 64, 999)] <- c(NaN, Inf, -Inf)
  factor <- matrix(c(1e308, 1e308, 0, 1e308), 2)
  noise <- cbind(rep(c(10, 0), 20), rep(c(-10, 0), 20))
  run <- function(level) {
    with_simd(level, suppressWarnings(list(
      is_weights(grid_matrix(1000, 3, 702), log_weights = log_weights, nonfinite = "drop"),
      is_weights(grid_matrix(40, 2, 703), log_weights = rep(-Inf, 40)),
      mh_step(grid_matrix(40, 2, 704), density_normal(0, 1e308), factor, noise = noise, u = rep(0.5, 40))[1:3]
    )))
  }
  for (level in levels) {
    expect_same_bits(run(level), run("baseline"), level)
  }
})

test_that("bits_of() tells 0 from -0 and one NaN from another", {
  expect_true(same_bits(c(0, 1), c(0, 1)))
  expect_false(same_bits(0, -0))
  expect_false(same_bits(list(a = 1), list(b = 1)))
  expect_false(same_bits(1, 1 + 2^-52))
  expect_false(same_bits(matrix(1:4, 2), matrix(1:4, 1)))
})

test_that("every kind of density has one result for every SIMD build and number of threads", {
  failed <- character()
  for (d in c(1, 2, 5, 40)) {
    baseline <- function(density, precision) {
      with_simd("baseline", with_threads(1, run_density_case(density, d, precision, "cpu")))
    }
    for (level in simd_levels()) {
      failed <- c(failed, density_case_labels(d, 130, baseline, function(density, precision) {
        with_simd(level, with_threads(2, run_density_case(density, d, precision, "cpu")))
      }))
    }
  }
  expect_none(failed)
})
