#' Plot a result of importance sampling
#'
#' The largest weights beside a Pareto distribution, or a histogram of log weights, by base graphics.
#'
#' @param x A result of [importance_sample()], [is_summary()] or [is_merge()].
#' @param type `"tail"`: for the largest weights that are kept, relative to the largest of all, the share of samples
#'   with a weight at least as large, both on log scales; the line is the fitted Pareto distribution, whose slope far
#'   out is -1 / `pareto_k` where that is positive. `"weights"`: a histogram of the log weights, `-Inf` left out, which
#'   needs `keep = "draws"`.
#' @param ... Not used.
#' @return `x`, invisibly.
#' @section Errors:
#' `fusedmc_error_input` where the result does not hold what is to be shown.
#' @seealso [summary.is_draws()]
#' @export
#' @examples
#' is <- importance_sample(
#'   density_normal(0, 1), density_normal(0, 0.7), 1e4, n_dim = 1, keep = "draws", seed = 1
#' )
#' plot(is)
#' plot(is, "weights")
plot.is_draws <- function(x, type = c("tail", "weights"), ...) {
  type <- check_choice(if (missing(type)) "tail" else type, c("tail", "weights"), "type")
  if (type == "tail") plot_tail(x) else plot_log_weights(x)
  invisible(x)
}

plot_tail <- function(x) {
  tail <- x$sums$tail
  if (length(tail) == 0) {
    message <- "`x` must hold the largest log weights: of weights that are not zero, with `n_tail` above 0."
    abort("input", message, argument = "x")
  }
  shown <- tail[seq_len(max(1, min(length(tail), 2 * tail_length(x$n, length(tail)))))]
  log10_weight <- (shown - tail[1]) / log(10)
  graphics::plot(
    log10_weight, log10(seq_along(shown) / x$n),
    pch = 20, cex = 0.5, xlab = "log10 weight (the largest: 0)", ylab = "log10 share of samples",
    main = sprintf("Pareto k %s", if (is.na(x$pareto_k)) "not computed" else sprintf("%.2f", x$pareto_k))
  )
  fit <- pareto_fit(tail, x$n)
  if (!is.null(fit) && is.finite(fit$k)) {
    length <- tail_length(x$n, length(tail))
    beyond <- exp(seq(0, -log(length), length.out = 100)) # share of the tail
    excess <- if (fit$k == 0) -fit$sigma * log(beyond) else fit$sigma * expm1(-fit$k * log(beyond)) / fit$k
    threshold <- exp(tail[length + 1] - tail[1])
    graphics::lines(log10(threshold + excess), log10(beyond * length / x$n))
  }
}

plot_log_weights <- function(x) {
  known <- x$log_weights[is.finite(x$log_weights)]
  if (length(known) == 0) {
    abort("input", "`x` must hold log weights that are finite: make it with keep = \"draws\".", argument = "x")
  }
  graphics::hist(known, breaks = "FD", main = "", xlab = "log weight", ylab = "samples")
}
