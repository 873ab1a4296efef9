#' Summarise stored samples
#'
#' Weighs samples that are already there and sums them, as [importance_sample()] does with its draws. The result of a
#' part of them can be joined with that of the next by [is_merge()], so samples may come in pieces.
#'
#' @param samples Samples: a numeric matrix n x n_dim, one sample per row, or a data frame of numbers. Never modified.
#' @param target,proposal Densities to weigh the samples by: what they are weighed towards, and what they were drawn
#'   from.
#' @param log_weights n log weights in place of both, natural log, of any constant shift. `-Inf` is weight zero.
#' @param offset Number of the first sample: a whole number from 0 to 2^53. Parts of a set of samples have numbers that
#'   follow each other.
#' @param shift Point that second moments are taken about, n_dim numbers, or one for all: near the mean they lose fewer
#'   digits. All parts need the same. `NULL`: the mean of the proposal where it is a normal, a Student t or a mixture of
#'   these, else 0.
#' @inheritParams importance_sample
#' @inheritParams is_weights
#'
#' @details
#' Mean, ESS and log mean weight of samples with `offset = 0` are those of [is_weights()], to the bit.
#' @return An `is_draws` as from [importance_sample()], without draws and without a seed (`NA`).
#' @section Errors:
#' As of [importance_sample()]; and `fusedmc_error_input` naming the rows where a sample is not finite and its weight is
#' not zero.
#' @seealso [is_merge()], with recipes for data that do not fit into memory; [is_weights()]
#' @export
#' @examples
#' x <- draw(density_normal(0, 3), 1e4, seed = 1, n_dim = 2)
#' is_summary(x, density_normal(1, 1), density_normal(0, 3))
#'
#' # the same in two pieces
#' piece <- function(rows) {
#'   is_summary(x[rows, ], density_normal(1, 1), density_normal(0, 3), offset = rows[1] - 1)
#' }
#' is_merge(piece(1:8192), piece(8193:1e4))
is_summary <- function(samples, target = NULL, proposal = NULL, log_weights = NULL, offset = 0, covariance = FALSE,
                       n_tail = 16384, shift = NULL, nonfinite = c("error", "drop"),
                       precision = c("double", "single"), backend = getOption("fusedmc.backend", "auto"), device = 0L) {
  started <- proc.time()[[3]]
  samples <- check_matrix(samples, "n", "samples")
  n <- nrow(samples)
  n_dim <- ncol(samples)
  offset <- check_offset(offset, n)
  precision <- check_precision(if (missing(precision)) "double" else precision)
  nonfinite <- check_choice(if (missing(nonfinite)) "error" else nonfinite, c("error", "drop"), "nonfinite")
  settings <- is_settings(FALSE, precision, covariance, n_tail)
  check_size_of_covariance(covariance, n_dim)
  from_densities <- check_summary_route(samples, target, proposal, log_weights)
  names <- colnames(samples)
  plan <- list(
    target = target, proposal = proposal, weighing = proposal, n_dim = n_dim, seed = NA_real_, settings = settings,
    shift = check_shift(shift, n_dim, proposal),
    parameters = if (is.null(names)) sprintf("x[%d]", seq_len(n_dim)) else names
  )
  nodes <- if (from_densities && !is_in_r(target) && !is_in_r(proposal)) summary_nodes(plan)
  run <- run_for_importance(
    backend, device, n, n_dim, unlist(nodes, recursive = FALSE),
    moments = moments_of(settings), moved = n_dim + 1
  )
  if (!from_densities) {
    log_weights <- check_log_weights(log_weights, n, samples)
  } else if (is.null(nodes)) {
    log_weights <- if (n == 0) numeric() else log_weights_in_r(plan, samples, run)
  }
  nodes <- lapply(nodes, linked, precision = precision, run = run)
  part <- run_importance(
    n, n_dim,
    offset = offset, samples = unname(samples), target = nodes$target, proposal = nodes$proposal,
    log_weights = log_weights, moments = moments_of(settings), shift = plan$shift, n_tail = settings$n_tail,
    precision = precision, run = run
  )
  part$interrupted <- FALSE
  finish_summary(plan, offset, part, samples, log_weights, nonfinite, new_is_run(list(run), NULL, started))
}

finish_summary <- function(plan, offset, part, samples, log_weights, nonfinite, run) {
  fit <- new_is_draws(plan, offset, part)
  if (fit$n_bad > 0 && nonfinite == "error") {
    check_finite_rows(samples, "samples")
  }
  check_no_bad(fit$n_bad, fit$first_bad, fit$n, nonfinite)
  if (fit$ess > 0) {
    check_mean(fit$mean, samples, log_weights)
  }
  fit$run <- run
  warn_about(fit)
  warn_of_lost_digits(fit, samples)
  fit
}

# Second moments are of x - shift: their difference from (mean - shift)^2 has lost what is smaller by the rounding of a
# double, or nearly so. Of equal samples it is 0.
warn_of_lost_digits <- function(fit, samples) {
  away <- fit$mean - fit$sums$shift
  lost <- which(fit$ess > 1.5 & fit$sd^2 < 2^-40 * away^2)
  if (is.matrix(samples)) {
    lost <- lost[vapply(lost, function(d) any(samples[, d] != samples[1, d]), NA)]
  }
  if (length(lost) > 0) {
    message <- sprintf(
      "The sd of %s has lost most of its digits: the mean is %.3g away from `shift`. %s", fit$parameters[lost[1]],
      abs(away[[lost[1]]]), "Give a nearer `shift`, the same for all parts."
    )
    warn("precision", message, parameters = fit$parameters[lost])
  }
}

# Whether samples are weighed by densities.
check_summary_route <- function(samples, target, proposal, log_weights) {
  if (!is.null(log_weights)) {
    if (!is.null(target) || !is.null(proposal)) {
      abort_input("log_weights", "NULL where `target` or `proposal` is given: either weighs the samples", log_weights)
    }
    return(FALSE)
  }
  check_density(target, ncol(samples), "target", "samples")
  check_density(proposal, ncol(samples), "proposal", "samples")
  TRUE
}

summary_nodes <- function(plan) {
  nodes <- list(target = density_nodes(plan$target, plan$n_dim), proposal = density_nodes(plan$weighing, plan$n_dim))
  for (arg in names(nodes)) {
    check_density_range(nodes[[arg]], plan$settings$precision, arg)
  }
  nodes
}

check_shift <- function(shift, n_dim, proposal) {
  if (is.null(shift)) {
    parts <- if (!is.null(proposal)) elliptical_parts(proposal, n_dim)
    return(if (is.null(parts)) numeric(n_dim) else mean_of_groups(list(parts)))
  }
  rule <- sprintf("NULL, one finite number, or %s", counted(n_dim, "finite number"))
  shift <- check_numbers(shift, "shift", rule)
  if (!length(shift) %in% c(1, n_dim)) {
    abort_input("shift", rule, shift)
  }
  rep_len(shift, n_dim)
}
