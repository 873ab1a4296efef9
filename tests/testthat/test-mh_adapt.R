# Warm-up: windows, scale, shape.

test_that("windows grow from 25 to 200 and add up", {
  expect_identical(warmup_windows(0), numeric())
  expect_identical(warmup_windows(1), 1)
  expect_identical(warmup_windows(30), 30)
  expect_identical(warmup_windows(60), c(25, 35))
  expect_identical(warmup_windows(500), c(25, 50, 100, 200, 125))
  expect_identical(warmup_windows(1000), c(25, 50, 100, 200, 200, 200, 225))
  expect_identical(warmup_windows(999, adapt = FALSE), 999)
  for (n in c(1:400, 1e4, 1e6 + 7, 2^32 - 1)) {
    sizes <- warmup_windows(n)
    expect_identical(sum(sizes), as.double(n))
    expect_true(all(sizes > 0))
    expect_lt(length(sizes), 60)
  }
})

test_that("the acceptance rate after warm-up is the one that was asked for, from any step size", {
  cases <- list(c(1, 0.441), c(2, 0.352), c(10, 0.234))
  for (case in cases) {
    for (first in c(1e-5, 1, 1e6)) {
      fit <- mh_sample(density_normal(0, 1), matrix(0, 200, case[1]),
        n_steps = 100, n_warmup = 1000, step_size = first, seed = 1, keep = "summary"
      )
      expect_equal(mean(fit$acceptance), case[2], tolerance = 0.1, info = paste(case[1], first))
    }
  }
  fit <- mh_sample(density_normal(0, 1), matrix(0, 200, 3),
    n_steps = 100, n_warmup = 1000, target_acceptance = 0.6, seed = 1, keep = "summary"
  )
  expect_equal(mean(fit$acceptance), 0.6, tolerance = 0.1)
  expect_identical(fit$settings$target_acceptance, 0.6)
})

test_that("the shape is learnt from many chains and from few", {
  sd <- c(1e-3, 1, 1e3)
  S <- matrix(c(4, 1.9, 1.9, 1), 2)
  for (n_chains in c(4, 300)) {
    fit <- mh_sample(density_normal(c(1, 0, -100), sd), c(1, 0, -100),
      n_chains = n_chains, n_steps = 10, n_warmup = 3000, seed = 2, keep = "summary"
    )
    ratio <- fit$step_size / sd
    expect_lt(max(ratio) / min(ratio), 2.5)
    expect_lt(max(fit$step_size / (sd * 2.38 / sqrt(3))), 3)
    full <- mh_sample(density_mvnormal(c(0, 5), S), c(0, 5),
      n_chains = n_chains, n_steps = 10, n_warmup = 2000, adapt_shape = "full", seed = 3, keep = "summary"
    )
    covariance <- full$step_size %*% t(full$step_size)
    expect_true(all(full$step_size[upper.tri(full$step_size)] == 0))
    expect_gt(stats::cov2cor(covariance)[2, 1], 0.8)
    expect_equal(covariance[1, 1] / covariance[2, 2], 4, tolerance = 0.5)
  }
})

test_that("adapt_shape = \"none\" only multiplies the step size", {
  for (step in list(c(1, 5), matrix(c(1, 1, 0, 2), 2))) {
    fit <- small_run(10, n_warmup = 200, step_size = step, adapt_shape = "none")
    ratio <- (fit$step_size / step)[step != 0]
    expect_equal(ratio, rep(ratio[1], length(ratio)), tolerance = 1e-15)
    expect_false(ratio[1] == 1)
    expect_false(any(fit$warmup$shape_updated))
  }
})

test_that("windows without an accepted proposal leave a finite, positive step size", {
  # a point mass at the start: every proposal has density zero
  stuck <- density_function(function(x) ifelse(rowSums(x != 0) == 0, 0, -Inf), n_dim = 3)
  for (shape in c("diagonal", "full", "none")) {
    for (n_chains in c(1, 200)) {
      fit <- mh_sample(stuck, matrix(0, n_chains, 3), n_steps = 10, n_warmup = 600, adapt_shape = shape, seed = 1)
      size <- if (is.matrix(fit$step_size)) diag(fit$step_size) else fit$step_size
      expect_true(all(is.finite(size) & size > 0))
      expect_true(all(fit$warmup$acceptance == 0))
      expect_true(all(fit$state$x == 0))
    }
  }
  # and where every one is accepted; first windows look for a scale, a fifth of warm-up long
  flat <- density_function(function(x) numeric(nrow(x)), n_dim = 2)
  for (first in c(1, 1e-300, 1e200)) {
    fit <- mh_sample(flat, matrix(0, 100, 2), n_steps = 10, n_warmup = 4000, step_size = first, seed = 1)
    expect_true(all(is.finite(fit$step_size) & fit$step_size > 0))
    expect_true(all(fit$warmup$acceptance == 1))
    expect_identical(sum(fit$warmup$n_steps == 10), 80L)
  }
  fit <- mh_sample(stuck, matrix(0, 100, 3), n_steps = 10, n_warmup = 4000, step_size = 1e-250, seed = 1)
  expect_true(all(is.finite(fit$step_size) & fit$step_size > 0))
})

test_that("a dim that does not move, or moves with another, does not spoil the shape", {
  proposal <- new_proposal(c(1, 1, 1))
  x <- cbind(grid_values(400, 5), 7, grid_values(400, 5) * 3 + 1)
  for (shape in c("diagonal", "full")) {
    base <- adapt_base(proposal, list(states = list()), x, shape)$base
    size <- if (is.matrix(base)) sqrt(rowSums(base^2)) else base
    expect_true(all(is.finite(size) & size > 0))
    expect_equal(size[2], 1)
    expect_equal(size[3] / size[1], 3, tolerance = 1e-12)
  }
})

test_that("the shape is the covariance of the states, by plain R", {
  x <- grid_matrix(500, 3, 6) %*% matrix(c(1, 0.5, 0, 0, 1, 2, 0, 0, 1), 3)
  proposal <- new_proposal(rep(1, 3))
  diagonal <- adapt_base(proposal, list(states = list()), x, "diagonal")
  expect_equal(diagonal$base, 2.38 / sqrt(3) * apply(x, 2, stats::sd), tolerance = 1e-13)
  full <- adapt_base(proposal, list(states = list()), x, "full")$base
  S <- stats::cov(x)
  kept <- 1 - 8 / 508
  expected <- S * (kept + (1 - kept) * diag(3))
  expect_equal(full %*% t(full), 2.38^2 / 3 * expected, tolerance = 1e-12)
})

test_that("the table of windows says what was done", {
  fit <- small_run(10, n_warmup = 300)
  expect_named(fit$warmup, c("first_step", "n_steps", "scale", "acceptance", "shape_updated"))
  # one window found that the first scale says something
  expect_identical(fit$warmup$n_steps, c(10, warmup_windows(290)))
  expect_identical(fit$warmup$first_step, c(0, 10, 35, 85, 185))
  expect_identical(fit$warmup$shape_updated, c(FALSE, FALSE, TRUE, TRUE, FALSE))
  # the first window is a run at the first step size
  alone <- small_run(10, adapt = FALSE)
  expect_equal(fit$warmup$acceptance[1], mean(alone$acceptance), tolerance = 1e-12)
  expect_equal(fit$settings$target_acceptance, 0.352)
})

test_that("step sizes are plain arithmetic: the same for a function of R and for C", {
  in_c <- small_run(10, target = density_normal(0, 1), n_warmup = 400, adapt_shape = "full")
  in_r <- small_run(10,
    target = density_function(function(x) log_density(density_normal(0, 1), x, backend = "cpu")),
    n_warmup = 400, adapt_shape = "full"
  )
  expect_same_bits(in_r$step_size, in_c$step_size)
  expect_same_bits(in_r$draws, in_c$draws)
  expect_equal(in_r$state$sums, in_c$state$sums, tolerance = 1e-13)
})
