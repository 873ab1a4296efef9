# Densities of every kind from inputs that are the same doubles everywhere, for the tests that compare bits.

# A positive definite matrix of grid values: L L' with a small lower triangle.
case_covariance <- function(d, salt = 31) {
  lower <- case_factor(d, salt)
  lower %*% t(lower)
}

case_factor <- function(d, salt = 31) {
  lower <- grid_matrix(d, d, salt) / (4 * sqrt(d))
  lower[upper.tri(lower)] <- 0
  diag(lower) <- 1 + abs(diag(lower))
  lower
}

# A regression with d coefficients.
case_glm <- function(family, d, n_obs, salt = 41, ...) {
  x <- grid_matrix(n_obs, d, salt) / sqrt(d)
  eta <- grid_values(n_obs, salt + 1)
  y <- switch(family,
    binomial = as.double(eta > 0),
    poisson = floor(eta + 2),
    gaussian = eta
  )
  density_glm(x = x, y = y, family = family, ...)
}

# Densities in d dims by name; kinds that need more than one dim leave one out.
density_cases <- function(d, n_obs = 100) {
  mean <- as.vector(case_means(1, d))
  scale <- as.vector(case_sds(1, d))
  normal <- density_normal(mean, scale)
  t4 <- density_student_t(4, mean, scale)
  full <- density_mvnormal(mean, chol = case_factor(d))
  offset <- grid_values(n_obs, 51) / 4
  trials <- floor(grid_values(n_obs, 52) + 3)
  cases <- list(
    normal = normal,
    mixture = case_target("mixture3", d)$density,
    mvnormal = full,
    student_t = t4,
    student_t_full = density_student_t(2.5, mean, case_covariance(d)),
    student_t_huge = density_student_t(1e17, mean, scale),
    mixture_full = density_mixture(c(1, 2, 1), rbind(mean, -mean, 0 * mean), chols = list(
      case_factor(d), case_factor(d, 32), diag(d)
    )),
    mixture_any = density_mixture(c(1, 2, 3), components = list(normal, t4, full)),
    logit = case_glm("binomial", d, n_obs),
    logit_trials = density_glm(
      x = grid_matrix(n_obs, d, 53) / sqrt(d), y = cbind(pmin(trials, 2), trials - pmin(trials, 2)),
      family = binomial(), offset = offset, prior_df = 3
    ),
    poisson = case_glm("poisson", d, n_obs, offset = offset),
    gaussian = case_glm("gaussian", d, n_obs, sigma = 1.5, weights = trials),
    product = density_product(normal, density_tempered(t4, 0.25)),
    tempered = density_tempered(case_glm("binomial", d, n_obs), 0.5),
    nested = density_tempered(density_product(full, density_mixture(c(1, 1), components = list(
      density_tempered(t4, 2), case_glm("poisson", d, n_obs)
    ))), 0.75)
  )
  if (d > 1) {
    cases$gaussian_sampled <- case_glm("gaussian", d - 1, n_obs, prior_df = 5)
  }
  cases
}

# Everything that is computed of a density.
run_density_case <- function(density, d, precision, backend, n = 71) {
  x <- grid_matrix(n, d, 61)
  step <- function(...) unclass(mh_step(x, density, ..., seed = 7, precision = precision, backend = backend))
  suppressWarnings(list(
    step = step(0.3), given = step(0.3, noise = grid_matrix(n, d, 62), u = grid_uniform(n, 63)),
    cholesky = if (d <= 130) step(case_step("lower", d)),
    weights = unclass(is_weights(x, density, precision = precision, backend = backend)),
    reversed = unclass(is_weights(x, density_normal(0, 2), density, precision = precision, backend = backend)),
    log_density = log_density(density, x, precision = precision, backend = backend)
  ))
}

density_case_labels <- function(d, n_obs, run_one, run_other) {
  cases <- density_cases(d, n_obs)
  failed <- character()
  for (name in names(cases)) {
    for (precision in case_precisions) {
      if (!same_bits(run_one(cases[[name]], precision), run_other(cases[[name]], precision))) {
        failed <- c(failed, paste(name, d, n_obs, precision))
      }
    }
  }
  failed
}
