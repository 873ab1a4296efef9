# Draws and what the oracle makes of the same words.
largest_error <- function(density, parts, n = 300, seed = 2^33 + 5, offset = 2^32 - 100, n_dim = NULL) {
  x <- draw(density, n, seed, offset, n_dim)
  expected <- oracle_draw(parts, n, seed, offset)
  max(abs(x - expected) / pmax(1, abs(expected)))
}

part <- function(mean, factor, df = Inf, weight = 1) list(mean = mean, factor = factor, df = df, weight = weight)

test_that("normals are those of the words, to the bit", {
  for (d in c(1, 3, 4, 5, 9)) {
    mean <- grid_values(d, 970)
    sd <- as.vector(case_sds(1, d))
    expect_identical(largest_error(density_normal(mean, sd), list(part(mean, sd)), n_dim = d), 0)
    lower <- core_cholesky(grid_covariance(d, 971))$factor
    expect_identical(largest_error(density_mvnormal(mean, chol = lower), list(part(mean, lower))), 0)
    expect_identical(largest_error(density_mvnormal(mean, chol = t(lower)), list(part(mean, lower))), 0)
  }
  expect_identical(largest_error(density_normal(2, 3), list(part(c(2, 2), c(3, 3))), n_dim = 2), 0)
})

test_that("a t stretches them by its chi-square", {
  lower <- core_cholesky(grid_covariance(3, 972))$factor
  for (df in c(0.3, 1, 1.999, 2, 5, 1e4, 1e10, 2^60, Inf)) {
    # the boost's exponent, log(u) / df, is rounded at its own size
    tolerance <- 1e-14 + 1e-15 * 40 / min(df, 40)
    expect_lt(largest_error(density_student_t(df, 1:3, c(1, 2, 3)), list(part(1:3, 1:3, df))), tolerance)
    expect_lt(largest_error(density_student_t(df, 1:3, lower %*% t(lower)), list(part(1:3, core_cholesky(
      lower %*% t(lower)
    )$factor, df))), tolerance)
  }
  expect_same_bits(draw(density_student_t(Inf, 1:3, 2), 50, 4), draw(density_normal(1:3, 2), 50, 4))
})

test_that("mixtures choose by one uniform", {
  lower <- core_cholesky(grid_covariance(2, 973))$factor
  means <- rbind(c(0, 0), c(5, 5), c(-5, 5))
  sds <- case_sds(3, 2)
  weights <- c(0.25, 0.5, 0.25)
  parts <- lapply(1:3, function(k) part(means[k, ], sds[k, ], Inf, weights[k]))
  expect_identical(largest_error(density_mixture(weights, means, sds), parts, n = 10000), 0)
  zero <- density_mixture(c(1, 0, 2, 1), means[c(1, 1, 2, 3), ], rbind(sds[1, ], 1, sds[2, ], sds[3, ]))
  expect_same_bits(draw(zero, 100, 8), draw(density_mixture(weights, means, sds), 100, 8))
  # a kind each
  any <- density_mixture(weights, components = list(
    density_normal(0, 1), density_mvnormal(5, chol = lower), density_student_t(3, c(-5, 5))
  ))
  parts <- list(part(c(0, 0), c(1, 1)), part(c(5, 5), lower), part(c(-5, 5), c(1, 1), 3))
  parts <- Map(replace, parts, "weight", weights)
  expect_lt(largest_error(any, parts), 1e-14)
  # of one component: no uniform, the same draws
  single <- density_mixture(3, means[2, , drop = FALSE], 2)
  expect_same_bits(draw(single, 20, 8), draw(density_normal(c(5, 5), 2), 20, 8))
})

test_that("components come as often as they weigh", {
  weights <- c(seq_len(999), 0)
  density <- density_mixture(weights, matrix(seq_along(weights)), 1e-3)
  n <- 2e5
  counts <- tabulate(round(draw(density, n, 77)), length(weights))
  expect_identical(counts[1000], 0L)
  expected <- n * weights[1:999] / sum(weights)
  # chi-square with 998 degrees of freedom
  expect_lt(sum((counts[1:999] - expected)^2 / expected), qchisq(1 - 1e-6, 998))
})

test_that("a split draws the same", {
  densities <- list(
    density_normal(0, 1), density_student_t(0.7), density_mixture(c(1, 2), rbind(c(0, 0, 0), c(1, 2, 3)), 1),
    density_mvnormal(0, grid_covariance(3, 974))
  )
  for (density in densities) {
    whole <- draw(density, 10, 11, n_dim = 3)
    expect_identical(draw(density, 5, 11, offset = 5, n_dim = 3)[, ], whole[6:10, ])
    expect_identical(draw(density, 1, 11, offset = 9, n_dim = 3)[1, ], whole[10, ])
    expect_false(any(whole == draw(density, 10, 12, n_dim = 3)))
  }
  # dims too
  few <- draw(density_normal(0, 1), 5, 11, n_dim = 3)
  expect_identical(few[, ], draw(density_normal(0, 1), 5, 11, n_dim = 9)[, 1:3])
})

test_that("moments are those of the density", {
  n <- 1e5
  x <- draw(density_normal(c(1, -2), c(2, 3)), n, 21)
  expect_mc(colMeans(x), c(1, -2), c(2, 3) / sqrt(n))
  expect_mc(apply(x, 2, var), c(4, 9), c(4, 9) * sqrt(2 / n))
  sigma <- matrix(c(2, 0.5, -0.3, 0.5, 1, 0.2, -0.3, 0.2, 1.5), 3)
  se <- sqrt((sigma^2 + diag(sigma) %o% diag(sigma)) / n)
  expect_mc(cov(draw(density_mvnormal(0, sigma), n, 22)), sigma, se)
  # of a t the covariance is df / (df - 2) times the scale matrix; its fourth moments are those of df = 9
  x <- draw(density_student_t(9, 1:3, sigma), n, 23)
  expect_mc(colMeans(x), 1:3, sqrt(9 / 7 * diag(sigma) / n))
  expect_mc(cov(x), 9 / 7 * sigma, 9 / 7 * sqrt((7 / 5 * 3) * diag(sigma) %o% diag(sigma) / n))
  x <- draw(density_mixture(c(1, 3), c(-2, 2), c(1, 0.5)), n, 24)
  expect_mc(mean(x), 1, sqrt(3.4375 / n))
})

test_that("the distribution is that of the density", {
  n <- 20000
  ks <- function(x, ...) suppressWarnings(stats::ks.test(as.vector(x), ...)$p.value)
  for (df in c(0.5, 1, 4, 1e10, Inf)) {
    x <- draw(density_student_t(df), n, 31, n_dim = 1)
    expect_gt(ks(x, "pt", df), 1e-4)
    # the radius of a multivariate one has an F distribution
    sigma <- grid_covariance(5, 975)
    x <- draw(density_student_t(df, 0, sigma), n, 32)
    q <- colSums(backsolve(chol(sigma), t(x), transpose = TRUE)^2)
    expect_gt(ks(q / 5, "pf", 5, df), 1e-4)
  }
  x <- draw(density_mixture(c(1, 3), c(-1, 1), c(0.5, 2)), n, 33)
  expect_gt(ks(x, function(q) 0.25 * pnorm(q, -1, 0.5) + 0.75 * pnorm(q, 1, 2)), 1e-4)
})

test_that("importance weights of draws are right", {
  n <- 50000
  proposal <- density_student_t(4, 0, 1.5)
  x <- draw(proposal, n, 41, n_dim = 2)
  result <- is_weights(x, density_mvnormal(0.5, matrix(c(1, 0.4, 0.4, 1), 2)), proposal)
  expect_mc(exp(result$log_mean_weight), 1, sqrt((n / result$ess - 1) / n))
  expect_mc(result$mean, c(0.5, 0.5), 1 / sqrt(result$ess))
})

test_that("tempered densities are drawn from where they can be normalised", {
  lower <- core_cholesky(grid_covariance(2, 976))$factor
  full <- density_mvnormal(1:2, chol = lower)
  same <- function(density, closed) {
    a <- draw(density, 200, 51)
    b <- draw(closed, 200, 51)
    expect_equal(a, b, tolerance = 1e-13)
    # and it is proportional to it
    gap <- log_density(density, a) - log_density(closed, a)
    expect_lt(diff(range(gap)), 1e-10)
  }
  same(density_tempered(density_normal(1:2, 3), 0.25), density_normal(1:2, 6))
  same(density_tempered(full, 4), density_mvnormal(1:2, chol = lower / 2))
  # df' = beta (df + 2) - 2, scale' = scale sqrt(df / df')
  same(density_tempered(density_student_t(4, 1:2, 3), 0.75), density_student_t(2.5, 1:2, 3 * sqrt(4 / 2.5)))
  sigma <- lower %*% t(lower)
  same(density_tempered(density_student_t(4, 1:2, sigma), 2), density_student_t(10, 1:2, sigma * 0.4))
  expect_input_error(draw(density_tempered(density_student_t(4, 1:2), 1 / 3), 5), "density", "cannot be drawn from")
  expect_input_error(draw(density_tempered(density_normal(1:2), 0), 5), "density", "cannot be drawn from")
})

test_that("products of normals are drawn from", {
  proportional <- function(density, closed, seed = 52) {
    x <- draw(density, 200, seed)
    expect_lt(diff(range(log_density(density, x) - log_density(closed, x))), 1e-9)
    expect_equal(x, draw(closed, 200, seed), tolerance = 1e-10)
  }
  # precisions 1/4 and 1 add up to 5/4
  proportional(
    density_product(density_normal(c(0, 2), 2), density_normal(c(5, 7), 1)), density_normal(c(4, 6), sqrt(0.8))
  )
  s1 <- grid_covariance(3, 977)
  s2 <- grid_covariance(3, 978)
  covariance <- solve(solve(s1) + solve(s2))
  mean <- as.vector(covariance %*% (solve(s1) %*% 1:3 + solve(s2) %*% rep(2, 3)))
  product <- density_product(density_mvnormal(1:3, s1), density_mvnormal(2, s2))
  proportional(product, density_mvnormal(mean, (covariance + t(covariance)) / 2))
  # a bridge between two normals, at its ends and in between
  bridge <- function(b) {
    from <- density_tempered(density_normal(c(0, 0), 1), 1 - b)
    density_product(from, density_tempered(density_normal(c(4, 4), 1), b))
  }
  proportional(bridge(0), density_normal(c(0, 0), 1))
  proportional(bridge(0.25), density_normal(c(1, 1), 1))
  proportional(bridge(1), density_normal(c(4, 4), 1))
  expect_input_error(draw(density_product(density_normal(1:2), density_student_t(4)), 5), "density", "cannot be drawn")
})

test_that("what cannot be drawn from is an error that says what can", {
  f <- density_function(function(x) -x[, 1]^2, n_dim = 1)
  normal <- density_normal(0, 1)
  for (density in list(
    f, density_product(f, normal), density_tempered(f, 0.5), density_mixture(c(1, 1), components = list(f, normal)),
    density_mixture(c(1, 1), components = list(density_tempered(density_normal(0:1), 0.5), normal))
  )) {
    expect_input_error(draw(density, 5), "density", "multivariate normal, Student t")
  }
})

test_that("seeds", {
  density <- density_normal(1:2, 1)
  set.seed(1)
  first <- draw(density, 5)
  second <- draw(density, 5)
  expect_false(any(first == second))
  set.seed(1)
  expect_identical(draw(density, 5), first)
  expect_identical(draw(density, 5, attr(first, "seed")), first)
  before <- .Random.seed
  draw(density, 5, 3)
  expect_identical(.Random.seed, before)
  # importance draws share no words with proposals
  moved <- mh_step(matrix(0, 5, 2), density_tempered(density, 0), 1, seed = 3)$x
  expect_false(any(moved == draw(density_normal(c(0, 0), 1), 5, 3)))
})

test_that("shapes and names", {
  expect_identical(dim(draw(density_normal(0, 1), 0, 1, n_dim = 3)), c(0L, 3L))
  expect_identical(dim(draw(density_normal(1:3, 1), 4, 1)), c(4L, 3L))
  sigma <- matrix(c(1, 0.2, 0.2, 1), 2, dimnames = list(c("a", "b"), c("a", "b")))
  expect_identical(colnames(draw(density_mvnormal(0, sigma), 2, 1)), c("a", "b"))
  expect_identical(colnames(draw(density_student_t(3, 0, sigma), 2, 1)), c("a", "b"))
  expect_identical(colnames(draw(density_mvnormal(c(u = 0, v = 1), diag(2)), 2, 1)), c("u", "v"))
  expect_null(colnames(draw(density_mvnormal(0, diag(2)), 2, 1)))
})

test_that("draws of a t with a tiny df are no NaN", {
  x <- draw(density_student_t(1e-3, 1:2, matrix(c(1, 0.5, 0.5, 1), 2)), 2000, 61)
  expect_false(anyNA(x))
  expect_true(any(is.infinite(x)) && any(is.finite(x)))
  # the second of these normals is 0, and the stretch is beyond the largest double
  expect_identical(draw(density_normal(0, 1), 1, 1, offset = 35676648, n_dim = 2)[2], 0)
  expect_identical(draw(density_student_t(1e-4), 1, 1, offset = 35676648, n_dim = 2)[2], 0)
})

test_that("arguments are checked", {
  open <- density_normal(0, 1)
  fixed <- density_normal(1:2, 1)
  expect_input_error(draw(3, 1), "density", "3")
  for (bad in list(-1, 1.5, NA, Inf, "1", NULL, 2^31, c(1, 2))) {
    expect_input_error(draw(fixed, bad), "n")
  }
  for (bad in list(-1, 1.5, NA, "1", 2^54)) {
    expect_input_error(draw(fixed, 1, bad), "seed")
    expect_input_error(draw(fixed, 1, 1, bad), "offset")
  }
  expect_input_error(draw(open, 1), "n_dim", "NULL")
  for (bad in list(0, 1.5, NA, "1", 2^31, c(1, 2))) {
    expect_input_error(draw(open, 1, n_dim = bad), "n_dim")
  }
  expect_input_error(draw(fixed, 1, n_dim = 3), "n_dim", "2 dims")
})
