# Population Monte Carlo.

adapt <- function(..., seed = 41) adapt_proposal(..., seed = seed, backend = "cpu")

test_that("a shifted, correlated target is found, and the ESS rises", {
  S <- matrix(c(1, 0.8, 0.8, 1), 2)
  target <- density_mvnormal(c(3, -2), S)
  for (df in c(5, Inf)) {
    fit <- adapt(target, density_student_t(3, c(0, 0), 2), n = 4000, df = df)
    rounds <- attr(fit, "rounds")
    expect_identical(names(rounds), c("round", "ess", "relative_efficiency", "log_mean_weight", "power"))
    expect_identical(nrow(rounds), 10L)
    expect_lt(rounds$relative_efficiency[1], 0.2)
    expect_gt(rounds$relative_efficiency[10], 0.9)
    se <- sqrt(1 / rounds$ess[10])
    expect_mc(fit$mean, c(3, -2), se)
    expect_gt(importance_sample(target, fit, 10000, seed = 1)$relative_efficiency, 0.9)
    if (df == Inf) {
      # an entry of a covariance has variance (S_ii S_jj + S_ij^2) / n
      expect_mc(fit$factor %*% t(fit$factor), S, sqrt(2) * se)
      expect_s3_class(fit, "fusedmc_density_mvnormal")
    } else {
      expect_s3_class(fit, "fusedmc_density_student_t")
      expect_identical(fit$df, 5)
    }
  }
})

test_that("a mixture finds modes far apart, in log space", {
  target <- density_mixture(c(0.3, 0.5, 0.2), rbind(c(-8, 0, 0), c(6, 5, 0), c(0, -10, 3)), 1)
  unnormalised <- density_function(function(x) log_density(target, x) - 2000, 3)
  start <- density_student_t(3, c(0, 0, 0), 6)
  one <- adapt(target, start, df = 5, n = 6000)
  three <- adapt(target, start, df = 5, n = 6000, n_components = 3)
  expect_identical(length(three$weights), 3L)
  expect_gt(attr(three, "rounds")$relative_efficiency[5], 0.7)
  expect_gt(attr(three, "rounds")$relative_efficiency[5], 5 * attr(one, "rounds")$relative_efficiency[5])
  expect_equal(sort(three$weights), c(0.2, 0.3, 0.5), tolerance = 0.1)
  far <- adapt(unnormalised, start, df = 5, n = 6000, n_components = 3)
  expect_equal(attr(far, "rounds")$log_mean_weight + 2000, attr(three, "rounds")$log_mean_weight, tolerance = 1e-6)
  fit <- importance_sample(target, three, 20000, seed = 2)
  expect_mc(fit$log_mean_weight, 0, fit$log_mean_weight_se)
})

test_that("a wide start in many dims leads to the target by powers of the weights", {
  target <- density_normal(seq(-1, 1, length.out = 12), 0.25)
  fit <- adapt(target, density_normal(0, 2), df = Inf)
  rounds <- attr(fit, "rounds")
  expect_lt(rounds$ess[1], 2)
  expect_true(all(diff(rounds$power) >= 0))
  expect_lt(rounds$power[1], 0.1)
  expect_identical(rounds$power[5], 1)
  expect_gt(importance_sample(target, fit, 10000, seed = 1)$relative_efficiency, 0.8)
})

test_that("the power leaves the weights an effective sample size, and is 1 where they have it", {
  lw <- grid_values(500, 403) * 30
  lw[c(7, 90)] <- -Inf
  draws <- list(draws = grid_matrix(500, 3, 404), log_weights = lw)
  for (n_components in 1:2) {
    weighted <- as_weighted(draws, n_components)
    w <- exp(weighted$log_weights - max(weighted$log_weights))
    expect_equal(sum(w)^2 / sum(w^2), 40 * n_components, tolerance = 1e-3)
    expect_equal(weighted$log_weights, weighted$power * lw[is.finite(lw)])
  }
  w <- as_weighted(draws, 50)
  expect_equal(sum(exp(w$log_weights))^2 / sum(exp(2 * w$log_weights)), 249, tolerance = 1e-3)
  expect_identical(as_weighted(list(draws = matrix(1, 1, 3), log_weights = -5), 1)$power, 1)
})

test_that("one step of EM is that of plain R", {
  x <- grid_matrix(300, 2, 401) * 2
  lw <- grid_values(300, 402)
  parts <- list(
    list(weight = 0.4, mean = c(0.5, 0), df = 4, factor = rbind(c(1, 0), c(0.3, 0.8))),
    list(weight = 0.6, mean = c(-0.5, 1), df = Inf, factor = rbind(c(0.7, 0), c(-0.2, 1.1)))
  )
  base <- diag(2)
  run <- list("cpu", 0L, NA_integer_, 1e5)
  actual <- em_step(parts, list(x = x, log_weights = lw), base, run)
  q <- vapply(parts, function(part) colSums(solve(part$factor, t(x) - part$mean)^2), numeric(300))
  log_det <- vapply(parts, function(part) sum(log(diag(part$factor))), 0)
  dens <- cbind(
    exp(lgamma(3) - lgamma(2) - log(4 * pi) - log_det[1] - 3 * log1p(q[, 1] / 4)),
    exp(-log(2 * pi) - log_det[2] - q[, 2] / 2)
  )
  rho <- dens * rep(c(0.4, 0.6), each = 300)
  rho <- rho / rowSums(rho) * exp(lw)
  share <- colSums(rho) / sum(rho)
  for (k in 1:2) {
    w <- rho[, k] * if (k == 1) 6 / (4 + q[, 1]) else 1
    m <- sum(w)^2 / sum(w^2)
    w <- w / sum(w)
    mean <- colSums(x * w)
    cov <- t(sweep(x, 2, mean)) %*% (sweep(x, 2, mean) * w)
    cov <- (m * cov + 3 * base) / (m + 3)
    expect_equal(actual[[k]]$mean, mean, tolerance = 1e-9)
    expect_equal(actual[[k]]$factor, t(chol(cov)), tolerance = 1e-9)
    expect_equal(actual[[k]]$weight, 0.95 * share[k] + 0.025, tolerance = 1e-9)
    expect_identical(actual[[k]]$df, parts[[k]]$df)
  }
})

test_that("a first round with one draw of weight does not collapse", {
  target <- density_normal(rep(30, 3), 0.5)
  start <- density_student_t(3, numeric(3), 3)
  fit <- adapt(target, start, n = 300, n_rounds = 12)
  rounds <- attr(fit, "rounds")
  expect_lt(rounds$ess[1], 1.5)
  expect_true(all(diag(fit$factor) > 0))
  expect_gt(rounds$relative_efficiency[12], 0.5)
  expect_lt(rounds$power[1], 0.01)
  mixed <- adapt(target, start, n = 300, n_rounds = 2, n_components = 4)
  expect_true(all(vapply(mixed$components, function(part) all(diag(part$factor) > 0), NA)))
})

test_that("seed, threads and precision do what they say, and no random number is used twice", {
  target <- density_normal(c(a = 1, b = 2), 1)
  start <- list(density_normal(c(0, 0), 3), density_normal(c(2, 2), 3))
  first <- adapt(target, start, n = 900, n_components = 2)
  expect_identical(with_threads(1, adapt(target, start, n = 900, n_components = 2)), first)
  expect_false(identical(adapt(target, start, n = 900, n_components = 2, seed = 42), first))
  expect_equal(
    attr(adapt(target, start, n = 900, precision = "single"), "rounds"), attr(adapt(target, start, n = 900), "rounds"),
    tolerance = 1e-3
  )
  expect_identical(first$parameters, c("a", "b"))
  expect_null(adapt(density_normal(0, 1), density_normal(0, 2), n = 100, n_dim = 2)$parameters)
  set.seed(7)
  one <- adapt(target, start, n = 100, seed = NULL)
  set.seed(7)
  expect_identical(adapt(target, start, n = 100, seed = NULL), one)
  words <- oracle_words(41, 5, 0, 3, 0)
  expect_identical(derived_seed(41, 5, 3), words[1] * 2^21 + words[2] %/% 2^11)
})

test_that("the covariance of a mixture of parts", {
  S <- matrix(c(2, 0.5, 0.5, 1), 2)
  mixture <- density_mixture(c(1, 3), rbind(c(0, 0), c(4, 8)), covs = list(S, diag(2)))
  expect_equal(
    covariance_of_parts(draw_parts(mixture, 2)), S / 4 + diag(2) * 0.75 + 3 / 16 * c(4, 8) %o% c(4, 8),
    tolerance = 1e-12
  )
  expect_equal(covariance_of_parts(draw_parts(density_normal(0, 3), 1)), matrix(9))
})

test_that("bad weights and bad arguments are refused", {
  p <- density_normal(c(0, 0), 1)
  nowhere <- density_function(function(x) rep(-Inf, nrow(x)), 2)
  expect_error(adapt(nowhere, p, n = 50), "does not reach", class = "fusedmc_error_nonfinite")
  holes <- density_function(function(x) ifelse(x[, 1] > 1, NaN, 0), 2)
  expect_error(adapt(holes, p, n = 50), class = "fusedmc_error_nonfinite")
  expect_s3_class(adapt(holes, p, n = 500, nonfinite = "drop"), "fusedmc_density")
  expect_input_error(adapt(1, p), "target", "1")
  expect_input_error(adapt(p, "normal"), "proposal", "normal")
  expect_input_error(adapt(p, p, n = 0), "n", "0")
  expect_input_error(adapt(p, p, n_rounds = 0), "n_rounds", "0")
  expect_input_error(adapt(p, p, n_rounds = 1001), "n_rounds", "1001")
  for (df in list(0, -1, NA, "5", c(1, 2))) expect_input_error(adapt(p, p, df = df), "df")
  expect_input_error(adapt(p, p, n_components = 0.5), "n_components", "0.5")
  expect_input_error(adapt(p, p, n_dim = 3), "n_dim", "3")
  expect_input_error(adapt(p, p, nonfinite = "x"), "nonfinite", "x")
})

test_that("a far and narrow target is approached by powers of the weights", {
  target <- density_normal(c(40, -25, 3), c(0.1, 0.02, 1))
  rounds <- attr(adapt_proposal(target, density_normal(0, 1), n = 4000, n_rounds = 12, seed = 3), "rounds")
  expect_lt(rounds$ess[1], 2)
  expect_lt(rounds$power[1], 1)
  expect_identical(rounds$power[12], 1)
  expect_gt(rounds$relative_efficiency[12], 0.5)
})
