# The core's log Gamma against R's lgamma(), against closed forms and, for the bounds that src/core/gamma.h states,
# against MPFR.

# The bounds of gamma.h: for x > 0 in ulps of the result, for x < 0 in ulps of the largest of the result, 1 and
# lgamma(|x|).
stated <- list(double = c(right = 2.98, left = 3.07), single = c(right = 2.87, left = 3.08))

# The bound for lgamma_ratio(x, h), in units of 2^-52 (1 + |result| + h).
stated_ratio <- 5.7

canonical_nan <- readBin(as.raw(c(0, 0, 0, 0, 0, 0, 0xf8, 0x7f)), "double", endian = "little")

# The spacing of normal doubles or floats around x.
ulp_of <- function(x, precision) {
  exponent <- floor(log2(abs(x)))
  exponent <- exponent - (2^exponent > abs(x))
  2^(exponent - (if (precision == "double") 52 else 23))
}

# n points from a to b on a log scale, off the round numbers.
log_spread <- function(a, b, n) 2^seq(log2(a) + 1 / 7 / n, log2(b), length.out = n)

# Positive numbers, dense where formulas meet and at the zeros 1 and 2, which are left out.
right_grid <- function(precision, n) {
  double <- precision == "double"
  range <- function(a, b) seq(a, b, length.out = n) + 1e-9
  near <- log_spread(if (double) 2^-51 else 2^-22, 0.25, n)
  x <- c(
    log_spread(if (double) 2^-1074 else 2^-149, 0.1, n), log_spread(8, if (double) 2.5e305 else 4e36, n),
    range(0, 3), range(2, 20), log_spread(10, 1e4, n), range(0.74, 0.76), range(1.34, 1.36), range(2.49, 2.51),
    range(7.9, 8.1), 1 - near, 1 + near, 2 - near, 2 + near
  )
  x <- round_to(x, precision)
  x[x > 0 & x != 1 & x != 2]
}

# Negative numbers down to -1e6, none closer to an integer than `gap` of its size.
left_grid <- function(precision, n, gap) {
  near <- -rep(1:40, each = 20) * (1 + c(-1, 1) * 2^-(2:21))
  x <- c(seq(-12, 0, length.out = n) + 1e-6, -log_spread(1e-300, 1, n), -log_spread(10, 1e6, n), near)
  x <- round_to(x, precision)
  x[x < 0 & abs(x - round(x)) > gap * abs(x) & (round(x) == 0 | x != round(x))]
}

# The largest error in ulps of `scale`.
ulps_off <- function(error, scale, precision) {
  if (anyNA(error) || any(is.infinite(error))) Inf else max(error / ulp_of(scale, precision))
}

exact_lgamma <- function(x) lgamma(Rmpfr::mpfr(x, 160))

test_that("lgamma is close to R's", {
  # R's own is off by a few ulps of 1 at the zeros and of lgamma(|x|) elsewhere, and far off next to negative integers.
  of_r <- 12
  for (precision in names(stated)) {
    x <- c(right_grid(precision, 5000), left_grid(precision, 5000, 2^-10))
    truth <- lgamma(x)
    error <- abs(core_math("lgamma", x, precision) - truth)
    bound <- max(stated[[precision]]) + of_r * (if (precision == "double") 1 else 2^-29)
    expect_lte(ulps_off(error, pmax(1, abs(truth), lgamma(abs(x))), precision), bound, label = precision)
  }
})

test_that("lgamma keeps the bounds that gamma.h states", {
  skip_if_not_installed("Rmpfr")
  for (precision in names(stated)) {
    x <- right_grid(precision, 400)
    truth <- exact_lgamma(x)
    error <- Rmpfr::asNumeric(abs(core_math("lgamma", x, precision) - truth))
    expect_lte(ulps_off(error, Rmpfr::asNumeric(truth), precision), stated[[precision]][["right"]], label = precision)
    x <- left_grid(precision, 400, 0)
    truth <- exact_lgamma(x)
    error <- Rmpfr::asNumeric(abs(core_math("lgamma", x, precision) - truth))
    scale <- pmax(1, abs(Rmpfr::asNumeric(truth)), lgamma(-x))
    expect_lte(ulps_off(error, scale, precision), stated[[precision]][["left"]], label = paste(precision, "left of 0"))
  }
})

test_that("lgamma is relatively exact at its zeros and near 0", {
  euler <- 0.57721566490153286
  for (precision in names(stated)) {
    double <- precision == "double"
    tolerance <- if (double) 2^-50 else 2^-22
    # Two terms of each series; the third is less than t^2 / 2.
    t <- 2^-(if (double) 27:50 else 12:21)
    t <- c(-t, t)
    expect_equal(core_math("lgamma", 1 + t, precision) / t, -euler + pi^2 / 12 * t, tolerance = tolerance)
    expect_equal(core_math("lgamma", 2 + t, precision) / t, 1 - euler + (pi^2 / 12 - 0.5) * t, tolerance = tolerance)
    tiny <- if (double) 2^-c(60, 1022, 1074) else 2^-c(30, 126, 149)
    expect_equal(core_math("lgamma", c(tiny, -tiny), precision), -log(c(tiny, tiny)), tolerance = tolerance)
  }
})

test_that("lgamma has its closed forms", {
  n <- 3:170
  expect_equal(core_math("lgamma", n), cumsum(log(2:169)), tolerance = 2^-48)
  half <- 0:100
  expect_equal(core_math("lgamma", half + 0.5), log(pi) / 2 + cumsum(log(c(1, half[-1] - 0.5))), tolerance = 2^-48)
  # Gamma(x) Gamma(1 - x) = pi / sin(pi x)
  x <- c(0.3, 1.25, 2.5, 3.75, 10.5, 20.125)
  expect_equal(
    core_math("lgamma", x) + core_math("lgamma", 1 - x), log(pi) - log(abs(sinpi(x))),
    tolerance = 2^-46
  )
})

test_that("lgamma's edges are exact", {
  for (precision in names(stated)) {
    whole <- if (precision == "double") 2^c(51, 52, 53, 60, 1023) else 2^c(22, 23, 24, 60, 127)
    poles <- c(0, -0, -1, -2, -3, -10, -12345, -whole, -whole[1:2] + 1)
    expect_same_bits(core_math("lgamma", poles, precision), rep(Inf, length(poles)), precision)
    expect_same_bits(core_math("lgamma", c(Inf, -Inf, 1, 2), precision), c(Inf, Inf, 0, 0), precision)
    nans <- c(NaN, NA, -NaN, canonical_nan)
    expect_same_bits(core_math("lgamma", nans, precision), rep(canonical_nan, length(nans)), precision)
    # The last numbers left of 0 that are no integers.
    last <- -(if (precision == "double") 2^52 else 2^23) + 0.5
    expect_equal(core_math("lgamma", last, precision), lgamma(last), tolerance = 2^-22)
  }
})

test_that("lgamma overflows at the right argument", {
  # The largest doubles and floats whose log Gamma rounds to a finite number.
  x <- 2.5599833278516383e305
  expect_lt(core_math("lgamma", x * (1 - 2^-50)), Inf)
  expect_gt(core_math("lgamma", x * (1 - 2^-50)), .Machine$double.xmax * (1 - 2^-45))
  expect_identical(core_math("lgamma", c(x * (1 + 2^-50), .Machine$double.xmax)), c(Inf, Inf))
  x <- 4.0850033658668731e36
  expect_lt(core_math("lgamma", round_to(x * (1 - 2^-21), "single"), "single"), Inf)
  expect_identical(core_math("lgamma", c(round_to(x * (1 + 2^-21), "single"), 3e38), "single"), c(Inf, Inf))
})

test_that("every SIMD build gives the same bits", {
  for (precision in names(stated)) {
    x <- c(right_grid(precision, 300), left_grid(precision, 300, 0), 0, -0, -1, -2, Inf, -Inf, NaN, NA)
    results <- lapply(simd_levels(), function(level) with_simd(level, core_math("lgamma", x, precision)))
    for (other in results[-1]) {
      expect_same_bits(other, results[[1]], precision)
    }
  }
})

# ---- lgamma_ratio --------------------------------------------------------------------------

off_ratio <- function(actual, truth, h) max(abs(actual - truth) / (2^-52 * (1 + abs(truth) + h)))

test_that("lgamma_ratio keeps the bound that gamma.h states", {
  skip_if_not_installed("Rmpfr")
  grid <- expand.grid(
    x = c(log_spread(1e-5, 20, 60), log_spread(10, 1e300, 60), 1, 2, 7, 7.5, 8, 9, 5e9, 5e14, 5e16),
    h = c(0, 0.5, 1, 1.5, 2, log_spread(1e-8, 1e5, 20))
  )
  x <- Rmpfr::mpfr(grid$x, 1400)
  truth <- lgamma(x + grid$h) - lgamma(x) - grid$h * log(x)
  actual <- core_lgamma_ratio(grid$x, grid$h)
  expect_lte(off_ratio(actual, Rmpfr::asNumeric(truth), grid$h), stated_ratio)
})

test_that("lgamma_ratio of a whole h is a sum of logarithms", {
  for (h in c(0:9, 50, 1000)) {
    x <- c(log_spread(1e-5, 20, 50), log_spread(10, 1e300, 50), 5e9, 5e14, 5e16, Inf)
    truth <- vapply(x, function(one) sum(log1p((seq_len(h) - 1) / one)), 0)
    expect_lte(off_ratio(core_lgamma_ratio(x, rep(h, length(x))), truth, h), stated_ratio, label = h)
  }
})

test_that("lgamma_ratio holds for huge degrees of freedom", {
  df <- c(1e8, 1e10, 1e15, 1e17, 1e300, Inf)
  for (h in c(0.5, 1, 2.5, 50)) {
    # (h^2 - h) / (2 x) and terms below 2^-52
    truth <- (h^2 - h) / df - h * (h - 1) * (2 * h - 1) / 3 / df^2
    expect_lte(off_ratio(core_lgamma_ratio(df / 2, rep(h, length(df))), truth, h), stated_ratio, label = h)
  }
})

test_that("lgamma_ratio gives Student's constant", {
  df <- c(log_spread(0.1, 1e17, 200), 1e10, 1e15, 1e17, Inf)
  constant <- core_lgamma_ratio(df / 2, rep(0.5, length(df))) - log(2 * pi) / 2
  expect_equal(constant, dt(0, df, log = TRUE), tolerance = 2^-48)
})

test_that("lgamma_ratio's edges are exact", {
  x <- c(1e-5, 0.5, 1, 8, 1e17, .Machine$double.xmax, Inf)
  expect_same_bits(core_lgamma_ratio(x, rep(0, length(x))), numeric(length(x)))
  expect_same_bits(core_lgamma_ratio(rep(Inf, 3), c(0.5, 1, 1e5)), numeric(3))
  x <- c(0, -1, NaN, NA, 1, 1, 1, 1, -Inf, 1e-308)
  h <- c(1, 1, 1, 1, -1, Inf, NaN, NA, 1, 1e5)
  expect_same_bits(core_lgamma_ratio(x, h), rep(canonical_nan, length(x)))
})
