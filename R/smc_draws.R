# The result of smc_sample(): what it is made of, how it is shown.

# `now` is what run_stages() gives; particles stand in `draws` alone.
new_smc_draws <- function(fit, now, devices, seconds) {
  moving <- now$moving
  x <- if (is.null(moving)) now$x else moved_particles(moving)
  colnames(x) <- fit$parameters
  rows <- now$rows
  if (!is.null(moving)) {
    rows <- c(rows, list(stage_row(now)))
  }
  stages <- do.call(rbind, c(list(no_stages), rows))
  rownames(stages) <- NULL
  evidence <- pool_evidence(now$log_evidence)
  run <- new_run(devices)[c("backend", "devices")]
  run$seconds <- seconds
  fit <- list(
    draws = x, log_evidence = evidence$log_evidence, log_evidence_se = evidence$log_evidence_se,
    beta = if (is.null(moving)) now$beta else moving$beta, temperatures = c(0, stages$beta), stages = stages,
    islands = now$log_evidence, not_finite = count_bad_proposals(now, fit$settings), n_dropped = fit$n_dropped,
    settings = fit$settings, seed = fit$seed, target = fit$target, initial = fit$initial, parameters = fit$parameters,
    state = kept_state(now), run = run, version = as.character(utils::packageVersion("fusedmc"))
  )
  class(fit) <- "smc_draws"
  fit
}

# What a result keeps of `now` beside its own elements; restored_state() in smc_resume.R is the way back.
kept_state <- function(now) {
  for (half in seq_along(now$moving$parts)) {
    now$moving$parts[[half]]$run["x"] <- list(NULL)
  }
  now[c("log_target", "log_initial", "beta", "stage", "step", "proposals", "not_finite", "moving")]
}

#' Summaries of a result of smc_sample()
#'
#' Mean, standard deviation, quantiles and Monte Carlo standard error of each parameter.
#'
#' @param object,x A result of [smc_sample()] or [smc_resume()].
#' @param probs Probabilities of the quantiles: numbers from 0 to 1.
#' @param n_parameters How many parameters to print at most.
#' @param ... Not used.
#'
#' @details
#' Draws have equal weights. `mcse` is the standard deviation of the islands' means over the square root of the number
#' of islands, hence `NA` with one island; it has as many degrees of freedom as there are islands, less one. `ess` is
#' (sd / mcse)^2, capped at the number of particles; it is a rough number, as `mcse` is. Quantiles are R's type 7.
#'
#' A run that has not reached the target (`beta` below 1) is summarised as it is: at its temperature.
#' @return `summary()`: a data frame with a row per parameter: `variable`, `mean`, `sd`, `mcse`, a column per quantile
#'   (`q5`), `ess`. `print()`: `x`, invisibly. `vcov()`: the covariance matrix n_dim x n_dim of the draws.
#'   `as.matrix()`: the draws, n_particles x n_dim.
#' @section Errors:
#' `fusedmc_error_input` where `probs` are no probabilities.
#' @seealso [smc_sample()]
#' @export
#' @examples
#' target <- density_normal(c(a = 0, b = 5), c(1, 2))
#' fit <- smc_sample(target, density_normal(0, 10), n_particles = 1024, seed = 1)
#' summary(fit)
#' summary(fit, probs = c(0.25, 0.75))
#' vcov(fit)
summary.smc_draws <- function(object, probs = c(0.05, 0.5, 0.95), ...) {
  if (!qtest(probs, "N+[0,1]")) {
    abort_input("probs", "numbers from 0 to 1", probs)
  }
  summarise_particles(object, seq_along(object$parameters), probs)
}

summarise_particles <- function(fit, dims, probs) {
  n_islands <- fit$settings$n_islands
  n <- nrow(fit$draws)
  row <- function(d) {
    x <- fit$draws[, d]
    sd <- if (n > 1) stats::sd(x) else NA_real_
    mcse <- if (n_islands > 1) stats::sd(colMeans(matrix(x, ncol = n_islands))) / sqrt(n_islands) else NA_real_
    ess <- if (isTRUE(mcse > 0)) min(n, (sd / mcse)^2) else NA_real_
    c(mean(x), sd, mcse, stats::quantile(x, probs, names = FALSE), ess)
  }
  columns <- c("mean", "sd", "mcse", quantile_names(probs), "ess")
  rows <- unlist(lapply(dims, row))
  table <- matrix(rows, ncol = length(columns), byrow = TRUE, dimnames = list(NULL, columns))
  data.frame(variable = fit$parameters[dims], table, check.names = FALSE, stringsAsFactors = FALSE)
}

#' @rdname summary.smc_draws
#' @export
print.smc_draws <- function(x, n_parameters = 10, ...) {
  check_positive_whole(n_parameters, "n_parameters")
  settings <- x$settings
  n_dim <- ncol(x$draws)
  cat(sprintf(
    "<smc_draws> %s in %s, %s, %s\n", counted(settings$n_particles, "particle"), counted(settings$n_islands, "island"),
    counted(n_dim, "parameter"), counted(nrow(x$stages), "stage")
  ))
  if (x$beta < 1 || !is.null(x$state$moving)) {
    cat(sprintf("not finished: at inverse temperature %.3g of 1; smc_resume() goes on from there\n", x$beta))
  }
  cat(sprintf("log evidence: %.4f (standard error %.2g)\n", x$log_evidence, x$log_evidence_se))
  shown <- seq_len(min(n_dim, n_parameters))
  print(summarise_particles(x, shown, c(0.05, 0.5, 0.95)), digits = 3, row.names = FALSE)
  cat(if (n_dim > length(shown)) sprintf("... %d more\n", n_dim - length(shown)) else "")
  if (nrow(x$stages) > 0) {
    cat(sprintf(
      "%s; by stage: ESS from %.0f, accepted %.2g to %.2g, moved from %.2g\n",
      counted(sum(x$stages$n_moves), "move"), min(x$stages$ess), min(x$stages$acceptance), max(x$stages$acceptance),
      min(x$stages$moved)
    ))
  }
  n_bad <- x$not_finite[["n"]]
  if (n_bad > 0) {
    cat(sprintf("%s rejected with a log density of NaN or +Inf\n", counted(n_bad, "proposal")))
  }
  cat(sprintf(
    "target: %s\ninitial: %s\nseed: %s; %s precision; %s, %.3g s\n", format(x$target), format(x$initial),
    format(x$seed, scientific = FALSE), settings$precision, paste(x$run$backend, collapse = " and "), x$run$seconds
  ))
  invisible(x)
}

#' @rdname summary.smc_draws
#' @importFrom stats vcov
#' @export
vcov.smc_draws <- function(object, ...) {
  stats::cov(object$draws)
}

#' @rdname summary.smc_draws
#' @export
as.matrix.smc_draws <- function(x, ...) {
  x$draws
}
