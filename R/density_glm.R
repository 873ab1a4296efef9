#' Posterior of a regression
#'
#' The density of the coefficients of a generalised linear model given the data: binomial with logit link, Poisson with
#' log link, or Gaussian with identity link, under independent priors.
#'
#' @param formula,data A model formula and the data frame (or list, or environment) of its variables, as for
#'   [stats::glm()]. Columns of the model matrix become parameters, the intercept among them.
#' @param family [stats::binomial()] with the logit link, [stats::poisson()] with the log link or [stats::gaussian()]
#'   with the identity link: a family, its function or its name. Other families and links are errors.
#' @param x,y In place of `formula`: the model matrix, a numeric matrix n_obs x n_coef or a data frame of numbers, and
#'   the response. No intercept is added.
#' @param weights Case weights, n_obs numbers >= 0, or `NULL` for 1 each. They multiply the log likelihood of an
#'   observation; for a Gaussian response the variance is sigma^2 / weight; for a binomial response they are numbers of
#'   trials where the response is a proportion. An observation of weight 0 is left out. With `formula`, `weights`,
#'   `offset` and `subset` are looked up in `data` first.
#' @param offset Known part of the linear predictor, n_obs numbers, or `NULL`. Offsets in the formula are added.
#' @param subset Which observations to use; by default all.
#' @param na.action What is done about `NA`, as for [stats::glm()]: by default `getOption("na.action")`, which leaves
#'   rows with an `NA` out.
#' @param contrasts Contrasts of factors, as for [stats::glm()], or `NULL`. Only with `formula`.
#' @param sigma Standard deviation of a Gaussian response: a positive number where it is known, or `NULL` where it is a
#'   parameter, which then is log sigma, the last one.
#' @param prior_mean,prior_sd Location and scale of the prior of the coefficients, intercept included: one number for
#'   all, or n_coef numbers. Nothing is rescaled to the data, so mind the units of the columns. `prior_sd = Inf` is a
#'   flat prior: it contributes 0.
#' @param prior_df Degrees of freedom of the prior: a positive number for independent Student t priors, `Inf` (default)
#'   for normal ones.
#' @param prior_sigma Mean of the exponential prior of sigma, where sigma is a parameter: a positive number.
#'
#' @details
#' \deqn{\log p(b) = \sum_i w_i \log p(y_i \mid \eta_i) + \sum_j \log p(b_j), \quad
#'   \eta_i = \mathrm{offset}_i + \sum_j X_{ij} b_j}
#' with every constant of the likelihood and of the priors, so with proper priors it is the logarithm of the joint
#' density of data and parameters, unnormalised as a density of the parameters.
#'
#' The response follows the rules of [stats::glm()]. Binomial: a factor (the first level is failure, every other
#' success), a logical vector, numbers 0 and 1, proportions with `weights` the numbers of trials, or a matrix of two
#' columns, successes and failures. The numbers of successes and trials must be whole. Poisson: whole numbers >= 0.
#' Gaussian: finite numbers.
#'
#' Where sigma is a parameter, the density is that of s = log sigma, the last dim: sigma ~ exponential with mean
#' `prior_sigma`, times the Jacobian exp(s).
#'
#' A model matrix whose columns are linearly dependent is allowed with a proper prior, which then decides alone along
#' some directions. It is an error where the columns with a flat prior are dependent, for the posterior is improper.
#' Other reasons for an improper posterior, such as groups that are perfectly separated, are not looked for.
#'
#' @return A density, of class `fusedmc_density_glm`: a list with `n_dim`, `parameters` (their names, in the order of
#'   the columns of a matrix of states), `family`, `n_obs` (observations with a positive weight), `sigma` and `prior`.
#' @section Errors:
#' `fusedmc_error_input` where an argument breaks its rule, the formula and the data do not fit, the response does not
#' suit the family, the model matrix is not finite, no observation is left, or the posterior is improper.
#' @seealso [mh_step()], [is_weights()], [log_density()]
#' @export
#' @examples
#' density_glm(am ~ wt, mtcars, family = binomial())
#'
#' # counts, with a prior of heavier tails
#' post <- density_glm(count ~ spray, InsectSprays, family = poisson(), prior_df = 4)
#' post$parameters
#' mh_step(matrix(0, 4, post$n_dim), post, step_size = 0.1, seed = 1)
#'
#' # a model matrix, and sigma as the last parameter
#' density_glm(x = cbind(1, cars$speed), y = cars$dist, prior_sd = 100, prior_sigma = 20)
density_glm <- function(formula = NULL, data = NULL, family = stats::gaussian(), x = NULL, y = NULL, weights = NULL,
                        offset = NULL, subset, na.action, contrasts = NULL, sigma = NULL, # nolint: object_name_linter
                        prior_mean = 0, prior_sd = 2.5, prior_df = Inf, prior_sigma = 1) {
  family <- check_glm_family(family)
  check_glm_interface(formula, data, x, y, contrasts)
  if (is.null(x)) {
    model <- formula_model(match.call(), parent.frame(), contrasts)
  } else {
    options <- list(weights = weights, offset = offset)
    options$subset <- if (!missing(subset)) subset
    options$na.action <- if (!missing(na.action)) na.action
    model <- matrix_model(x, y, options)
  }
  model <- check_model(model)
  sigma <- check_sigma(sigma, family)
  log_sigma <- family == "gaussian" && is.null(sigma)
  prior <- check_glm_prior(prior_mean, prior_sd, prior_df, prior_sigma, model$x)

  parts <- switch(family,
    binomial = binomial_node(model),
    poisson = poisson_node(model),
    gaussian = gaussian_node(model, sigma)
  )
  new_density(
    "fusedmc_density_glm", ncol(model$x) + log_sigma,
    parameters = c(colnames(model$x), if (log_sigma) "log_sigma"), family = family, n_obs = parts$n_obs,
    sigma = sigma, prior = prior, node = with_glm_prior(parts, prior, log_sigma)
  )
}

glm_links <- c(binomial = "logit", poisson = "log", gaussian = "identity")

# The name of the family.
check_glm_family <- function(family) {
  rule <- "binomial() with the logit link, poisson() with the log link or gaussian() with the identity link"
  given <- family
  if (is.function(family)) {
    family <- tryCatch(family(), error = function(e) given)
  }
  if (qtest(family, "S1") && family %in% names(glm_links)) {
    return(family)
  }
  if (!inherits(family, "family")) {
    abort_input("family", rule, given)
  }
  if (!identical(unname(glm_links[family$family]), family$link)) {
    is <- sprintf("%s() with the %s link", family$family, family$link)
    abort("input", sprintf("`family` must be %s; it is %s.", rule, is), argument = "family")
  }
  family$family
}

check_sigma <- function(sigma, family) {
  if (is.null(sigma)) {
    return(NULL)
  }
  if (family != "gaussian") {
    abort_input("sigma", sprintf("NULL, as a %s response has no sigma", family), sigma)
  }
  check_positive(sigma, "sigma", "a positive finite number, or NULL where sigma is a parameter")
}

check_positive <- function(x, arg, rule) {
  if (!qtest(x, "N1()") || is.object(x) || x < smallest_sd) {
    abort_input(arg, rule, x)
  }
  as.double(x)
}

check_glm_prior <- function(mean, sd, df, sigma, x) {
  n_coef <- ncol(x)
  per_coef <- sprintf("%d of them (one per column of the model matrix)", n_coef)
  sd_rule <- paste("a positive number, Inf for a flat prior, or", per_coef)
  check_per_coef(mean, "N+()", -Inf, n_coef, "prior_mean", paste("a finite number, or", per_coef))
  check_per_coef(sd, "N+", smallest_sd, n_coef, "prior_sd", sd_rule)
  if (!qtest(df, "N1") || is.object(df) || df < smallest_sd) {
    abort_input("prior_df", "a positive number, or Inf for normal priors", df)
  }
  check_flat(x[, rep_len(sd, n_coef) == Inf, drop = FALSE])
  sigma <- check_positive(sigma, "prior_sigma", "a positive finite number, the mean of the prior of sigma")
  list(mean = as.double(mean), sd = as.double(sd), df = as.double(df), sigma = sigma)
}

check_per_coef <- function(x, type, lowest, n_coef, arg, rule) {
  if (!qtest(x, type) || is.object(x) || !is.null(dim(x)) || !length(x) %in% c(1, n_coef) || any(x < lowest)) {
    abort_input(arg, rule, x)
  }
}

# Columns with a flat prior must be linearly independent.
check_flat <- function(x) {
  if (ncol(x) == 0) {
    return(invisible())
  }
  decomposed <- qr(x)
  if (decomposed$rank < ncol(x)) {
    column <- colnames(x)[decomposed$pivot[decomposed$rank + 1]]
    rule <- sprintf(
      "finite for column \"%s\" of the model matrix, which depends linearly on other columns with a flat prior %s",
      column, "(the posterior is improper)"
    )
    abort_input("prior_sd", rule, Inf)
  }
}

#' @rdname fusedmc_density
#' @export
format.fusedmc_density_glm <- function(x, ...) {
  prior <- x$prior
  shape <- if (is.finite(prior$df)) sprintf("student_t(%s, ", format(prior$df, digits = 4)) else "normal("
  text <- if (all(prior$sd == Inf)) {
    "flat"
  } else {
    sprintf("%s%s, %s)", shape, format_numbers(prior$mean), format_numbers(prior$sd))
  }
  sigma <- if (x$family == "gaussian") {
    if (is.null(x$sigma)) {
      sprintf(", sigma exponential of mean %s", format(prior$sigma, digits = 4))
    } else {
      sprintf(", sigma %s", format(x$sigma, digits = 4))
    }
  }
  sprintf(
    "<density> %s-%s regression posterior: %s, %s, prior %s%s", x$family, glm_links[[x$family]],
    counted(x$n_dim, "parameter"), counted(x$n_obs, "observation"), text, if (is.null(sigma)) "" else sigma
  )
}

#' @export
density_nodes.fusedmc_density_glm <- function(density, n_dim) {
  list(density$node)
}
