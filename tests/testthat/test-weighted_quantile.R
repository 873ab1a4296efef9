# Weighted quantiles: the inverse of the weighted distribution function.

test_that("small cases have their known values", {
  expect_identical(weighted_quantile(1:5, c(0, 0.25, 0.5, 0.75, 1), weights = c(0, 1, 2, 1, 0)), c(2, 2, 3, 3, 4))
  expect_identical(weighted_quantile(0:2, 0, weights = c(0, 0, 1)), 2)
  expect_identical(weighted_quantile(1:4, 0.5, weights = c(1000, 1, 1, 1)), 1)
  x <- c(-0.103, -0.089, 0, 0, 0.039, 0.055)
  expect_identical(weighted_quantile(x, 0.5, weights = c(0.08, 0.14, 0.22, 0.12, 0.28, 0.16)), 0)
  expect_identical(weighted_quantile(7, c(0, 0.3, 1), weights = 2), c(7, 7, 7))
})

test_that("equal weights give R's quantiles of type 1", {
  x <- grid_values(101, 301)
  probs <- c(0, 0.1, 0.25, 1 / 3, 0.5, 0.9, 1)
  expect_identical(weighted_quantile(x, probs), quantile(x, probs, type = 1, names = FALSE))
})

test_that("whole weights are repetitions", {
  x <- grid_values(50, 302)
  times <- rep(0:4, 10)
  probs <- 0:20 / 20
  expected <- sort(rep(x, times))[pmax(1, 5 * 0:20)]
  expect_identical(weighted_quantile(x, probs, weights = times), expected)
  expect_identical(weighted_quantile(x, probs, log_weights = log(times)), expected)
})

test_that("zero weights, order and a common factor change nothing", {
  x <- grid_values(200, 303)
  w <- round(10 * grid_uniform(200, 304))
  probs <- c(0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 1)
  base <- weighted_quantile(x, probs, weights = w)
  expect_identical(weighted_quantile(x[w > 0], probs, weights = w[w > 0]), base)
  expect_identical(weighted_quantile(rev(x), probs, weights = rev(w)), base)
  for (by in c(0.1, 1 / 3, 1e-300, 1e300, 7)) {
    expect_identical(weighted_quantile(x, probs, weights = w * by), base)
  }
  for (by in c(-1e4, 1e4)) {
    expect_identical(weighted_quantile(x, probs, log_weights = log(w) + by), base)
  }
  x[w == 0] <- NA
  expect_identical(weighted_quantile(x, probs, weights = w), base)
})

test_that("without weight there is no quantile", {
  expect_identical(weighted_quantile(1:3, c(0, 0.5), weights = c(0, 0, 0)), c(NA_real_, NA_real_))
  expect_identical(weighted_quantile(1:3, 0.5, log_weights = rep(-Inf, 3)), NA_real_)
  expect_identical(weighted_quantile(numeric(), 0.5), NA_real_)
})

test_that("the largest number is that of p = 1, however little it weighs", {
  expect_identical(weighted_quantile(1:3, 1, weights = c(1, 1, 1e-200)), 3)
})

test_that("arguments are checked", {
  expect_input_error(weighted_quantile("a"), "x", "a")
  expect_input_error(weighted_quantile(1:3, 1.5), "probs", "1.5")
  expect_input_error(weighted_quantile(1:3, NA), "probs", "NA")
  expect_input_error(weighted_quantile(1:3, 0.5, weights = 1:2), "weights", "1:2")
  expect_input_error(weighted_quantile(1:3, 0.5, weights = c(1, -1, 1)), "weights")
  expect_input_error(weighted_quantile(1:3, 0.5, weights = c(1, NA, 1)), "weights")
  expect_input_error(weighted_quantile(1:3, 0.5, weights = c(1, Inf, 1)), "weights")
  expect_input_error(weighted_quantile(1:3, 0.5, log_weights = c(1, NaN, 1)), "log_weights")
  expect_input_error(weighted_quantile(1:3, 0.5, log_weights = c(1, Inf, 1)), "log_weights")
  expect_input_error(weighted_quantile(1:3, 0.5, log_weights = 1:3, weights = 1:3), "weights", "1:3")
  expect_input_error(weighted_quantile(c(1, NA), 0.5), "x")
})
