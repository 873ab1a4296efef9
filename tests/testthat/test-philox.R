# Known answers first for the oracle, then the package against the oracle.

test_that("the oracle gives Random123's known answers for Philox4x32-10", {
  answer <- function(counter, key) oracle_philox(matrix(hex_words(counter), 1), hex_words(key))
  expect_identical(
    answer("00000000 00000000 00000000 00000000", "00000000 00000000"),
    matrix(hex_words("6627e8d5 e169c58d bc57ac4c 9b00dbd8"), 1)
  )
  expect_identical(
    answer("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff"),
    matrix(hex_words("408f276d 41c83b0e a20bc7c6 6d5451fd"), 1)
  )
  expect_identical(
    answer("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0"),
    matrix(hex_words("d16cfe09 94fdcceb 5001e420 24126ea1"), 1)
  )
})

test_that("seed, purpose, step, block and chain go where cuRAND's device Philox puts them", {
  seed <- 42 + 99 * 2^32
  chain <- 123 + 4 * 2^32
  expected <- matrix(hex_words("9226bd42 1a708c46 81bb3628 55df8b04"), 1)
  expect_identical(oracle_words(seed, 3, 5, 9, chain), expected)
  expect_identical(philox_words(seed, 3, 5, 9, chain), expected)
  expect_identical(philox_words(0, 0, 0, 0, 0), matrix(hex_words("6627e8d5 e169c58d bc57ac4c 9b00dbd8"), 1))
})

test_that("words equal the oracle's all over the counter", {
  chain <- c(0, 1, 2^31 - 1, 2^31, 2^32 - 1, 2^32, 2^32 + 1, 2^40 + 12345, 2^53 - 1)
  step <- c(0, 1, 2, 3, 4, 2^31, 2^32 - 1, 7, 8)
  block <- c(0, 1, 2, 3, 4, 25, 2499, 2^28 - 1, 1)
  purpose <- c(0, 1, 2, 3, 4, 5, 15, 0, 1)
  n <- length(chain)
  for (seed in c(0, 1, 2^31, 2^32 - 1, 2^32, 2^32 + 7, 2^53 - 1, 2^53)) {
    expect_identical(
      philox_words(rep(seed, n), purpose, step, block, chain),
      oracle_words(seed, purpose, step, block, chain)
    )
  }
})

test_that("words equal the oracle's for many chains, and differ between any two of them", {
  chain <- 0:9999
  n <- length(chain)
  words <- philox_words(rep(20, n), rep(0, n), rep(17, n), rep(2, n), chain)
  expect_identical(words, oracle_words(20, 0, 17, 2, chain))
  expect_identical(anyDuplicated(words), 0L)
})

test_that("bits of the words are even", {
  n <- 20000
  words <- philox_words(rep(5, n), rep(0, n), rep(0, n), rep(0, n), seq_len(n) - 1)
  for (bit in c(0, 1, 15, 16, 30, 31)) {
    expect_rate((words %/% 2^bit) %% 2 == 1, 0.5, bit)
  }
})

test_that("normals equal the oracle's at the ends, at the octaves and at random words", {
  edges <- unique(c(0, 1, 2, 3, 2^(1:31), 2^(1:31) - 1, 2^(1:31) + 1, 2^31 + 2^(1:30), 2^32 - 2^(0:30)))
  edges <- edges[edges < 2^32]
  random <- as.vector(oracle_words(1, 0, 0, 0, 0:24999))
  # word << 1 | 1 is half way between two floats for these: round to even, both ways
  ties <- c(2^24 + (0:63), 2^25 + (0:127), 2^30 + 2^6 * (0:63) + 31)
  for (words in list(edges, random, ties)) {
    expect_same_bits(as.vector(standard_normal(words)), as.vector(oracle_normal(words)))
  }
})

test_that("the recorded coefficients are those of the oracle's own fit, and the fit is that of qnorm", {
  recorded <- oracle_float_table()
  expect_identical(dim(recorded), c(528L, 4L))
  fitted <- oracle_normal_table()
  ulp <- ifelse(recorded == 0, 1, 2^(floor(log2(abs(recorded))) - 23))
  # half an ulp of rounding, and 1e-3 for another libm's qnorm
  expect_lt(max(abs(recorded - fitted) / ulp), 0.501)
  words <- oracle_words(2, 0, 0, 0, 0:4999)
  v <- (2 * words) %% 2^32 + 1
  exact <- -qnorm(v / 2^33) * ifelse(words >= 2^31, -1, 1)
  expect_lt(max(abs(oracle_normal(words) - exact)), 6e-7)
})

test_that("float helpers of the oracle round as IEEE 754 says", {
  expect_identical(f32(c(1 + 2^-24, 1 + 3 * 2^-24, 1 + 2^-24 + 2^-50)), c(1, 1 + 2^-22, 1 + 2^-23))
  # 2^36 + 1 = 1774001 * 38737 and 2^36 - 1 = (2^18 - 1) (2^18 + 1): the exact sum lies 2^-60 beside
  # a tie between two floats, too near for a double to tell
  expect_identical(oracle_fmaf(1774001 * 2^-30, 38737 * 2^-30, 1), 1 + 2^-23)
  expect_identical(oracle_fmaf((2^18 - 1) * 2^-30, (2^18 + 1) * 2^-30, 1 + 2^-23), 1 + 2^-23)
  expect_identical(oracle_fmaf(2^-24, 1, c(1, 1 + 2^-23)), c(1, 1 + 2^-22))
})
