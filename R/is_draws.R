# The result of importance_sample(), is_summary() and is_merge(): all that follows from the sums of a range of samples.

# `plan` says what the samples are (see is_run.R), of stored ones with NULL for what is not known; `part` what came out
# of those from number `offset` on.
new_is_draws <- function(plan, offset, part) {
  settings <- plan$settings
  total <- total_of(part$nodes, plan$n_dim)
  moments <- moments_of_total(total, plan)
  fit <- list(draws = part$draws, log_weights = part$log_weights)
  if (!is.null(fit$draws)) {
    dimnames(fit$draws) <- list(NULL, plan$parameters)
  }
  structure(
    c(
      list(draws = fit$draws, log_weights = fit$log_weights),
      moments, weight_diagnostics(total, part$tail),
      list(
        n = total$n, n_zero = total$n_zero, n_bad = total$n_bad, first_bad = part$first_bad, seed = plan$seed,
        offset = offset, target = plan$target, proposal = plan$proposal, parameters = plan$parameters,
        settings = settings, sums = list(nodes = part$nodes, tail = part$tail, shift = plan$shift), run = NULL,
        version = as.character(utils::packageVersion("fusedmc"))
      )
    ),
    class = "is_draws"
  )
}

# All nodes joined: list(n, n_bad, n_zero, max, sum, sum_squares, sum_x, second).
total_of <- function(nodes, n_dim) {
  total <- total_nodes(nodes)
  columns <- c(total$sum_x, total$second)
  total$sum_x <- columns[seq_len(n_dim)]
  total$second <- columns[-seq_len(n_dim)]
  total
}

# Weighted mean, sd and covariance. Second moments are about the shift.
moments_of_total <- function(total, plan) {
  n_dim <- plan$n_dim
  names <- plan$parameters
  known <- total$sum > 0
  mean <- if (known) total$sum_x / total$sum else rep(NA_real_, n_dim)
  away <- mean - plan$shift
  second <- if (known) total$second / total$sum else rep(NA_real_, length(total$second))
  cov <- NULL
  variance <- if (plan$settings$covariance) {
    cov <- from_packed_rows(second, n_dim) - away %o% away
    diag_of(cov)
  } else {
    second - away^2
  }
  # a difference below its rounding may be negative
  variance <- pmax(variance, 0)
  if (!is.null(cov)) {
    cov[cbind(seq_len(n_dim), seq_len(n_dim))] <- variance
    dimnames(cov) <- list(names, names)
  }
  list(mean = stats::setNames(mean, names), sd = stats::setNames(sqrt(variance), names), cov = cov)
}

# The symmetric matrix whose lower triangle has these rows, one after the other.
from_packed_rows <- function(packed, n_dim) {
  x <- matrix(0, n_dim, n_dim)
  x[upper.tri(x, diag = TRUE)] <- packed
  x[lower.tri(x)] <- t(x)[lower.tri(x)]
  x
}

new_is_run <- function(runs, workers, started) {
  list(
    backend = unique(vapply(runs, `[[`, "", 1)),
    devices = unlist(lapply(runs, function(run) if (run[[1]] == "cpu") "cpu" else run[[2]])),
    workers = if (is.null(workers)) 0 else workers, seconds = proc.time()[[3]] - started
  )
}

# ---- methods ---------------------------------------------------------------------------------

#' Summaries of importance sampling
#'
#' Moments, quantiles and diagnostics of what [importance_sample()], [is_summary()] or [is_merge()] gave, and what they
#' say.
#'
#' @param object,x A result of [importance_sample()], [is_summary()] or [is_merge()].
#' @param probs Probabilities of the quantiles: numbers from 0 to 1.
#' @param n_parameters How many parameters to print at most.
#' @param ... Not used.
#'
#' @details
#' * `mcse`, the standard error of the mean, is \eqn{\sqrt{\sum_i w_i^2 (x_i - m)^2}} with weights \eqn{w_i} that sum to
#'   1, so it needs draws with their weights: `NA` without them.
#' * Quantiles are those of [weighted_quantile()], of the draws: of all, or of the resampled ones, each with the same
#'   weight. `NA` without draws.
#' * ESS is Kish's, \eqn{1 / \sum_i w_i^2}: how many independent draws from the target itself would give about as good a
#'   mean of something that has little to do with the weights.
#' * Pareto k: the weights have finite moments of order below 1 / k. Below 0.5 their variance is finite, and standard
#'   errors say what they should. Up to 0.7 results can still be used, with more samples than a finite variance would
#'   call for. Above 0.7, or for few samples above 1 - 1 / log10(n), estimates and standard errors cannot be trusted,
#'   whatever the ESS: find a proposal with heavier tails, or nearer to the target ([adapt_proposal()]). A k below 0 is
#'   that of weights with an upper bound.
#'
#'   It is `Inf` where a few weights are so much larger than the others that no fit is possible.
#'
#'   k is fitted to the M largest weights, M = min(0.2 n, 3 sqrt(n)) rounded up, but at most `n_tail` - 1 and fewer
#'   than the positive weights, relative to the next largest: what `loo::psis()` reports.
#' * The share of the largest weight tells when a few samples carry the result.
#'
#' `log_mean_weight` and its standard error belong together only where Pareto k allows; the estimate of the log is then
#' biased by about - se^2 / 2.
#'
#' @return `summary()`: a data frame with a row per parameter: `variable`, `mean`, `sd`, `mcse` and a column per
#'   quantile (`q5`); its attribute `diagnostics` is a list of `n`, `n_zero`, `n_bad`, `ess`, `relative_efficiency`,
#'   `log_mean_weight`, `log_mean_weight_se`, `pareto_k` and `max_share`. `vcov()`: the covariance matrix n_dim x n_dim.
#'   `weights()`: n weights that sum to 1, `NA` where all are zero. `print()`: `x`, invisibly.
#' @section Errors:
#' `fusedmc_error_input` where `probs` are no probabilities, `vcov()` is asked of a result made without
#' `covariance = TRUE`, or `weights()` of one without log weights.
#' @references
#' Kish (1965), *Survey Sampling*, Wiley.
#'
#' Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, *Journal of Machine Learning
#' Research* 25 (72).
#' @seealso [importance_sample()], [weighted_quantile()]
#' @export
#' @examples
#' is <- importance_sample(
#'   density_normal(c(a = 0, b = 5), 1), density_normal(c(0, 4), 2), 1e4,
#'   keep = "draws", covariance = TRUE, seed = 1
#' )
#' summary(is)
#' attr(summary(is), "diagnostics")$pareto_k
#' vcov(is)
summary.is_draws <- function(object, probs = c(0.05, 0.5, 0.95), ...) {
  if (!qtest(probs, "N+[0,1]")) {
    abort_input("probs", "numbers from 0 to 1", probs)
  }
  what <- c(
    "n", "n_zero", "n_bad", "ess", "relative_efficiency", "log_mean_weight", "log_mean_weight_se", "pareto_k",
    "max_share"
  )
  structure(
    summarise_weighted(object, seq_along(object$parameters), probs),
    diagnostics = unclass(object)[what]
  )
}

summarise_weighted <- function(fit, dims, probs) {
  weights <- if (!is.null(fit$log_weights)) weights.is_draws(fit)
  quantiles <- vapply(dims, function(d) {
    if (length(fit$draws) == 0 || !(fit$ess > 0)) {
      return(rep(NA_real_, length(probs)))
    }
    quantile_of(fit$draws[, d], probs, if (is.null(weights)) rep(1, nrow(fit$draws)) else weights)
  }, numeric(length(probs)))
  quantiles <- matrix(quantiles, length(dims), length(probs), byrow = TRUE)
  colnames(quantiles) <- if (length(probs) > 0) quantile_names(probs)
  mcse <- vapply(dims, function(d) {
    if (is.null(weights) || !(fit$ess > 0)) NA_real_ else weighted_error(fit$draws[, d], weights, fit$mean[[d]])
  }, 0)
  data.frame(
    variable = fit$parameters[dims], mean = unname(fit$mean[dims]), sd = unname(fit$sd[dims]), mcse = mcse, quantiles,
    check.names = FALSE, stringsAsFactors = FALSE
  )
}

# What has weight zero may be anything.
weighted_error <- function(x, weights, mean) {
  used <- weights > 0
  sqrt(sum((weights[used] * (x[used] - mean))^2))
}

#' @rdname summary.is_draws
#' @export
print.is_draws <- function(x, n_parameters = 10, ...) {
  check_positive_whole(n_parameters, "n_parameters")
  what <- if (is.null(x$draws)) {
    "only sums stored"
  } else if (is.null(x$log_weights)) {
    sprintf("%s resampled", format_count(nrow(x$draws), "draw"))
  } else {
    "draws and log weights stored"
  }
  n_dim <- length(x$parameters)
  cat(sprintf("<is_draws> %s (%s), %s\n", format_count(x$n, "sample"), what, counted(n_dim, "parameter")))
  if (x$n > 0) {
    print_diagnostics(x)
    shown <- seq_len(min(n_dim, n_parameters))
    table <- summarise_weighted(x, shown, if (is.null(x$draws)) numeric() else c(0.05, 0.5, 0.95))
    known <- vapply(table, function(column) !all(is.na(column)), NA) | names(table) %in% c("mean", "sd")
    print(table[known], digits = 3, row.names = FALSE)
    cat(if (n_dim > length(shown)) sprintf("... %d more\n", n_dim - length(shown)) else "")
  }
  cat(if (!is.null(x$target)) sprintf("target: %s\n", format(x$target)) else "")
  cat(if (!is.null(x$proposal)) sprintf("proposal: %s\n", format_proposal(x$proposal)) else "")
  cat(if (x$offset > 0) sprintf("samples from number %s on\n", whole(x$offset)) else "")
  seed <- if (is.na(x$seed)) "" else sprintf("seed: %s; ", whole(x$seed))
  where <- if (is.null(x$run)) "" else sprintf(", %s, %.3g s", paste(x$run$backend, collapse = " and "), x$run$seconds)
  cat(sprintf("%s%s precision%s\n", seed, x$settings$precision, where))
  invisible(x)
}

format_count <- function(n, what) {
  sprintf("%s %s%s", format(n, big.mark = ",", scientific = FALSE), what, if (n == 1) "" else "s")
}

print_diagnostics <- function(x) {
  if (x$ess > 0) {
    print_weights(x)
  } else {
    cat("ESS 0: all weights are zero\n")
  }
  if (x$n_zero > 0 && x$ess > 0) {
    cat(sprintf("%s of weight zero\n", format_count(x$n_zero, "sample")))
  }
  if (x$n_bad > 0) {
    cat(sprintf("%s dropped for a log weight of NaN or +Inf\n", format_count(x$n_bad, "sample")))
  }
}

print_weights <- function(x) {
  se <- if (is.na(x$log_mean_weight_se)) "" else sprintf(" (se %.2g)", x$log_mean_weight_se)
  cat(sprintf(
    "ESS %s (%.3g%%), log mean weight %.6g%s\n", format(x$ess, big.mark = ",", digits = 5, scientific = FALSE),
    100 * x$relative_efficiency, x$log_mean_weight, se
  ))
  share <- format(signif(100 * x$max_share, 2))
  cat(sprintf("Pareto k %s; largest weight: %s%% of the sum\n", describe_k(x$pareto_k, x$n), share))
}

format_proposal <- function(proposal) {
  if (inherits(proposal, "fusedmc_density")) {
    return(format(proposal))
  }
  parts <- sub("^<density> ", "", vapply(proposal, format, ""))
  sprintf("%d in turn: %s", length(parts), paste(parts, collapse = "; "))
}

#' @rdname summary.is_draws
#' @export
vcov.is_draws <- function(object, ...) {
  if (is.null(object$cov)) {
    abort("input", "`object` must be made with covariance = TRUE to have a covariance matrix.", argument = "object")
  }
  object$cov
}

#' @rdname summary.is_draws
#' @importFrom stats weights
#' @export
weights.is_draws <- function(object, ...) {
  if (is.null(object$log_weights)) {
    message <- "`object` must hold log weights: make it with keep = \"draws\". Resampled draws have equal weights."
    abort("input", message, argument = "object")
  }
  total <- total_of(object$sums$nodes, length(object$parameters))
  if (!(total$sum > 0)) {
    return(rep(NA_real_, length(object$log_weights)))
  }
  core_math("exp", object$log_weights - total$max) / total$sum
}
