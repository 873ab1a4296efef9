test_that("sums are compensated", {
  expect_identical(core_sum(c(1e16, 1, -1e16)), 1)
  expect_identical(core_sum(c(1e-200, 1, -1)), 1e-200)
  expect_identical(core_sum(numeric()), 0)
  expect_identical(core_sum(1:4), 10)
  x <- grid_values(10000, 910) + 2.5
  expect_equal(core_sum_log(x), sum(log(x)), tolerance = 1e-15)
  expect_identical(core_sum_log(numeric()), 0)
})

test_that("the Cholesky factor and its inverse", {
  for (n in c(1, 2, 3, 4, 5, 8, 9, 63, 130)) {
    sigma <- grid_covariance(n, 911)
    result <- core_cholesky(sigma)
    expect_identical(result$pivot, 0L)
    expect_equal(result$factor, t(chol(sigma)), tolerance = 1e-13)
    expect_true(all(result$factor[upper.tri(sigma)] == 0))
    rows <- core_inverse_factor(result$factor)
    expect_length(rows, n * (n + 1) / 2)
    inverse <- matrix(0, n, n)
    inverse[upper.tri(inverse, diag = TRUE)] <- rows
    expect_equal(t(inverse) %*% result$factor, diag(n), tolerance = 1e-12)
  }
})

test_that("the order of the Cholesky factor is the plain one", {
  n <- 11
  s <- grid_covariance(n, 912)
  factor <- matrix(0, n, n)
  for (j in seq_len(n)) {
    column <- s[j:n, j]
    for (k in seq_len(j - 1)) {
      column <- column - factor[j:n, k] * factor[j, k]
    }
    factor[j:n, j] <- c(sqrt(column[1]), column[-1] / sqrt(column[1]))
  }
  expect_same_bits(core_cholesky(s)$factor, factor)
  rows <- matrix(0, n, n)
  for (i in seq_len(n)) {
    for (k in seq_len(i - 1)) {
      rows[i, ] <- rows[i, ] - factor[i, k] * rows[k, ]
    }
    rows[i, ] <- rows[i, ] / factor[i, i]
    rows[i, i] <- 1 / factor[i, i]
  }
  expect_same_bits(core_inverse_factor(factor), t(rows)[upper.tri(rows, diag = TRUE)])
})

test_that("the first pivot that is not positive is named", {
  expect_identical(core_cholesky(matrix(c(1, 2, 2, 1), 2))$pivot, 2L)
  expect_identical(core_cholesky(diag(c(1, 0, 1)))$pivot, 2L)
  expect_identical(core_cholesky(diag(c(NaN, 1)))$pivot, 1L)
  expect_identical(core_cholesky(matrix(-1))$pivot, 1L)
})
