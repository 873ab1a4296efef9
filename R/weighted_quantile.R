#' Weighted quantiles
#'
#' Quantiles of weighted numbers: the inverse of their weighted distribution function.
#'
#' @param x N numbers. What has weight zero may be anything.
#' @param probs Probabilities: numbers from 0 to 1.
#' @param log_weights N log weights, natural log, of any constant shift. `-Inf` is weight zero.
#' @param weights N weights in place of `log_weights`: finite, not negative, of any constant factor. Without either all
#'   weights are the same.
#'
#' @details
#' The quantile of p is the smallest of the x with a positive weight such that these and all smaller ones carry a share
#' of at least p of the weights; nothing is interpolated. Numbers of weight zero change nothing, and neither does a
#' common factor of the weights: a share that lies within 1e-12 of p counts as p.
#'
#' @return A number per probability, all of them from `x`; `NA` where all weights are zero or there are none.
#' @section Errors:
#' `fusedmc_error_input` for arguments of the wrong type, length or range, and where a number with a positive weight is
#' `NA`.
#' @seealso [summary.is_draws()]
#' @export
#' @examples
#' weighted_quantile(1:5, c(0, 0.5, 1), weights = c(0, 1, 2, 1, 0))
#' is <- importance_sample(
#'   density_normal(0, 1), density_normal(0, 2), 1e4, n_dim = 1, keep = "draws", seed = 1
#' )
#' weighted_quantile(is$draws, c(0.025, 0.975), log_weights = is$log_weights)
weighted_quantile <- function(x, probs = c(0.05, 0.5, 0.95), log_weights = NULL, weights = NULL) {
  if (!is_numbers(x) || is.object(x)) {
    abort_input("x", "a numeric vector", x)
  }
  if (!qtest(probs, "N+[0,1]")) {
    abort_input("probs", "numbers from 0 to 1", probs)
  }
  if (!is.null(log_weights) && !is.null(weights)) {
    abort_input("weights", "NULL where `log_weights` is given", weights)
  }
  weights <- if (is.null(log_weights)) {
    check_quantile_weights(if (is.null(weights)) rep(1, length(x)) else weights, length(x))
  } else {
    check_quantile_log_weights(log_weights, length(x))
  }
  if (anyNA(x[weights > 0])) {
    abort_input("x", "numbers that are not NA where the weight is positive", x)
  }
  quantile_of(as.double(x), as.double(probs), weights)
}

check_quantile_weights <- function(weights, n) {
  if (!qtest(weights, "N*[0,)") || is.object(weights) || length(weights) != n) {
    abort_input("weights", sprintf("%s, finite and not negative, one per entry of `x`", counted(n, "number")), weights)
  }
  as.double(weights)
}

check_quantile_log_weights <- function(log_weights, n) {
  good <- is.numeric(log_weights) && !is.object(log_weights) && length(log_weights) == n
  if (!good || anyNA(log_weights) || any(log_weights == Inf)) {
    rule <- sprintf("%s below Inf, one per entry of `x`", counted(n, "number"))
    abort_input("log_weights", rule, log_weights)
  }
  top <- max(log_weights, -Inf)
  if (top == -Inf) numeric(n) else exp(as.double(log_weights) - top)
}

# Weights are not negative and not NA.
quantile_of <- function(x, probs, weights) {
  used <- which(weights > 0)
  if (length(used) == 0) {
    return(rep(NA_real_, length(probs)))
  }
  used <- used[order(x[used])]
  # relative to the largest, so that nothing overflows
  reached <- cumsum(weights[used] / max(weights))
  wanted <- probs * reached[length(reached)] * (1 - 1e-12)
  at <- findInterval(wanted, reached, left.open = TRUE) + 1
  at[probs == 1] <- length(used)
  x[used][at]
}
