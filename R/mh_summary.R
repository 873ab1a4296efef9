#' Summaries of a result of mh_sample()
#'
#' Mean, standard deviation, quantiles, R-hat, effective sample size and Monte Carlo standard error of each parameter.
#' All but the quantiles come from sums over every kept state, so they do not need stored draws.
#'
#' @param object,x A result of [mh_sample()] or [mh_resume()].
#' @param probs Probabilities of the quantiles: numbers from 0 to 1.
#' @param n_parameters How many parameters to print at most.
#' @param ... Not used.
#'
#' @details
#' With n kept states in each of m chains, chain means \eqn{\bar x_c} and variances \eqn{s_c^2} (over n - 1):
#'
#' * `sd` is the standard deviation of all m n kept states.
#' * `mcse`: with 20 chains or more, a chain is one batch: the standard deviation of the chain means over the square
#'   root of m, whatever the autocorrelation. With fewer, batch means: \eqn{\sqrt{b v / (m n)}} with v the variance of
#'   the means of all full batches of b states (`settings$batch`); b must be much longer than the states are correlated.
#' * `ess` is (sd / mcse)^2.
#' * `rhat`, where chains are grouped in superchains: nested R-hat, \eqn{\sqrt{1 + B / W}} with B the variance of the
#'   superchains' means, and W the average over superchains of the variance of the chain means within, plus the average
#'   variance within chains. It is about 1 + (variance of a superchain's mean) / (2 variance), so many short chains can
#'   pass. Else, where draws are stored, split R-hat: every chain cut in halves,
#'   \eqn{\sqrt{(n' - 1) / n' + B' / W'}} for halves of n' states. Else \eqn{\sqrt{(n - 1) / n + B / W}} of whole
#'   chains.
#' * Quantiles (R's type 7) are of all stored draws, else of the sample, else of the last states.
#'
#' R-hat is `NA` where nothing has moved at all, `Inf` where chains stay at different places, and `NA` below 5 kept
#' states unless superchains have several chains. A value that cannot be had is `NA`; nothing is made up.
#'
#' \pkg{posterior} has more: `posterior::summarise_draws(fit)`.
#'
#' @return `summary()`: a data frame with a row per parameter: `variable`, `mean`, `sd`, `mcse`, `min`, a column per
#'   quantile (`q5`), `max`, `rhat`, `ess`. `print()`: `x`, invisibly. `vcov()`: the covariance matrix n_dim x n_dim of
#'   the stored draws, else of the sample, else of the last states.
#' @section Errors:
#' `fusedmc_error_input` where `probs` are no probabilities.
#' @references
#' Margossian, Hoffman, Sountsov, Riou-Durand, Vehtari and Gelman (2024), Nested R-hat, *Bayesian Analysis*.
#'
#' Flegal and Jones (2010), Batch means and spectral variance estimators in Markov chain Monte Carlo, *The Annals of
#' Statistics* 38, 1034-1070.
#' @seealso [mh_sample()]
#' @export
#' @examples
#' fit <- mh_sample(
#'   density_normal(c(a = 0, b = 5), 1), c(a = 0, b = 5), n_chains = 64, n_steps = 500, seed = 1
#' )
#' summary(fit)
#' summary(fit, probs = c(0.25, 0.75))
#' vcov(fit)
summary.mh_draws <- function(object, probs = c(0.05, 0.5, 0.95), ...) {
  if (!qtest(probs, "N+[0,1]")) {
    abort_input("probs", "numbers from 0 to 1", probs)
  }
  summarise_dims(object, seq_along(object$parameters), probs)
}

summarise_dims <- function(fit, dims, probs) {
  states <- stored_states(fit)
  rows <- lapply(dims, function(d) summarise_dim(fit, d, states, probs))
  columns <- c("mean", "sd", "mcse", "min", quantile_names(probs), "max", "rhat", "ess")
  table <- matrix(unlist(rows), ncol = length(columns), byrow = TRUE, dimnames = list(NULL, columns))
  data.frame(variable = fit$parameters[dims], table, check.names = FALSE, stringsAsFactors = FALSE)
}

quantile_names <- function(probs) {
  paste0("q", vapply(100 * probs, format, "", digits = 7, trim = TRUE))
}

summarise_dim <- function(fit, d, states, probs) {
  moments <- chain_moments(fit$state, d)
  pooled <- pooled_moments(moments)
  mcse <- standard_error(moments)
  values <- as.vector(states[, , d])
  quantiles <- if (length(values) == 0 || anyNA(values)) {
    rep(NA_real_, length(probs))
  } else {
    stats::quantile(values, probs, names = FALSE)
  }
  range <- if (moments$n * length(moments$mean) == 0) c(NA, NA) else fit$state$range[d, ]
  ess <- if (isTRUE(mcse > 0)) (pooled$sd / mcse)^2 else NA
  c(pooled$mean, pooled$sd, mcse, range[1], quantiles, range[2], rhat_of(fit, d, moments), ess)
}

# Of one dim, a number per chain: mean and variance of the n kept states, and mean and sum of squares about it of the
# means of n_batches full batches; NA where there are too few.
chain_moments <- function(state, d) {
  n <- state$n_kept
  total <- state$sums[, d, "total"]
  all <- total + state$sums[, d, "batch"]
  squares <- state$sums[, d, "squares"]
  n_batches <- n %/% state$batch
  # the rounding of a sum of n terms; below it, nothing has moved
  about <- function(squares, sum, n) {
    left <- squares - sum^2 / n
    ifelse(left <= n * .Machine$double.eps * squares, 0, left)
  }
  none <- rep(NA_real_, length(all))
  list(
    n = n, mean = if (n > 0) state$shift[d] + all / n else none,
    variance = if (n > 1) about(squares, all, n) / (n - 1) else none,
    batch = state$batch, n_batches = n_batches,
    batch_mean = total / (n_batches * state$batch),
    batch_squares = about(state$sums[, d, "batch_squares"], total, n_batches) / state$batch^2
  )
}

pooled_moments <- function(moments) {
  m <- length(moments$mean)
  n <- moments$n
  if (m * n == 0) {
    return(list(mean = NA_real_, sd = NA_real_))
  }
  mean <- mean(moments$mean)
  within <- if (n > 1) (n - 1) * sum(moments$variance) else 0
  sd <- if (m * n > 1) sqrt((within + n * sum((moments$mean - mean)^2)) / (m * n - 1)) else NA_real_
  list(mean = mean, sd = if (is.nan(sd)) NA_real_ else sd)
}

# From this many chains on, chain means alone say how far the mean is off.
enough_chains <- 20

standard_error <- function(moments) {
  m <- length(moments$mean)
  error <- if (m >= enough_chains) stats::sd(moments$mean) / sqrt(m) else batch_error(moments)
  if (is.nan(error)) NA_real_ else error
}

batch_error <- function(moments) {
  a <- moments$n_batches
  m <- length(moments$mean)
  if (m * a < 2) {
    return(NA_real_)
  }
  means <- moments$batch_mean
  v <- (sum(moments$batch_squares) + a * sum((means - mean(means))^2)) / (m * a - 1)
  sqrt(v * moments$batch / (m * moments$n))
}

# ---- R-hat -----------------------------------------------------------------------------------

rhat_of <- function(fit, d, moments) {
  if (n_grouped(fit$superchain) > 1) {
    return(nested_rhat(moments, fit$superchain))
  }
  if (moments$n < 5 || length(moments$mean) == 0) {
    return(NA_real_)
  }
  if (is.null(fit$draws)) {
    return(classic_rhat(moments$mean, moments$variance, moments$n))
  }
  split_rhat(matrix(fit$draws[, , d], dim(fit$draws)[1]))
}

# Chains of each superchain; 1 where they have different numbers, which the formula does not know.
n_grouped <- function(superchain) {
  n <- unique(tabulate(match(superchain, unique(superchain))))
  if (length(n) == 1 && length(unique(superchain)) > 1) n else 1
}

nested_rhat <- function(moments, superchain) {
  m <- n_grouped(superchain)
  means <- matrix(moments$mean, m)
  centres <- colMeans(means)
  within_chains <- if (moments$n > 1) mean(moments$variance) else 0
  within <- sum((means - rep(centres, each = m))^2) / ((m - 1) * ncol(means)) + within_chains
  rhat_ratio(stats::var(centres), within, 1)
}

classic_rhat <- function(mean, variance, n) {
  if (length(mean) < 2) {
    return(NA_real_)
  }
  rhat_ratio(stats::var(mean), mean(variance), (n - 1) / n)
}

# x: n x n_chains. The middle state of an odd number is left out.
split_rhat <- function(x) {
  half <- nrow(x) %/% 2
  x <- cbind(x[seq_len(half), , drop = FALSE], x[nrow(x) - half + seq_len(half), , drop = FALSE])
  # relative to one of its states, so that a chain that stays has a variance of exactly 0
  first <- x[1, ]
  x <- x - rep(first, each = half)
  mean <- colMeans(x)
  classic_rhat(first + mean, colSums((x - rep(mean, each = half))^2) / (half - 1), half)
}

rhat_ratio <- function(between, within, base) {
  if (!is.finite(between) || !is.finite(within) || (between == 0 && within == 0)) {
    return(NA_real_)
  }
  sqrt(base + between / within)
}

# ---- methods ---------------------------------------------------------------------------------

#' @rdname summary.mh_draws
#' @export
print.mh_draws <- function(x, n_parameters = 10, ...) {
  check_positive_whole(n_parameters, "n_parameters")
  shape <- dim(x)
  settings <- x$settings
  n_groups <- length(unique(x$superchain))
  groups <- if (n_groups < shape[2]) sprintf(" in %s", counted(n_groups, "superchain")) else ""
  cat(sprintf(
    "<mh_draws> %s%s, %s each%s, %s\n", counted(shape[2], "chain"), groups, counted(shape[1], "kept state"),
    if (settings$keep == "draws") "" else " (only sums and a sample stored)", counted(shape[3], "parameter")
  ))
  cat(sprintf(
    "%s of warm-up, then %s%s%s\n", counted(settings$n_warmup, "step"), counted(shape[1] * settings$thin, "step"),
    if (settings$thin > 1) sprintf(", every %s kept", ordinal(settings$thin)) else "", format_acceptance(x$acceptance)
  ))
  shown <- seq_len(min(shape[3], n_parameters))
  if (shape[1] > 0 && shape[2] > 0) {
    print(summarise_dims(x, shown, c(0.05, 0.5, 0.95)), digits = 3, row.names = FALSE)
    cat(if (shape[3] > length(shown)) sprintf("... %d more\n", shape[3] - length(shown)) else "")
    cat(sprintf("rhat: %s; ess and mcse: %s\n", rhat_kind(x), if (shape[2] >= enough_chains) "chains" else "batches"))
  }
  n_bad <- x$state$not_finite[["n"]]
  if (n_bad > 0) {
    cat(sprintf("%s rejected with a log density of NaN or +Inf\n", counted(n_bad, "proposal")))
  }
  seconds <- x$run$seconds
  cat(sprintf(
    "target: %s\nseed: %s; %s precision; %s, %.3g s of warm-up and %.3g s of sampling\n", format(x$target),
    format(x$seed, scientific = FALSE), settings$precision, paste(x$run$backend, collapse = " and "),
    seconds[["warmup"]], seconds[["sampling"]]
  ))
  invisible(x)
}

format_acceptance <- function(rates) {
  if (length(rates) == 0 || anyNA(rates)) {
    return("")
  }
  sprintf("; accepted %.3g (%.3g to %.3g by chain)", mean(rates), min(rates), max(rates))
}

rhat_kind <- function(fit) {
  if (n_grouped(fit$superchain) > 1) "nested" else if (is.null(fit$draws)) "whole chains" else "split chains"
}

ordinal <- function(n) {
  last <- n %% 10
  ending <- if (n %% 100 %in% 11:13 || !last %in% 1:3) "th" else c("st", "nd", "rd")[last]
  paste0(format(n, scientific = FALSE), ending)
}

#' @rdname summary.mh_draws
#' @importFrom stats vcov
#' @export
vcov.mh_draws <- function(object, ...) {
  states <- stored_states(object)
  n_dim <- length(object$parameters)
  n_states <- length(states) / n_dim
  covariance <- if (n_states > 1) stats::cov(matrix(states, ncol = n_dim)) else matrix(NA_real_, n_dim, n_dim)
  dimnames(covariance) <- list(object$parameters, object$parameters)
  covariance
}
