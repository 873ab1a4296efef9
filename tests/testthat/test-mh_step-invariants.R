# What must not matter to mh_step(), and the edges of its inputs.

outputs <- c("x", "accepted", "log_density", "log_alpha")

rows_of <- function(result, rows) {
  list(
    x = result$x[rows, , drop = FALSE], accepted = result$accepted[rows],
    log_density = result$log_density[rows], log_alpha = result$log_alpha[rows]
  )
}

test_that("a chain does not depend on how many run beside it", {
  for (precision in case_precisions) {
    for (n_dim in c(1, 5, 64)) {
      target <- case_target("mixture3", n_dim)$density
      for (kind in c("vector", "lower")) {
        x <- grid_matrix(4100, n_dim, 201)
        step_size <- case_step(kind, n_dim)
        whole <- mh_step(x, target, step_size, seed = 1, step = 3, precision = precision)
        for (n in c(1, 2, 31, 33, 64, 65, 1000, 4097)) {
          part <- mh_step(x[seq_len(n), , drop = FALSE], target, step_size, seed = 1, step = 3, precision = precision)
          expect_same_bits(unclass(part)[outputs], rows_of(whole, seq_len(n)), paste(precision, n_dim, kind, n))
        }
      }
    }
  }
})

test_that("the first 1000 of 100000 chains are 1000 chains", {
  big <- mh_step(matrix(0.25, 100000, 3), density_normal(0, 1), 1, seed = 2)
  small <- mh_step(matrix(0.25, 1000, 3), density_normal(0, 1), 1, seed = 2)
  expect_same_bits(unclass(small)[outputs], rows_of(big, 1:1000))
})

test_that("chains split by chain_offset are the whole", {
  x <- grid_matrix(100, 5, 202)
  target <- case_target("normal", 5)$density
  for (precision in case_precisions) {
    for (offset in c(0, 5, 2^32 - 50, 2^32, 2^45 + 1, 2^53 - 101)) {
      whole <- mh_step(x, target, 0.5, seed = 3, step = 7, chain_offset = offset, precision = precision)
      for (cut in c(1, 37, 64)) {
        first <- mh_step(x[1:cut, , drop = FALSE], target, 0.5,
          seed = 3, step = 7, chain_offset = offset, precision = precision
        )
        second <- mh_step(x[-(1:cut), , drop = FALSE], target, 0.5,
          seed = 3, step = 7, chain_offset = offset + cut, precision = precision
        )
        expect_same_bits(unclass(first)[outputs], rows_of(whole, 1:cut))
        expect_same_bits(unclass(second)[outputs], rows_of(whole, -(1:cut)))
      }
    }
  }
  expect_false(identical(
    mh_step(x, target, 0.5, seed = 3, chain_offset = 2^32)$x, mh_step(x, target, 0.5, seed = 3)$x
  ))
})

test_that("thread counts give the same bits", {
  for (precision in case_precisions) {
    for (shape in list(c(1, 64), c(33, 5), c(5000, 3), c(4, 3000))) {
      x <- grid_matrix(shape[1], shape[2], 203)
      target <- case_target("mixture3", shape[2])$density
      run <- function(n) with_threads(n, mh_step(x, target, 0.3, seed = 4, precision = precision, backend = "cpu"))
      expect_same_bits(run(2), run(1), paste(shape, collapse = "x"))
    }
  }
})

test_that("a target that is flat accepts everything", {
  for (precision in case_precisions) {
    result <- mh_step(grid_matrix(10000, 4, 204), density_normal(0, 1e9), 1, seed = 5, precision = precision)
    expect_true(all(result$accepted))
  }
})

test_that("step size zero leaves states as they are and accepts", {
  x <- matrix(c(1, -2, 3, 4, 0, 1e-300), 3)
  for (step_size in list(0, c(0, 0), matrix(0, 2, 2), 0L)) {
    result <- mh_step(x, density_normal(0, 1), step_size, seed = 6)
    expect_identical(result$x, x)
    expect_true(all(result$accepted))
    expect_true(all(result$log_alpha == 0))
  }
  expect_identical(mh_step(matrix(1:6, 3, 2), step_size = 0, seed = 6)$x, matrix(as.numeric(1:6), 3, 2))
})

test_that("rows are chains and columns dimensions, also when they are as many", {
  mu <- c(-50, 0, 50)
  x <- matrix(mu, 3, 3, byrow = TRUE)
  at_mode <- mh_step(x, density_normal(mu, 1), 0, seed = 7)
  expect_equal(at_mode$log_density, rep(-1.5 * log(2 * pi), 3))
  swapped <- mh_step(t(x), density_normal(mu, 1), 0, seed = 7)
  expect_equal(swapped$log_density, -1.5 * log(2 * pi) - c(100^2 + 50^2, 50^2 + 50^2, 50^2 + 100^2) / 2)
  vector_step <- mh_step(x, density_normal(mu, 1e6), c(0, 1, 0), seed = 7)
  expect_identical(vector_step$x[, c(1, 3)], x[, c(1, 3)])
  expect_true(all(vector_step$x[, 2] != 0))
})

test_that("parts of a mixture use their own row of means", {
  means <- matrix(c(-3, 3, 0, 10, 20, 30), 3, 2)
  density <- density_mixture(c(0.2, 0.3, 0.5), means, 0.5)
  result <- mh_step(means, density, 0, seed = 8)
  expect_equal(result$log_density, log(c(0.2, 0.3, 0.5)) - log(2 * pi * 0.25))
})

test_that("integer, logical and data frame states are taken as numbers", {
  same <- function(x, as) expect_same_bits(mh_step(x, seed = 9), mh_step(as, seed = 9))
  same(matrix(1:6, 3), matrix(as.numeric(1:6), 3))
  same(matrix(c(TRUE, FALSE, TRUE, TRUE), 2), matrix(c(1, 0, 1, 1), 2))
  frame <- data.frame(a = c(0.5, 1), b = 1:2)
  expect_equal(
    unclass(mh_step(frame, seed = 9))[outputs],
    unclass(mh_step(data.matrix(frame), seed = 9))[outputs],
    ignore_attr = TRUE
  )
  expect_identical(colnames(mh_step(frame, seed = 9)$x), c("a", "b"))
  x <- matrix(0.5, 4, 2)
  expect_same_bits(mh_step(x, step_size = 1L, seed = 9L), mh_step(x, step_size = 1, seed = 9))
  expect_same_bits(
    mh_step(x, noise = matrix(1:8, 4), u = c(1L, 0L, 1L, 0L)), mh_step(x, noise = matrix(1:8 + 0, 4), u = c(1, 0, 1, 0))
  )
})

test_that("a tibble is taken as a matrix", {
  frame <- data.frame(a = c(0.5, 1), b = 1:2)
  class(frame) <- c("tbl_df", "tbl", "data.frame")
  expect_identical(mh_step(frame, seed = 9)$x, mh_step(cbind(a = c(0.5, 1), b = 1:2), seed = 9)$x)
})

test_that("no chains is an empty result of the right shape", {
  for (target in list(density_normal(0, 1), density_normal(1:3, 1), density_mixture(c(1, 1), matrix(0, 2, 3), 1))) {
    result <- expect_silent(mh_step(matrix(0, 0, 3), target, seed = 1))
    expect_identical(dim(result$x), c(0L, 3L))
    expect_type(result$x, "double")
    expect_identical(result$accepted, logical(0))
    expect_identical(result$log_density, numeric(0))
    expect_identical(result$log_alpha, numeric(0))
  }
  expect_length(mh_step(matrix(0, 1, 3), seed = 1)$accepted, 1)
})

test_that("inputs are never changed", {
  x <- matrix(as.numeric(1:20), 10)
  y <- x
  noise <- matrix(0.5, 10, 2)
  u <- rep(0.5, 10)
  mu <- c(1, 2)
  step_size <- c(1, 2)
  target <- density_normal(mu, 1)
  before <- lapply(list(x, noise, u, mu, step_size, target), bits_of)
  for (precision in case_precisions) {
    mh_step(x, target, step_size, noise = noise, u = u, precision = precision)
    mh_step(x, target, step_size, seed = 1, precision = precision)
    mh_step(x, target, 0, seed = 1, precision = precision)
  }
  expect_identical(lapply(list(x, noise, u, mu, step_size, target), bits_of), before)
  expect_identical(y, matrix(as.numeric(1:20), 10))
})

test_that("a result survives saveRDS()", {
  result <- mh_step(matrix(0.5, 4, 2), case_target("mixture2", 2)$density, seed = 1)
  target <- case_target("mixture2", 2)$density
  path <- withr::local_tempfile()
  saveRDS(list(result, target), path)
  back <- readRDS(path)
  expect_identical(back[[1]], result)
  expect_same_bits(mh_step(back[[1]]$x, back[[2]], seed = 2), mh_step(result$x, target, seed = 2))
})
