# Parts of a run join to the whole.

test_that("any split at multiples of 4096 joins to the whole, to the bit", {
  n <- 9 * 4096 + 123
  splits <- list(1, 8, 9, c(1, 2), c(3, 4, 5), 1:9, c(2, 7))
  for (start in c(0, 7 * 4096, 1000)) {
    for (keep in c("summary", "draws")) {
      precision <- if (start > 0) "single" else "double"
      run <- function(n, offset) {
        small_is(n, offset, keep = keep, covariance = TRUE, n_tail = 700, precision = precision)
      }
      whole <- bare(run(n, start))
      if (keep == "draws") {
        expect_identical(whole$sums$tail, sort(whole$log_weights, decreasing = TRUE)[1:700])
      }
      for (tiles in splits) {
        borders <- c(start, start %/% 4096 * 4096 + 4096 * tiles, start + n)
        parts <- Map(run, diff(borders), borders[-length(borders)])
        expect_same_bits(bare(is_merge(parts)), whole, paste(start, keep, paste(tiles, collapse = " ")))
      }
      expect_same_bits(bare(is_merge(rev(parts))), whole)
      expect_same_bits(bare(is_merge(is_merge(parts[[1]], parts[[2]]), parts[[3]])), whole)
      expect_same_bits(bare(is_merge(parts[[1]], is_merge(parts[[2]], parts[[3]]))), whole)
      expect_same_bits(bare(is_merge(is_merge(parts))), whole)
    }
  }
})

test_that("splits elsewhere join up to rounding", {
  whole <- small_is(20000, keep = "draws", covariance = TRUE)
  for (at in list(1, 4095, 5000, c(100, 200, 300, 9000), 19999)) {
    borders <- c(0, at, 20000)
    parts <- Map(function(n, offset) {
      small_is(n, offset, keep = "draws", covariance = TRUE)
    }, diff(borders), borders[-length(borders)])
    joined <- is_merge(parts)
    expect_same_bits(joined$draws, whole$draws)
    expect_same_bits(joined$log_weights, whole$log_weights)
    expect_same_bits(joined$sums$tail, whole$sums$tail)
    expect_identical(dim(joined$sums$nodes), dim(whole$sums$nodes))
    for (part in c("mean", "sd", "cov", "ess", "log_mean_weight", "log_mean_weight_se", "max_share")) {
      expect_equal(joined[[part]], whole[[part]], tolerance = 1e-12, info = paste(part, at[1]))
    }
  }
})

test_that("a result is small, however many samples it is of", {
  fit <- small_is(300 * 4096 + 5, 5 * 4096 + 9)
  expect_lte(ncol(fit$sums$nodes), 2 * ceiling(log2(300)) + 2)
})

test_that("counts, places and zero weights survive joining", {
  holes <- density_function(function(x) ifelse(x[, 1] > 2, NaN, ifelse(x[, 1] < 0, -Inf, -rowSums(x^2) / 2)), 2)
  run <- function(n, offset = 0) {
    suppressWarnings(small_is(n, offset, target = holes, nonfinite = "drop", keep = "draws"))
  }
  whole <- run(10000)
  expect_gt(whole$n_bad, 0)
  expect_same_bits(bare(is_merge(run(1808, 8192), run(4096), run(4096, 4096))), bare(whole))
  none <- density_function(function(x) rep(-Inf, nrow(x)), 2)
  part <- function(offset) suppressWarnings(small_is(4096, offset, target = none))
  expect_identical(is_merge(part(0), part(4096))$ess, 0)
})

test_that("empty parts are no obstacle", {
  whole <- small_is(5000)
  for (offset in c(0, 17, 5000, 1e6)) {
    expect_same_bits(bare(is_merge(small_is(0, offset), whole)), bare(whole))
  }
  expect_identical(is_merge(small_is(0, 5), small_is(0, 5))$n, 0)
})

test_that("draws are joined where every part has them", {
  a <- small_is(4096, keep = "draws")
  b <- small_is(4096, 4096)
  expect_same_bits(bare(is_merge(a, b)), bare(small_is(8192)))
  chosen <- small_is(4096, 4096, keep = "resampled", n_resample = 10)
  expect_same_bits(bare(is_merge(a, chosen)), bare(small_is(8192)))
  first <- small_is(4096, keep = "resampled", n_resample = 10)
  expect_same_bits(bare(is_merge(first, b)), bare(small_is(8192)))
})

test_that("a result that was saved and read again is as good", {
  file <- withr::local_tempfile()
  saveRDS(small_is(4096), file)
  expect_same_bits(bare(is_merge(readRDS(file), small_is(904, 4096))), bare(small_is(5000)))
})

test_that("parts that do not fit are refused", {
  fit <- small_is(4096)
  other <- function(..., offset = 4096) small_is(100, offset, ...)
  expect_input_error(is_merge(), "...", "it is NULL")
  expect_input_error(is_merge(small_is(10), 3), "...", "part 2 is 3")
  expect_input_error(is_merge(list()), "...")
  expect_input_error(is_merge(fit, 1), "...")
  expect_input_error(is_merge(1), "...", "1")
  expect_input_error(is_merge(fit, fit), "...", "samples number 0 to 4095 are in two parts")
  expect_input_error(is_merge(fit, other(offset = 4000)), "...", "samples number 4000 to 4095 are in two parts")
  expect_input_error(is_merge(fit, small_is(10, 4000)), "...", "samples number 4000 to 4009 are in two parts")
  expect_input_error(is_merge(other(offset = 5000), fit), "...", "samples number 4096 to 4999 are missing")
  expect_input_error(is_merge(fit, other(seed = 32)), "...", "seed")
  expect_input_error(is_merge(fit, other(target = density_normal(c(a = 0, b = 1), 1))), "...", "target")
  expect_input_error(is_merge(fit, other(proposal = density_student_t(5, c(0.5, 0.5), 3))), "...", "proposal")
  expect_input_error(is_merge(fit, other(proposal = list(is_proposal()))), "...", "proposal")
  expect_input_error(is_merge(fit, other(precision = "single")), "...", "precision")
  expect_input_error(is_merge(fit, other(covariance = TRUE)), "...", "covariance")
  expect_input_error(is_merge(fit, other(n_tail = 10)), "...", "n_tail")
  stored <- function(...) is_summary(matrix(1, 10, 2), log_weights = numeric(10), ...)
  expect_input_error(is_merge(stored(), stored(offset = 10, shift = 1)), "...", "shift")
})

test_that("functions of the same code with other values in them are not merged", {
  with_sd <- function(s) density_function(function(x) -rowSums(x^2) / (2 * s^2), n_dim = 2)
  part <- function(s, offset) importance_sample(with_sd(s), density_normal(0, 3), 4096, seed = 1, offset = offset)
  expect_input_error(is_merge(part(1, 0), part(2, 4096)), "...", "another target")
  expect_identical(is_merge(part(1, 0), part(1, 4096))$n, 8192)
})
