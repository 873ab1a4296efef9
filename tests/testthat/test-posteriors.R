# Posteriors of real data against other programs: inst/extdata/posteriors.csv, which tools/reference/densities.R makes,
# holds means, sds and medians with their standard errors. Fixed seeds; 4.5 combined standard errors.

reference_of <- function(problem, source, quantity) {
  all <- utils::read.csv(system.file("extdata", "posteriors.csv", package = "fusedmc"))
  rows <- all[all$problem == problem & all$source == source & all$quantity == quantity, ]
  stopifnot(nrow(rows) > 0)
  rows
}

# Estimates with standard errors from the spread of independent chains; `of` takes states to what is estimated,
# n_chains x n_parameters.
chain_estimates <- function(target, start, step_size, seed, n_warmup = 300, n_steps = 700, of = identity) {
  x <- start
  total <- 0
  squares <- 0
  centre <- NULL # near the mean, so that no digits are lost in the variance
  for (step in seq_len(n_warmup + n_steps) - 1) {
    x <- mh_step(x, target, step_size, seed = seed, step = step)$x
    if (step == n_warmup - 1) {
      centre <- colMeans(of(x))
    } else if (step >= n_warmup) {
      value <- sweep(of(x), 2, centre)
      total <- total + value / n_steps
      squares <- squares + value^2 / n_steps
    }
  }
  root <- sqrt(nrow(x))
  shift <- colMeans(total)
  variance <- colMeans(squares) - shift^2
  own <- squares - 2 * sweep(total, 2, shift, `*`) # of a chain, up to a constant: what moves the variance
  data.frame(
    mean = centre + shift, mean_se = apply(total, 2, stats::sd) / root,
    sd = sqrt(variance), sd_se = apply(own, 2, stats::sd) / root / (2 * sqrt(variance))
  )
}

expect_reference <- function(ours, problem, source, quantity) {
  theirs <- reference_of(problem, source, quantity)
  expect_true(all(theirs$parameter %in% rownames(ours)))
  own <- ours[theirs$parameter, ]
  se <- sqrt(own[[paste0(quantity, "_se")]]^2 + theirs$se^2)
  for (i in seq_along(se)) {
    expect_mc(own[[quantity]][i], theirs$value[i], se[i], paste(problem, source, quantity, theirs$parameter[i]))
  }
}

# The regression's own estimates give starts and steps. The estimates are precise enough to tell a wrong prior or a
# lost observation.
regression_estimates <- function(formula, data, family, seed, prior_sd = 2.5) {
  fit <- stats::glm(formula, family, data)
  post <- density_glm(formula, data, family = family, prior_sd = prior_sd)
  start <- draw(density_student_t(4, stats::coef(fit), stats::vcov(fit)), 500, seed = seed)
  step_size <- 2.4 / sqrt(post$n_dim) * chol(stats::vcov(fit))
  chain_estimates(post, start, step_size, seed)
}

scaled_pima <- function() {
  pima <- MASS::Pima.tr
  pima[1:7] <- scale(pima[1:7])
  pima
}

test_that("a logistic regression agrees with mcmc and MCMCpack", {
  skip_if_not_installed("MASS")
  ours <- regression_estimates(type ~ ., scaled_pima(), stats::binomial(), 1)
  for (source in c("mcmc::metrop", "MCMCpack::MCMClogit")) {
    expect_reference(ours, "pima", source, "mean")
    expect_reference(ours, "pima", source, "sd")
  }
  # means and sds are within 1% of an sd, so half a prior_sd shows
  expect_lt(max(ours$mean_se / ours$sd), 0.01)
  other <- regression_estimates(type ~ ., scaled_pima(), stats::binomial(), 1, prior_sd = 1.25)
  theirs <- reference_of("pima", "mcmc::metrop", "mean")
  expect_gt(max(abs(other[theirs$parameter, "mean"] - theirs$value) / other$mean_se), 10)
})

test_that("a Poisson regression agrees with mcmc and MCMCpack", {
  ours <- regression_estimates(breaks ~ wool * tension, warpbreaks, stats::poisson(), 2)
  for (source in c("mcmc::metrop", "MCMCpack::MCMCpoisson")) {
    expect_reference(ours, "warpbreaks", source, "mean")
    expect_reference(ours, "warpbreaks", source, "sd")
  }
})

test_that("importance weights give the same means as chains", {
  fit <- stats::glm(breaks ~ wool * tension, stats::poisson(), warpbreaks)
  post <- density_glm(breaks ~ wool * tension, warpbreaks, family = stats::poisson(), prior_sd = 2.5)
  proposal <- density_student_t(8, stats::coef(fit), stats::vcov(fit))
  samples <- draw(proposal, 50000, seed = 3)
  out <- is_weights(samples, post, proposal)
  ours <- data.frame(
    mean = out$mean, mean_se = sqrt(colSums(out$weights^2 * sweep(samples, 2, out$mean)^2)),
    row.names = colnames(samples)
  )
  expect_reference(ours, "warpbreaks", "mcmc::metrop", "mean")
  expect_reference(ours, "warpbreaks", "MCMCpack::MCMCpoisson", "mean")
})

# Standard effects, mu and log tau; prior_scale 0 stands for flat priors of mu and tau.
eight_schools <- function(prior_scale) {
  density_source("
    real square(real z) { return z * z; }
    real log_density(const real *x, int n_dim) {
      real mu = x[n_y], log_tau = x[n_y + 1];
      real tau = fmc_exp(log_tau), sum = 0;
      for (int j = 0; j < n_y; j++)
        sum += square(x[j]) + square((y[j] - (mu + tau * x[j])) / sigma[j]);
      real value = -sum / 2 + log_tau;
      if (prior_scale > 0)
        value += -square(mu / prior_scale) / 2 - fmc_log1p(square(tau / prior_scale));
      return value;
    }", data = list(
    y = c(28, 8, -3, 7, -1, 1, 18, 12), sigma = c(15, 10, 16, 11, 9, 11, 10, 18), prior_scale = prior_scale
  ), n_dim = 10)
}

schools_estimates <- function(prior_scale, seed, of) {
  start <- matrix(rep(c(rep(0, 8), 5, 1), each = 1000), 1000)
  step_size <- 2.4 / sqrt(10) * c(rep(1, 8), 4, 1)
  chain_estimates(eight_schools(prior_scale), start, step_size, seed, n_warmup = 500, n_steps = 1000, of = of)
}

school_effects <- function(x) {
  tau <- exp(x[, 10])
  effects <- cbind(x[, 9] + tau * x[, 1:8], x[, 9], tau)
  colnames(effects) <- c(paste0("theta[", 1:8, "]"), "mu", "tau")
  effects
}

test_that("eight schools in C agree with posteriordb, and with the integral over tau", {
  skip_if(!nzchar(Sys.which("make")), "no make")
  ours <- schools_estimates(5, seed = 4, school_effects)
  expect_reference(ours, "schools_weak", "posteriordb", "mean")
  expect_reference(ours, "schools_weak", "integral", "mean")
  expect_reference(ours, "schools_weak", "integral", "sd")
})

test_that("eight schools with flat priors agree with the integral: means and medians", {
  skip_if(!nzchar(Sys.which("make")), "no make")
  # the share of draws below the exact median is one half
  medians <- reference_of("schools_flat", "integral", "median")
  below <- function(x) {
    share <- sweep(school_effects(x), 2, medians$value, `<`) * 1
    colnames(share) <- paste("below", medians$parameter)
    cbind(school_effects(x), share)
  }
  stopifnot(medians$parameter == c(paste0("theta[", 1:8, "]"), "mu", "tau"))
  ours <- schools_estimates(0, seed = 5, below)
  expect_reference(ours, "schools_flat", "integral", "mean")
  share <- ours[paste("below", medians$parameter), ]
  for (i in seq_len(nrow(share))) {
    expect_mc(share$mean[i], 0.5, share$mean_se[i], rownames(share)[i])
  }
})
