# The oracle of density_glm(): the posterior of a regression in plain R, one observation at a time.

# x: model matrix. y: numbers, or for binomial a matrix (successes, failures). weights: case weights.
# The result has log_density(b, precision) and scale(b): the sum of the absolute values of all terms, which is what
# rounding errors are relative to; for single precision also eta's own terms, times how much they move the density.
oracle_glm <- function(x, y, family, weights = 1, offset = 0, sigma = NULL, prior_mean = 0, prior_sd = 2.5,
                       prior_df = Inf, prior_sigma = 1) {
  n <- nrow(x)
  p <- ncol(x)
  weights <- rep_len(weights, n)
  offset <- rep_len(offset, n)
  prior_mean <- rep_len(prior_mean, p)
  prior_sd <- rep_len(prior_sd, p)
  at <- function(b) {
    eta <- as.vector(offset + x %*% b[1:p])
    s <- if (!is.null(sigma)) sigma else if (length(b) > p) exp(b[p + 1])
    likelihood <- switch(family,
      binomial = weights * (y[, 1] * plogis(eta, log.p = TRUE) + y[, 2] * plogis(-eta, log.p = TRUE) +
        lchoose(y[, 1] + y[, 2], y[, 1])),
      poisson = weights * (ifelse(y == 0, 0, y * eta) - exp(eta) - lfactorial(y)),
      gaussian = dnorm(y, eta, s / sqrt(weights), log = TRUE)
    )
    z <- (b[1:p] - prior_mean) / prior_sd
    prior <- (if (prior_df == Inf) dnorm(z, log = TRUE) else dt(z, prior_df, log = TRUE)) - log(prior_sd)
    prior[prior_sd == Inf] <- 0
    if (family == "gaussian" && is.null(sigma)) {
      prior <- c(prior, dexp(s, 1 / prior_sigma, log = TRUE), b[p + 1])
    }
    slope <- switch(family,
      binomial = weights * (y[, 1] + y[, 2]),
      poisson = weights * (y + exp(eta)),
      gaussian = weights * abs(y - eta) / s^2
    )
    parts <- switch(family,
      binomial = abs(likelihood) + weights * lchoose(y[, 1] + y[, 2], y[, 1]),
      poisson = weights * (abs(y * eta) + exp(eta) + lfactorial(y)),
      gaussian = abs(likelihood) + weights * y^2 / s^2
    )
    list(
      value = sum(likelihood) + sum(prior), terms = sum(parts) + sum(abs(prior)),
      moved = sum(slope * (abs(offset) + abs(x) %*% abs(b[1:p])))
    )
  }
  each <- function(b, what) apply(b, 1, function(row) at(row)[[what]])
  list(
    log_density = function(x, precision = "double") each(round_to(x, precision), "value"),
    scale = function(b) each(b, "terms"),
    # Errors of eta are at most (p + 2) roundings of its terms; what follows takes a few more of each term.
    single_bound = function(b) (p + 8) * 2^-24 * (1 + each(b, "terms") + each(b, "moved"))
  )
}

# A regression by name, as density_glm() and as the oracle take it, from numbers that are the same everywhere. n_obs
# observations and p coefficients; `weighted` has case weights or more than one trial, `shifted` an offset.
glm_case <- function(kind, n_obs, p, weighted = FALSE, shifted = FALSE, prior_df = Inf, salt = 1) {
  x <- grid_matrix(n_obs, p, 901 + salt)
  u <- grid_uniform(n_obs, 930 + salt)
  weights <- if (weighted) 1 + floor(4 * grid_uniform(n_obs, 950 + salt)) / 2
  offset <- if (shifted) grid_values(n_obs, 970 + salt)
  prior <- list(prior_mean = grid_values(p, 980 + salt), prior_sd = grid_uniform(p, 985 + salt) * 4 + 0.5)
  prior$prior_df <- prior_df
  if (kind == "binomial") {
    trials <- if (weighted) floor(8 * grid_uniform(n_obs, 990 + salt)) + 1 else rep(1, n_obs)
    y <- cbind(floor(u * (trials + 1)), trials - floor(u * (trials + 1)))
  } else {
    y <- if (kind == "poisson") floor(9 * u) else 4 * u
  }
  given <- list(x = x, y = if (kind == "binomial" && !weighted) y[, 1] else y, family = sub("_.*", "", kind))
  oracle <- list(x = x, y = y, family = given$family)
  known <- if (kind == "gaussian_known") list(sigma = 0.75)
  sampled <- if (kind == "gaussian") list(prior_sigma = 1.5)
  common <- c(list(weights = weights, offset = offset), known, sampled, prior)
  common <- common[!vapply(common, is.null, NA)]
  list(
    density = do.call(density_glm, c(given, common)), oracle = do.call(oracle_glm, c(oracle, common)),
    n_dim = p + (kind == "gaussian")
  )
}

glm_kinds <- c("binomial", "poisson", "gaussian", "gaussian_known")

# Points around 0, some of them far out.
glm_points <- function(n_dim, n = 12, salt = 5) {
  b <- grid_matrix(n, n_dim, 700 + salt) / 2
  b * rep_len(c(1, 0.1, 3, 1), n)
}
