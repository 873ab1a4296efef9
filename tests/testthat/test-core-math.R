# The core's log, exp and the like against R's functions and, for the bounds that src/core/math.h states, against MPFR.

# The bounds of math.h, in ulps.
stated <- list(
  double = c(log = 0.84, exp = 0.89, log1p = 0.89, expm1 = 1.28, log1pexp = 1.58),
  single = c(log = 0.78, exp = 0.90, log1p = 0.88, expm1 = 1.22, log1pexp = 1.60)
)

# How far R's own functions (the C library's) may be from the truth, in ulps of a double.
of_r <- c(log = 1, exp = 1, log1p = 1, expm1 = 1, log1pexp = 2)

reference <- list(
  log = log, exp = exp, log1p = log1p, expm1 = expm1,
  log1pexp = function(x) ifelse(x > 0, x, 0) + log1p(exp(-abs(x)))
)

canonical_nan <- readBin(as.raw(c(0, 0, 0, 0, 0, 0, 0xf8, 0x7f)), "double", endian = "little")
largest_double <- .Machine$double.xmax
largest_float <- 2^128 - 2^104

# The spacing of doubles or floats around x, down to the subnormals.
ulp <- function(x, precision) {
  digits <- if (precision == "double") 53 else 24
  lowest <- if (precision == "double") -1074 else -149
  exponent <- floor(log2(abs(x)))
  exponent <- exponent - (2^exponent > abs(x))
  2^pmax(exponent - digits + 1, lowest)
}

# n points from a to b on a log scale, off the round numbers.
spread <- function(a, b, n) 2^seq(a + 1 / 7 / n, b, length.out = n)

# Dense where a reduction, a threshold or a cancellation is.
math_grid <- function(name, precision, n) {
  double <- precision == "double"
  low <- if (double) -1074 else -149
  high <- if (double) 1024 else 128
  digits <- if (double) 53 else 24
  both <- function(x) c(-x, x)
  range <- function(a, b) seq(a, b, length.out = n) + 1e-9
  halves <- ((-floor(-low + digits)):high + 0.5) * log(2)
  x <- switch(name,
    log = c(
      spread(low, high, n), 1 + both(spread(-digits, -1, n)), range(0.5, 2), range(0.7, 0.7075), range(1.41, 1.4145),
      spread(low, low + digits, n)
    ),
    exp = c(
      range((low - 2) * log(2), high * log(2)), both(spread(-digits - 5, 0, n)), range(-1.1, 1.1),
      range(low * log(2), (low + digits) * log(2)), halves * (1 - 2^-20), halves * (1 + 2^-20)
    ),
    log1p = c(
      both(spread(low, -1, n)), spread(-1, high, n), -1 + spread(-digits, -1, n), range(-0.5, 1.5), range(-0.3, 0.5)
    ),
    expm1 = c(both(spread(low, 0, n)), range(-45, high * log(2)), range(-1.1, 1.1), range(-5, 5)),
    log1pexp = c(range(low * log(2), 800), range(-5, 5), range(-40, 40), both(spread(-digits - 5, 0, n)))
  )
  x <- round_to(x, precision)
  x[is.finite(x)]
}

# The largest error in ulps; infinities and zeros must agree exactly.
largest_error <- function(name, x, truth, precision) {
  actual <- core_math(name, x, precision)
  rounded <- round_to(truth, precision)
  whole <- is.infinite(rounded) | rounded == 0 | is.infinite(actual)
  if (anyNA(actual) || any(actual[whole] != rounded[whole])) {
    return(Inf)
  }
  max((abs(actual - truth) / ulp(truth, precision))[!whole])
}

test_that("every function is close to R's on dense grids", {
  for (precision in c("double", "single")) {
    for (name in names(reference)) {
      x <- math_grid(name, precision, 20000)
      bound <- stated[[precision]][[name]] + of_r[[name]] * (if (precision == "double") 1 else 2^-29)
      expect_lte(largest_error(name, x, reference[[name]](x), precision), bound, label = paste(precision, name))
    }
  }
})

test_that("every function keeps the bound that math.h states", {
  skip_if_not_installed("Rmpfr")
  for (name in names(reference)) {
    x <- math_grid(name, "double", 1500)
    exact <- Rmpfr::mpfr(x, 120)
    truth <- if (name == "log1pexp") log1p(exp(exact)) else do.call(name, list(exact))
    actual <- core_math(name, x)
    nearest <- Rmpfr::asNumeric(truth)
    whole <- is.infinite(nearest) | nearest == 0
    expect_identical(actual[whole], nearest[whole], label = name)
    error <- Rmpfr::asNumeric(abs(actual - truth) / Rmpfr::mpfr(ulp(nearest, "double"), 120))
    expect_lte(max(error[!whole]), stated$double[[name]], label = name)
  }
})

test_that("edges are exact, signs of zero and the one NaN included", {
  edges <- list(
    log = cbind(c(0, -0, 1, Inf), c(-Inf, -Inf, 0, Inf)),
    exp = cbind(c(0, -0, -Inf, Inf, -1e30, 1e30), c(1, 1, 0, Inf, 0, Inf)),
    log1p = cbind(c(0, -0, -1, Inf), c(0, -0, -Inf, Inf)),
    expm1 = cbind(c(0, -0, -Inf, Inf, -50, -1e30, 1e30), c(0, -0, -1, Inf, -1, -1, Inf)),
    log1pexp = cbind(c(-Inf, Inf, 1000, -1e30, 2^100), c(0, Inf, 1000, 0, 2^100))
  )
  nan_at <- list(log = c(-1, -Inf, -2^-1074), log1p = c(-1 - 2^-20, -2, -Inf))
  nans <- c(NaN, NA, -NaN, canonical_nan)
  for (precision in c("double", "single")) {
    for (name in names(edges)) {
      expect_same_bits(core_math(name, edges[[name]][, 1], precision), edges[[name]][, 2], paste(precision, name))
      bad <- c(nans, if (precision == "double") nan_at[[name]] else round_to(nan_at[[name]], precision))
      bad <- bad[bad != 0 | is.na(bad)]
      expect_same_bits(core_math(name, bad, precision), rep(canonical_nan, length(bad)), paste(precision, name))
    }
  }
})

test_that("the smallest and the largest numbers are right", {
  expect_equal(core_math("log", c(2^-1074, 2^-1022, largest_double)), log(c(2^-1074, 2^-1022, largest_double)),
    tolerance = 2^-51
  )
  expect_equal(core_math("log1p", largest_double), log(largest_double), tolerance = 2^-51)
  expect_identical(core_math("log1pexp", largest_double), largest_double)
  expect_equal(core_math("log", c(2^-149, 2^-126, largest_float), "single"), log(c(2^-149, 2^-126, largest_float)),
    tolerance = 2^-22
  )
  expect_equal(core_math("log1p", largest_float, "single"), log(largest_float), tolerance = 2^-22)
  for (name in c("log1p", "expm1")) {
    tiny <- c(2^-1074, 3 * 2^-1074, 2^-1022, 2^-60, 2^-55)
    expect_same_bits(core_math(name, c(tiny, -tiny)), c(tiny, -tiny), name)
    tiny <- c(2^-149, 3 * 2^-149, 2^-126, 2^-26)
    expect_same_bits(core_math(name, c(tiny, -tiny), "single"), c(tiny, -tiny), name)
  }
})

test_that("exp overflows and underflows at the right argument", {
  # The largest arguments with a finite result, and the smallest with a result above 0; then their neighbours.
  for (name in c("exp", "expm1")) {
    x <- 709.782712893384 # the last double before the logarithm of 2^1024
    expect_lt(core_math(name, x), Inf)
    expect_identical(core_math(name, x + ulp(x, "double")), Inf)
    x <- f32(88.72283)
    expect_lt(core_math(name, x, "single"), Inf)
    expect_identical(core_math(name, x + ulp(x, "single"), "single"), Inf)
  }
  x <- -745.1332191019411
  expect_identical(core_math("exp", c(x, x - ulp(x, "double"))), c(2^-1074, 0))
  x <- f32(-103.972076)
  expect_identical(core_math("exp", c(x, x - ulp(x, "single")), "single"), c(2^-149, 0))
  expect_identical(core_math("log1pexp", c(-745, -746)), c(2^-1074, 0))
})

test_that("every SIMD build gives the same bits", {
  for (precision in c("double", "single")) {
    for (name in names(reference)) {
      x <- c(math_grid(name, precision, 300), 0, -0, -1, -2, Inf, -Inf, NaN, NA)
      results <- lapply(simd_levels(), function(level) with_simd(level, core_math(name, x, precision)))
      for (other in results[-1]) {
        expect_same_bits(other, results[[1]], paste(precision, name))
      }
    }
  }
})

test_that("an unknown function is an error", {
  expect_error(core_math("gamma", 1), "gamma")
})

test_that("exp and log have the same bits by the shorter ways, where these hold", {
  for (precision in c("double", "single")) {
    x <- math_grid("log", precision, 20000)
    x <- x[x >= if (precision == "double") 2^-1022 else 2^-126]
    expect_same_bits(core_math("log_normal", x, precision), core_math("log", x, precision))
    x <- math_grid("exp", precision, 20000)
    x <- c(x[x <= 0], 0, -0, -Inf)
    expect_same_bits(core_math("exp_below", x, precision), core_math("exp", x, precision))
    expect_identical(core_math("exp_below", NaN, precision), 0)
  }
  x <- math_grid("exp", "double", 20000)
  x <- c(x[x <= 0 & x > -700], 0, -0, -700 * (1 - 2^-53))
  expect_same_bits(core_math("exp_near", x), core_math("exp", x))
})
