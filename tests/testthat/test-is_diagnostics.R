# What weights say about themselves.

sums_of <- function(log_weights) {
  list(total = total_of(run(log_weights, 0)$nodes, 0), tail = run(log_weights, 1e4)$tail)
}

run <- function(log_weights, n_tail) {
  run_importance(
    length(log_weights), 0,
    log_weights = log_weights, n_tail = n_tail, run = list("cpu", 0L, NA_integer_, 1e3)
  )
}

test_that("Pareto k is that of loo::psis()", {
  skip_if_not_installed("loo")
  psis_k <- function(lw) suppressWarnings(loo::psis(lw, r_eff = 1)$diagnostics$pareto_k)
  for (n in c(25, 26, 100, 225, 226, 1000, 20000)) {
    for (scale in c(0.3, 2)) {
      lw <- grid_values(n, n + scale) * scale
      expect_identical(pareto_k_of(run(lw, 1e4)$tail, n), psis_k(lw), info = paste(n, scale))
      expect_equal(pareto_k_of(run(lw - 1e4, 1e4)$tail, n), psis_k(lw), tolerance = 1e-6)
    }
  }
})

test_that("the tail's length follows the rule and what is there", {
  expect_identical(tail_length(25, 1e4), 5)
  expect_identical(tail_length(100, 1e4), 20)
  expect_identical(tail_length(225, 1e4), 45)
  expect_identical(tail_length(1000, 1e4), 95)
  expect_identical(tail_length(1e4, 1e5), 300)
  expect_identical(tail_length(1e4, 250), 249)
  expect_identical(tail_length(1e4, 0), 0)
  skip_if_not_installed("loo")
  # from fewer of the largest the fit is another one, of these alone
  lw <- grid_values(20000, 9) * 2
  short <- sort(lw, decreasing = TRUE)[1:101]
  expected <- loo::gpdfit(exp(short[100:1] - short[1]) - exp(short[101] - short[1]), sort_x = FALSE)$k
  expect_identical(pareto_k_of(run(lw, 101)$tail, 20000), expected)
})

test_that("k is NA where it cannot be computed, without alarm", {
  k_of <- function(lw) expect_silent(pareto_k_of(run(lw, 1e4)$tail, length(lw)))
  expect_identical(k_of(numeric(1000)), NA_real_)
  expect_identical(k_of(grid_values(20, 3)), NA_real_)
  expect_identical(k_of(-7), NA_real_)
  expect_identical(k_of(numeric()), NA_real_)
  expect_identical(k_of(c(0, rep(-Inf, 999))), NA_real_)
  # most of the tail at its threshold
  expect_identical(k_of(c(rep(0, 990), 1:10)), NA_real_)
  # as those of weight zero, but for rounding
  expect_identical(k_of(c(numeric(50), -2000 - seq_len(950))), NA_real_)
})

test_that("k is Inf where a few weights leave the others no digits", {
  skip_if_not_installed("loo")
  k_of <- function(lw) expect_silent(pareto_k_of(run(lw, 1e4)$tail, length(lw)))
  for (below in c(710, 740, 800, 5000, 1e8)) {
    expect_identical(k_of(c(0, -below - seq_len(999) / 100)), Inf, info = below)
  }
  expect_identical(k_of(c(0, rep(-5000, 999))), Inf)
  # the nearer they are the smaller it is, without a jump to what cannot be computed
  k <- vapply(c(50, 200, 600, 700), function(below) k_of(c(0, -below - seq_len(999) / 100)), 0)
  expect_true(all(k > 0.7) && !is.unsorted(k))
  expect_match(describe_k(Inf, 1000), "Inf (above 0.67: not reliable)", fixed = TRUE)
})

test_that("known weights have known diagnostics", {
  of <- function(lw) {
    sums <- sums_of(lw)
    weight_diagnostics(sums$total, sums$tail)
  }
  out <- of(c(-1000, -1001, -1002))
  expect_equal(out$ess, 1.958699, tolerance = 1e-6)
  expect_equal(out$log_mean_weight, -1000.691006 - log(1), tolerance = 1e-9)
  expect_equal(out$max_share, 0.665241, tolerance = 1e-6)
  out <- of(c(1e4, 1e4, -Inf))
  expect_identical(c(out$ess, out$max_share), c(2, 0.5))
  expect_equal(out$log_mean_weight, 9999.594535, tolerance = 1e-9)
  out <- of(c(0, -Inf, -Inf))
  expect_identical(out$ess, 1)
  out <- of(log(c(2, 2, 2, 2)))
  expect_identical(c(out$ess, out$log_mean_weight_se, out$relative_efficiency), c(4, 0, 1))
  out <- of(-7)
  expect_identical(unlist(out[c("ess", "log_mean_weight", "log_mean_weight_se")], use.names = FALSE), c(1, -7, NA))
  out <- of(numeric(1000))
  expect_identical(out$log_mean_weight, 0)
})

test_that("a k is judged by its thresholds", {
  expect_match(describe_k(0.3, 1e6), "0.30 (good)", fixed = TRUE)
  expect_match(describe_k(0.6, 1e6), "usable")
  expect_match(describe_k(0.71, 1e6), "above 0.7: not reliable")
  expect_match(describe_k(0.6, 100), "above 0.5: not reliable")
  expect_match(describe_k(NA, 100), "not computed")
})
