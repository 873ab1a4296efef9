#' Plot a result of mh_sample()
#'
#' Traces, densities or ranks of stored draws, by \pkg{bayesplot} where it is installed, else by base graphics.
#'
#' @param x A result of [mh_sample()].
#' @param type `"trace"`: states of some chains in their order; `"density"`: density estimates by chain; `"rank"`:
#'   histograms of ranks by chain, which are flat where chains agree.
#' @param parameters Names or numbers of the parameters; `NULL`: the first six.
#' @param n_chains How many chains to show at most; they are spread evenly over all.
#' @param ... Not used.
#' @details With `keep = "summary"` the sample is shown, and a message says so.
#' @return A ggplot where \pkg{bayesplot} is installed; else `x`, invisibly, and the plot is drawn.
#' @section Errors:
#' `fusedmc_error_input` where parameters are not there, or nothing is stored.
#' @seealso [mh_sample()]
#' @export
#' @examples
#' fit <- mh_sample(
#'   density_normal(c(a = 0, b = 5), 1), c(a = 0, b = 5), n_chains = 4, n_steps = 200, seed = 1
#' )
#' plot(fit)
#' plot(fit, "density", parameters = "b")
plot.mh_draws <- function(x, type = c("trace", "density", "rank"), parameters = NULL, n_chains = 8, ...) {
  type <- check_choice(if (missing(type)) "trace" else type, c("trace", "density", "rank"), "type")
  n_chains <- check_positive_whole(n_chains, "n_chains")
  n_dim <- length(x$parameters)
  dims <- seq_len(min(6, n_dim))
  if (!is.null(parameters)) {
    dims <- find_places(parameters, n_dim, x$parameters, "parameters")
  }
  states <- told_states(x)
  if (length(states) == 0) {
    abort_input("x", "a result with kept states", x)
  }
  states <- states[, spread_places(dim(states)[2], n_chains), dims, drop = FALSE]
  if (requireNamespace("bayesplot", quietly = TRUE)) {
    return(draw_bayesplot(named_for_bayesplot(states), type))
  }
  draw_base(states, type)
  invisible(x)
}

# Overlays and ranks compare chains; one alone gets a density and a histogram.
draw_bayesplot <- function(states, type) {
  one <- dim(states)[2] == 1
  draw <- switch(type,
    trace = bayesplot::mcmc_trace,
    density = if (one) bayesplot::mcmc_dens else bayesplot::mcmc_dens_overlay,
    rank = if (one) bayesplot::mcmc_hist else bayesplot::mcmc_rank_hist
  )
  draw(states)
}

named_for_bayesplot <- function(states) {
  names <- list(Iteration = NULL, Chain = paste0("chain:", seq_len(dim(states)[2])), Parameter = dimnames(states)[[3]])
  dimnames(states) <- names
  states
}

# At most `most` of n places, evenly.
spread_places <- function(n, most) {
  if (n <= most) seq_len(n) else 1 + ((seq_len(most) - 1) * n) %/% most
}

draw_base <- function(states, type) {
  n_dim <- dim(states)[3]
  n_columns <- if (type == "rank") dim(states)[2] else ceiling(sqrt(n_dim))
  n_rows <- if (type == "rank") n_dim else ceiling(n_dim / n_columns)
  old <- graphics::par(mfrow = c(n_rows, n_columns), mar = c(2.5, 2.5, 2, 0.5))
  on.exit(graphics::par(old))
  draw <- switch(type, trace = base_trace, density = base_density, rank = base_rank)
  for (d in seq_len(n_dim)) {
    draw(matrix(states[, , d], dim(states)[1]), dimnames(states)[[3]][d])
  }
}

base_trace <- function(x, title) {
  graphics::matplot(x, type = "l", lty = 1, main = title, xlab = "", ylab = "")
}

base_density <- function(x, title) {
  curves <- lapply(seq_len(ncol(x)), function(i) stats::density(x[, i]))
  x_range <- range(unlist(lapply(curves, `[[`, "x")))
  y_range <- c(0, max(unlist(lapply(curves, `[[`, "y"))))
  graphics::plot(NA, xlim = x_range, ylim = y_range, main = title, xlab = "", ylab = "")
  for (i in seq_along(curves)) {
    graphics::lines(curves[[i]], col = i)
  }
}

base_rank <- function(x, title) {
  ranks <- matrix(rank(x), nrow(x))
  breaks <- seq(0, length(x), length.out = 21)
  for (i in seq_len(ncol(x))) {
    graphics::hist(ranks[, i], breaks = breaks, main = paste(title, "chain", i), xlab = "", ylab = "")
  }
}
