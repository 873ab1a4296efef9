# From a model, see density_glm_model.R, to the node that C takes, see src/core/glm.h. Each family gives list(family, x
# (an observation's coefficients side by side), y, w, offset, constants (terms of the log density without b), n_obs,
# ns (of one observation without its eta)).

glm_flags <- c(logit_unit = 0L, logit_weighted = 1L, poisson = 2L, gaussian = 3L, t_prior = 4L, log_sigma = 8L)

half_log_two_pi <- 0x1.d67f1c864beb5p-1

# The log likelihood is -log(1 + exp(-eta)) for a success and -log(1 + exp(eta)) for a failure: rows of successes have
# their sign turned. Where all are single trials a row is an observation; else successes come first, then failures, and
# their numbers are the weights.
binomial_node <- function(model) {
  counts <- binomial_counts(model)
  successes <- counts$successes
  failures <- counts$failures
  if (all(successes == 0 & failures == 0)) {
    abort("input", "The response must have at least one trial; it has none.", argument = response_argument(model))
  }
  unit <- all((successes == 1 & failures == 0) | (successes == 0 & failures == 1))
  if (unit) {
    rows <- seq_along(successes)
    sign <- failures - successes
  } else {
    rows <- c(which(successes > 0), which(failures > 0))
    sign <- rep(c(-1, 1), c(sum(successes > 0), sum(failures > 0)))
  }
  list(
    family = if (unit) "logit_unit" else "logit_weighted", x = t(sign * model$x[rows, , drop = FALSE]),
    w = if (!unit) c(successes[successes > 0], failures[failures > 0]),
    offset = if (!is.null(model$offset)) sign * model$offset[rows], constants = counts$constants,
    n_obs = sum(successes + failures > 0), ns = if (unit) 1 else 3
  )
}

# list(successes, failures, constants): numbers by observation, multiplied by case weights.
binomial_counts <- function(model) {
  y <- model$y
  weights <- weights_of(model)
  rule <- paste(
    "a factor, logical, from 0 to 1, or a matrix of two columns of counts (successes, failures)", "where it is binomial"
  )
  if (is.matrix(y) && ncol(y) == 2 && is.numeric(y)) {
    check_response(is.finite(y) & y >= 0 & y == round(y), rule, model)
    counts <- unname(y)
    constants <- weights * log_choose(counts[, 1] + counts[, 2], counts[, 1])
    return(list(successes = weights * counts[, 1], failures = weights * counts[, 2], constants = constants))
  }
  y <- if (is.factor(y)) as.double(y != levels(y)[1]) else response_numbers(model, rule)
  check_response(is.finite(y) & y >= 0 & y <= 1, rule, model)
  part <- y != 0 & y != 1
  successes <- weights * y
  rule <- "0 or 1 where it is binomial, or a proportion of whole numbers of successes and trials (the weight)"
  check_response(!part | (weights == round(weights) & abs(successes - round(successes)) <= 1e-3), rule, model)
  successes[part] <- round(successes[part])
  constants <- log_choose(weights[part], successes[part])
  list(successes = successes, failures = weights - successes, constants = constants)
}

log_choose <- function(n, k) {
  core_math("lgamma", n + 1) - core_math("lgamma", k + 1) - core_math("lgamma", n - k + 1)
}

poisson_node <- function(model) {
  rule <- "a whole number >= 0 where it is Poisson"
  y <- response_numbers(model, rule)
  check_response(is.finite(y) & y >= 0 & y == round(y), rule, model)
  weights <- weights_of(model)
  list(
    family = "poisson", x = t(model$x), y = weights * y, w = if (any(weights != 1)) weights, offset = model$offset,
    constants = -weights * core_math("lgamma", y + 1), n_obs = length(y), ns = 2
  )
}

# Weights, and sigma where it is known, go into the rows.
gaussian_node <- function(model, sigma) {
  rule <- "a finite number where it is Gaussian"
  y <- response_numbers(model, rule)
  check_response(is.finite(y), rule, model)
  weights <- weights_of(model)
  known <- if (is.null(sigma)) 1 else sigma
  scale <- sqrt(weights) / known
  node <- list(
    family = "gaussian", x = t(scale * model$x), y = scale * y,
    offset = if (!is.null(model$offset)) scale * model$offset,
    constants = 0.5 * core_math("log", weights) - core_math("log", known) - half_log_two_pi, n_obs = length(y), ns = 0.5
  )
  if (!all(is.finite(node$x), is.finite(node$y), is.finite(node$offset))) {
    abort_input("sigma", "large enough for the data divided by it to be finite", sigma)
  }
  node
}

weights_of <- function(model) {
  if (is.null(model$weights)) rep(1, nrow(model$x)) else model$weights
}

response_numbers <- function(model, rule) {
  y <- model$y
  if (inherits(y, "AsIs")) {
    y <- unclass(y)
  }
  if (!is_numbers(y) || NCOL(y) != 1) {
    message <- sprintf("The response must be %s; it is %s.", rule, describe(y))
    abort("input", message, argument = response_argument(model))
  }
  as.double(y)
}

# `good` is TRUE where the response keeps the rule: by observation, or in the shape of a matrix.
check_response <- function(good, rule, model) {
  good <- if (is.matrix(good)) rowSums(!good) == 0 else good
  if (all(good)) {
    return(invisible())
  }
  row <- which(!good)[1]
  value <- if (is.matrix(model$y)) unname(model$y[row, ]) else unname(model$y[row])
  value <- if (is.factor(value)) as.character(value) else value
  message <- sprintf("The response must be %s; in row %s it is %s.", rule, model$rows[row], describe(value))
  abort("input", message, argument = response_argument(model))
}

response_argument <- function(model) {
  if (model$argument == "x") "y" else "formula"
}

# The finished node: with the prior of the coefficients and, where it is a parameter, of sigma.
with_glm_prior <- function(parts, prior, log_sigma) {
  n_coef <- nrow(parts$x)
  mean <- rep_len(prior$mean, n_coef)
  sd <- rep_len(prior$sd, n_coef)
  proper <- sd < Inf
  mean[!proper] <- 0
  t_prior <- any(proper) && prior$df < Inf
  constants <- -core_math("log", sd[proper]) - half_log_two_pi
  if (t_prior) {
    constants <- constants + core_lgamma_ratio(prior$df / 2, 0.5)
  }
  constants <- c(parts$constants, constants, if (log_sigma) -core_math("log", prior$sigma))
  numbers <- c(
    core_sum(constants), if (t_prior) c(prior$df, core_math("log", prior$df)) else c(0, 0),
    if (log_sigma) c(1 / prior$sigma, parts$n_obs - 1) else c(0, 0)
  )
  flags <- glm_flags[c(parts$family, if (t_prior) "t_prior", if (log_sigma) "log_sigma")]
  arrays <- list(
    x = as.vector(parts$x), y = parts$y, w = parts$w, offset = parts$offset,
    prior_mean = if (any(proper)) mean, prior_inv_sd = if (any(proper)) 1 / sd
  )
  count <- ncol(parts$x)
  ns <- count * (parts$ns + 0.06 * n_coef)
  node("glm", count, flags = sum(flags), numbers = numbers, arrays = arrays, ns = ns)
}
