# How a run is cut, and what it is relative to.

plan_for_test <- function() {
  new_is_plan(is_target(), is_proposal(), 2L, 31, is_settings(TRUE, "double", TRUE, 50))
}

test_that("ranges meet at multiples of the tile size and cover all", {
  for (offset in c(0, 1, 4095, 4096, 2^40 + 17)) {
    for (n in c(0, 1, 4096, 4097, 50000)) {
      for (n_parts in c(1, 2, 7, 100)) {
        ranges <- split_tiles(offset, n, n_parts)
        info <- paste(offset, n, n_parts)
        expect_lte(length(ranges$n), n_parts)
        expect_identical(sum(ranges$n), n, info = info)
        expect_identical(ranges$offset, offset + cumsum(c(0, ranges$n))[seq_along(ranges$n)], info = info)
        expect_true(all(ranges$offset[-1] %% 4096 == 0), info = info)
        expect_true(n == 0 || all(ranges$n > 0), info = info)
      }
    }
  }
})

test_that("chunks change nothing", {
  plan <- plan_for_test()
  ready <- ready_densities(plan, list("cpu", 0L, NA_integer_, 1))
  for (offset in c(0, 5000)) {
    n <- 12 * 4096 + 5
    # so slow by the estimate that the first chunk is a tile
    chunked <- run_range(plan, offset, n, list("cpu", 0L, NA_integer_, n * 1e9), "error")
    whole <- weigh_chunk(plan, offset, n, ready, list("cpu", 0L, NA_integer_, 100))
    expect_same_bits(chunked$nodes, whole$nodes)
    expect_same_bits(chunked$tail, whole$tail)
    expect_same_bits(chunked$draws, whole$draws[[1]])
    expect_same_bits(chunked$log_weights, whole$log_weights[[1]])
  }
  expect_identical(first_tiles(plan, list("cpu", 0L, NA, 1e9)), 1)
  expect_identical(first_tiles(plan, list("cpu", 0L, NA, 1e-9)), 4096)
  plan$target <- density_function(function(x) x[, 1])
  expect_identical(first_tiles(plan, list("cpu", 0L, NA, 1)), 4)
  plan$n_dim <- 1e5
  expect_identical(first_tiles(plan, list("cpu", 0L, NA, 1)), 1)
})

test_that("the shift is the mean of all proposals", {
  mixture <- density_mixture(c(1, 3), means = rbind(c(0, 0), c(4, 8)), sds = 1)
  groups <- list(draw_parts(mixture, 2), draw_parts(density_student_t(1, c(-3, 2)), 2))
  expect_identical(mean_of_groups(groups), c(0, 4))
  expect_identical(mean_of_groups(groups[2]), c(-3, 2))
})
