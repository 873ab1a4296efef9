# A standard normal as a function of one 32-bit word, against R's qnorm().

# -qnorm(v / 2^33) with v = word << 1 | 1 rounded to float, and the word's top bit as the sign.
quantile_of <- function(words) {
  v <- f32((words * 2) %% 2^32 + 1)
  ifelse(words >= 2^31, 1, -1) * qnorm(v / 2^33)
}

# Words all over: evenly spaced, every power of two with its neighbours, and every segment's ends.
dense_words <- function() {
  even <- round(seq(0, 2^31 - 1, length.out = 2^18))
  powers <- c(outer(2^(0:30), -2:2, `+`))
  ends <- c(outer(outer(2^(4:31), 1 + 0:15 / 16), c(-1, 0, 1), `+`)) / 2
  words <- unique(floor(c(even, powers, ends)))
  words[words >= 0 & words < 2^31]
}

# Spacing of floats around z.
float_ulp <- function(z) 2^(pmax(floor(log2(abs(z))), -126) - 23)

# A table entry is rounded to float, the three fma round once each: two ulps hold them all. The cubic itself errs by
# 1.73e-8 of z, and by 1.2e-9 in the last segment, where z goes to 0.
error_bound <- function(z) 1.75e-8 * abs(z) + 2 * float_ulp(pmax(abs(z), 2^-5))

test_that("normals lie within the table's error of qnorm()", {
  words <- dense_words()
  truth <- quantile_of(words)
  error <- abs(standard_normal(words) - truth)
  expect_true(all(error <= error_bound(truth)))
  expect_lt(max(error), 5e-7)
  # Half the words lie within 0.68 of 0, where floats are fine enough to show the cubic.
  expect_lt(max(error[abs(truth) < 0.7]), 6e-8)
})

test_that("normals are floats", {
  z <- standard_normal(dense_words())
  expect_identical(f32(z), z)
})

test_that("the top bit of the word is the sign", {
  words <- dense_words()
  expect_same_bits(standard_normal(words + 2^31), -standard_normal(words))
})

test_that("normals fall as the word rises, but for rounding", {
  words <- sort(dense_words())
  z <- standard_normal(words)
  rise <- diff(z)
  expect_true(all(rise <= float_ulp(head(z, -1)) * 2))
})

test_that("the ends of the range are as they should be", {
  z <- standard_normal(c(0, 1, 2^31 - 1, 2^31, 2^31 + 1, 2^32 - 1))
  expect_equal(z[1:2], -qnorm(c(1, 3) / 2^33), tolerance = 1e-7)
  expect_same_bits(z[3], 0)
  expect_same_bits(z[4:6], -z[1:3])
  expect_identical(z[1], max(abs(standard_normal(dense_words()))))
  expect_equal(z[1], 6.3379579, tolerance = 1e-7)
})

test_that("every word of the lowest and the highest octaves is finite", {
  words <- c(0:4095, 2^31 - 0:4095 - 1)
  expect_true(all(is.finite(standard_normal(c(words, words + 2^31)))))
})

# E(Z^p; |Z| > a), for p = 2 and 4, by parts.
tail_moment <- function(p, a) {
  second <- 2 * (a * dnorm(a) + pnorm(-a))
  if (p == 2) second else 2 * a^3 * dnorm(a) + 3 * second
}

# n words in the middles of n equal cells: their normals are the midpoint rule for E f(Z). Two steps, each with its
# bound: the table against the same rule with qnorm(), where a z that errs by `worst` moves a moment by
# p |z|^(p - 1) worst; and that rule against N(0, 1). z^p is monotone on either side of 0, so there the rule errs by at
# most a cell times its range, max(z)^p / n, and by what lies beyond the outermost point.
test_that("2^20 systematic words have the moments of a standard normal", {
  n <- 2^20
  words <- (seq_len(n) - 0.5) * 2^32 / n
  z <- standard_normal(words)
  exact <- quantile_of(words)
  worst <- max(error_bound(exact))
  end <- max(exact)
  expect_true(all(is.finite(z)))
  expect_lt(abs(mean(z)), n * .Machine$double.eps)
  moment <- c(1, 3)
  for (p in c(2, 4)) {
    expect_lte(abs(mean(z^p) - mean(exact^p)), p * mean((abs(exact) + worst)^(p - 1)) * worst)
    expect_lte(abs(mean(z^p) - moment[p / 2]), 2 * end^p / n + tail_moment(p, end) + p * mean(abs(z)^(p - 1)) * worst)
  }
})
