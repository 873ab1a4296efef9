#' Plot a result of smc_sample()
#'
#' How the stages went, or histograms of the particles, by base graphics.
#'
#' @param x A result of [smc_sample()].
#' @param type `"stages"`: inverse temperature, effective sample size before resampling, acceptance rate and number of
#'   moves by stage; `"hist"`: a histogram per parameter.
#' @param parameters Names or numbers of the parameters; `NULL`: the first six. Only for histograms.
#' @param ... Not used.
#' @return `x`, invisibly, and the plot is drawn.
#' @section Errors:
#' `fusedmc_error_input` where parameters are not there, or there is no stage to show.
#' @seealso [smc_sample()]
#' @export
#' @examples
#' target <- density_mixture(c(0.2, 0.8), means = rbind(c(-4, -4), c(4, 4)), sds = 0.5)
#' fit <- smc_sample(target, density_normal(c(0, 0), 5), n_particles = 1024, seed = 1)
#' plot(fit)
#' plot(fit, "hist")
plot.smc_draws <- function(x, type = c("stages", "hist"), parameters = NULL, ...) {
  type <- check_choice(if (missing(type)) "stages" else type, c("stages", "hist"), "type")
  n_dim <- length(x$parameters)
  dims <- seq_len(min(6, n_dim))
  if (!is.null(parameters)) {
    dims <- find_places(parameters, n_dim, x$parameters, "parameters")
  }
  if (type == "hist") {
    plot_particles(x, dims)
  } else {
    if (nrow(x$stages) == 0) {
      abort_input("x", "a result of one stage or more", x)
    }
    plot_stages(x$stages)
  }
  invisible(x)
}

plot_stages <- function(stages) {
  old <- graphics::par(mfrow = c(2, 2), mar = c(2.5, 2.5, 2, 0.5))
  on.exit(graphics::par(old))
  shown <- c(beta = "inverse temperature", ess = "ESS", acceptance = "acceptance rate", n_moves = "moves")
  for (what in names(shown)) {
    log <- if (what == "beta") "y" else ""
    y <- stages[[what]]
    limits <- if (what == "beta") range(y) else c(0, max(y, 1e-300))
    graphics::plot(stages$stage, y, type = "b", log = log, ylim = limits, main = shown[[what]], xlab = "", ylab = "")
  }
}

plot_particles <- function(fit, dims) {
  n_columns <- ceiling(sqrt(length(dims)))
  old <- graphics::par(mfrow = c(ceiling(length(dims) / n_columns), n_columns), mar = c(2.5, 2.5, 2, 0.5))
  on.exit(graphics::par(old))
  for (d in dims) {
    graphics::hist(fit$draws[, d], breaks = "FD", main = fit$parameters[d], xlab = "", ylab = "")
  }
}
