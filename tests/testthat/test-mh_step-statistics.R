# mh_step() against closed forms. Fixed seeds; tolerances are 4.5 Monte Carlo standard errors.
# One step N(0, s^2 I) from the mode of N(0, I_d) is accepted with probability (1 + s^2)^(-d/2), and
# with proposal covariance C with probability det(I + C)^(-1/2).

standard_targets <- function() {
  list(
    normal = density_normal(0, 1),
    mixture = density_mixture(c(1, 2), matrix(0, 2, 2), 1)
  )
}

test_that("acceptance from the mode has its closed form in every dimension", {
  cases <- list(c(1, 2.4, 0.384615), c(2, 0.5, 0.8), c(10, 0.5, 0.32768), c(5, 2.4, 0.0084165))
  for (case in cases) {
    expect_equal(acceptance_at_mode(case[2], case[1]), case[3], tolerance = 1e-5)
    for (precision in case_precisions) {
      result <- mh_step(matrix(0, 50000, case[1]), density_normal(0, 1), case[2], seed = 11, precision = precision)
      expect_rate(result$accepted, acceptance_at_mode(case[2], case[1]), paste(case[1], precision))
    }
  }
})

test_that("chains have their own noise and uniform: acceptance over seeds is binomial", {
  n_seeds <- 200
  n_chains <- 10000
  factor <- matrix(c(0.5, 0.3, 0, 0.4), 2)
  steps <- list(scalar = 0.5, vector = c(0.5, 0.5), lower = factor, upper = t(factor))
  full <- det(diag(2) + factor %*% t(factor))^-0.5
  x <- matrix(0, n_chains, 2)
  targets <- standard_targets()
  for (target_name in names(targets)) {
    for (step_name in names(steps)) {
      p <- if (is.matrix(steps[[step_name]])) full else 0.8
      rates <- vapply(seq_len(n_seeds), function(seed) {
        mean(mh_step(x, targets[[target_name]], steps[[step_name]], seed = seed)$accepted)
      }, 0)
      sd_one <- sqrt(p * (1 - p) / n_chains)
      label <- paste(target_name, step_name)
      expect_mc(mean(rates), p, sd_one / sqrt(n_seeds), label)
      # one uniform for all chains would give 0.276 here, one normal for all 0.166
      expect_mc(stats::sd(rates) / sd_one, 1, sqrt(1 / (2 * (n_seeds - 1))), label)
    }
  }
})

test_that("accepted rows are distinct, rejected ones unmoved, coordinates uncorrelated", {
  n <- 10000
  for (target in standard_targets()) {
    result <- mh_step(matrix(0, n, 2), target, 0.5, seed = 3)
    moved <- result$x[result$accepted, ]
    expect_identical(anyDuplicated(moved), 0L)
    expect_true(all(result$x[!result$accepted, ] == 0))
    expect_true(all(rowSums(moved != 0) == 2))
    expect_mc(stats::cor(moved)[1, 2], 0, 1 / sqrt(nrow(moved)))
    first <- moved[-1, ]
    second <- moved[-nrow(moved), ]
    expect_mc(as.vector(stats::cor(first, second)), 0, 1 / sqrt(nrow(first)))
  }
})

test_that("identical starts part: four chains, four trajectories", {
  x <- matrix(0, 4, 1)
  path <- matrix(0, 4, 50)
  for (step in 0:49) {
    x <- mh_step(x, density_normal(0, 1), 1, seed = 1, step = step)$x
    path[, step + 1] <- x
  }
  expect_identical(anyDuplicated(path), 0L)
})

# Increments of n_steps steps of d = 1 on a nearly flat target, one row per chain.
increments <- function(seed, n_chains = 1000, n_steps = 20, chain_offset = 0) {
  x <- matrix(0, n_chains, 1)
  vapply(seq_len(n_steps) - 1, function(step) {
    mh_step(x, density_normal(0, 1e6), 1, seed = seed, step = step, chain_offset = chain_offset)$x[, 1]
  }, numeric(n_chains))
}

test_that("neighbouring seeds, chains and steps share nothing", {
  one <- increments(1)
  for (seed in c(2, 3, 1001, 1 + 2^32)) {
    other <- increments(seed)
    expect_identical(anyDuplicated(rbind(one, other)), 0L)
    n <- nrow(one)
    # 20 x 20 correlations at three shifts of the chain: every lag of the step is among them
    for (shift in 0:2) {
      r <- stats::cor(one[seq_len(n - shift), ], other[seq_len(n - shift) + shift, ])
      expect_lt(max(abs(r)), 5.2 / sqrt(n - shift))
    }
  }
  own <- stats::cor(one)
  expect_lt(max(abs(own[upper.tri(own)])), 5.2 / sqrt(nrow(one)))
})

test_that("seed s, s + 1, s + 2 in a loop do not walk along one stream", {
  noise <- vapply(0:19, function(i) {
    mh_step(matrix(0, 1000, 1), density_normal(0, 1e6), 1, seed = 50 + i)$x[, 1]
  }, numeric(1000))
  expect_identical(anyDuplicated(noise), 0L)
  for (shift in 0:2) {
    r <- stats::cor(noise[seq_len(1000 - shift), ], noise[seq_len(1000 - shift) + shift, ])
    diag(r) <- 0
    expect_lt(max(abs(r)), 5.2 / sqrt(1000 - shift))
  }
})

test_that("without a seed every call has a fresh stream that set.seed() governs", {
  run <- function() {
    x <- matrix(0, 200, 1)
    vapply(1:80, function(i) {
      old <- x
      x <<- mh_step(x, density_normal(0, 1e6), 1)$x
      (x - old)[, 1]
    }, numeric(200))
  }
  withr::local_preserve_seed()
  set.seed(42)
  first <- run()
  second <- run()
  set.seed(42)
  expect_identical(run(), first)
  expect_identical(anyDuplicated(rbind(t(first), t(second))), 0L)
  expect_lt(max(abs(stats::cor(first, second))), 5.5 / sqrt(200))
  own <- stats::cor(first)
  expect_lt(max(abs(own[upper.tri(own)])), 5.5 / sqrt(200))
})

test_that("the acceptance rate at stationarity is (2 / pi) atan(2 / s) and the target is kept", {
  n <- 100000
  withr::local_preserve_seed()
  set.seed(1)
  for (case in list(c(1, 0.704833), c(2, 0.5), c(2.4, 0.442284), c(5, 0.242238))) {
    s <- case[1]
    p <- 2 / pi * atan(2 / s)
    expect_equal(p, case[2], tolerance = 2e-6)
    x <- matrix(stats::rnorm(n), n, 1)
    for (step in 0:9) {
      result <- mh_step(x, density_normal(0, 1), s, seed = 5, step = step)
      expect_rate(result$accepted, p, paste(s, step))
      expect_identical(result$accepted, (result$x != x)[, 1])
      x <- result$x
    }
    expect_mc(mean(x), 0, 1 / sqrt(n), s)
    expect_mc(stats::var(x[, 1]), 1, sqrt(2 / n), s)
    expect_gt(stats::ks.test(x[, 1], "pnorm")$p.value, 1e-5)
  }
})

test_that("a chain that moves on keeps its variance: rejected states are repeated", {
  # accepted states alone would have variance 1.2658 at s = 5
  x <- matrix(0, 5000, 1)
  squares <- numeric(0)
  for (step in 0:119) {
    x <- mh_step(x, density_normal(0, 1), 5, seed = 9, step = step)$x
    if (step %% 30 == 29 && step > 30) squares <- c(squares, x[, 1]^2)
  }
  # chains independent, three states of one at worst alike
  expect_mc(mean(squares), 1, sqrt(2 / 5000))
})

test_that("from x = 10 the acceptance rate is that of min(1, ratio)", {
  result <- mh_step(matrix(10, 100000, 1), density_normal(0, 1), 1, seed = 2)
  expect_rate(result$accepted, 0.539140)
  ratio <- exp(pmin(0, result$log_alpha))
  expect_mc(mean(ratio), 0.539140, stats::sd(ratio) / sqrt(length(ratio)))
})

test_that("step_size is a standard deviation, and a matrix is a Cholesky factor", {
  n <- 100000
  flat <- density_normal(0, 1e6)
  move <- mh_step(matrix(0, n, 1), flat, 3, seed = 21)$x
  expect_mc(stats::sd(move[, 1]), 3, 3 / sqrt(2 * n))
  lower <- matrix(c(3, 1, 0, 2), 2)
  covariance <- lower %*% t(lower)
  for (factor in list(lower, t(lower), chol(covariance))) {
    move <- mh_step(matrix(0, n, 2), flat, factor, seed = 22)$x
    se <- sqrt((covariance^2 + outer(diag(covariance), diag(covariance))) / n)
    expect_mc(as.vector(stats::cov(move)), as.vector(covariance), as.vector(se))
  }
  move <- mh_step(matrix(0, n, 3), flat, c(1, 3, 0), seed = 23)$x
  expect_mc(apply(move[, 1:2], 2, stats::sd), c(1, 3), c(1, 3) / sqrt(2 * n))
  expect_true(all(move[, 3] == 0))
})

test_that("normals of a flat target are finite, within 6.34, and normal", {
  z <- mh_step(matrix(0, 2^17, 16), density_normal(0, 1e9), 1, seed = 31)$x
  expect_true(all(is.finite(z)))
  expect_lt(max(abs(z)), 6.34)
  expect_mc(mean(z), 0, 1 / sqrt(length(z)))
  expect_mc(mean(z^2), 1, sqrt(2 / length(z)))
  expect_mc(mean(z^4), 3, sqrt(96 / length(z)))
  expect_gt(suppressWarnings(stats::ks.test(z[seq_len(1e5)], "pnorm"))$p.value, 1e-5)
})

test_that("coordinates of one chain are uncorrelated and distinct", {
  n <- 10000
  z <- mh_step(matrix(0, n, 9), density_normal(0, 1e6), 1, seed = 32)$x
  r <- stats::cor(z)
  expect_lt(max(abs(r[upper.tri(r)])), 4.5 / sqrt(n))
  equal_pairs <- 0
  for (lag in 1:8) {
    equal_pairs <- equal_pairs + sum(z[, seq_len(9 - lag)] == z[, seq_len(9 - lag) + lag])
  }
  # 360000 pairs of floats: 0.02 expected by chance
  expect_lte(equal_pairs, 1)
})

test_that("many chains: every row is stepped, up to the last", {
  for (n in c(65535, 65536, 65537, 200001)) {
    result <- mh_step(matrix(0, n, 1), density_normal(0, 1), 2.4, seed = 33)
    tail <- (n - 999):n
    expect_rate(result$accepted[tail], acceptance_at_mode(2.4, 1), n)
    expect_identical(result$accepted, result$x[, 1] != 0)
    expect_same_bits(
      result$x[tail, 1],
      mh_step(matrix(0, 1000, 1), density_normal(0, 1), 2.4, seed = 33, chain_offset = n - 1000)$x[, 1]
    )
  }
})

test_that("many dimensions: every coordinate moves", {
  result <- mh_step(matrix(0, 1, 70000), density_normal(0, 1), 1e-4, seed = 34)
  expect_true(result$accepted)
  expect_true(all(result$x != 0))
  expect_same_bits(as.vector(result$x), as.vector(1e-4 * oracle_noise(1, 70000, 34)))
})

test_that("2^24 chains: every row is stepped, up to the last", {
  skip_unless_long()
  n <- 2^24 + 1
  result <- mh_step(matrix(0, n, 1), density_normal(0, 1), 2.4, seed = 35)
  expect_rate(result$accepted[(n - 999):n], acceptance_at_mode(2.4, 1))
  expect_rate(result$accepted, acceptance_at_mode(2.4, 1))
})
