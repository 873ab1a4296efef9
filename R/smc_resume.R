#' Continue a run of smc_sample()
#'
#' Goes on from where a run was interrupted or stopped by `max_stages`. The result is to the bit that of a run that was
#' never stopped.
#'
#' @param fit A result of [smc_sample()] or [smc_resume()]; also one that was saved and read again. One that has reached
#'   the target comes back as it is.
#' @param target `NULL`, or the target, to be sure that it is still the same.
#' @param max_stages Number of stages after which to stop, those so far included: a whole number from 1 to 4000.
#' @inheritParams smc_sample
#' @details
#' The log densities of the particles are computed once more and must come out as they were, so a target that has
#' changed is noticed, as in [mh_resume()].
#' @return An `smc_draws` as from [smc_sample()]; `run$seconds` are those of this call and the ones before.
#' @section Errors:
#' `fusedmc_error_input` where an argument breaks its rule or the target is another; the others as in [smc_sample()].
#' @seealso [smc_sample()]
#' @export
#' @examples
#' target <- density_normal(c(0, 5), 0.1)
#' initial <- density_normal(0, 10)
#' fit <- suppressWarnings(smc_sample(target, initial, 1024, max_stages = 2, seed = 1))
#' fit$beta
#' fit <- smc_resume(fit)
#' fit$beta
smc_resume <- function(fit, target = NULL, max_stages = 1000, backend = getOption("fusedmc.backend", "auto"),
                       devices = NULL, progress = NULL) {
  if (!inherits(fit, "smc_draws")) {
    abort_input("fit", "a result of smc_sample()", fit)
  }
  max_stages <- check_max_stages(max_stages)
  report <- stage_report(progress)
  if (!is.null(target) && !same_target(target, fit$target)) {
    abort_changed_path("it is not the one that `fit` was made with")
  }
  now <- restored_state(fit)
  devices <- path_devices(fit, fit$draws, backend, devices)
  if (!is_under_way(now, 4000)) {
    return(fit)
  }
  check_path_unchanged(fit, now, devices)
  started <- proc.time()[[3]]
  now <- run_stages(now, fit, max_stages, devices, report)
  finish_smc(fit, now, devices, fit$run$seconds + proc.time()[[3]] - started, fit$not_finite[["n"]])
}

# `now` of run_stages() from a result.
restored_state <- function(fit) {
  now <- fit$state
  n_rows <- nrow(fit$stages) - !is.null(now$moving)
  now$rows <- lapply(seq_len(n_rows), function(i) fit$stages[i, ])
  now$log_evidence <- fit$islands
  x <- fit$draws
  dimnames(x) <- NULL
  halves <- halves_of(fit$settings)
  for (half in seq_along(now$moving$parts)) {
    now$moving$parts[[half]]$run$x <- x[halves[[half]], , drop = FALSE]
  }
  now$x <- x
  now
}

check_path_unchanged <- function(fit, now, devices) {
  moving <- now$moving
  density <- if (is.null(moving)) fit$target else path_density(fit, moving$beta)
  before <- if (is.null(moving)) {
    now$log_target
  } else {
    unlist(lapply(moving$parts, function(part) part$run$log_density))
  }
  again <- evaluate_on(density, now$x, fit$settings$precision, devices, fit$parameters)
  # particles that were dropped at the start have -Inf in place of NaN or +Inf
  again[is.na(again) | again == Inf] <- -Inf
  bad <- which(again != before)
  if (length(bad) > 0) {
    rows <- enumerate_rows(utils::head(bad, 5), length(bad))
    abort_changed_path(sprintf("its log density is not what it was at %s of `fit$draws`", rows))
  }
}

abort_changed_path <- function(why) {
  abort("input", sprintf("`target` must be unchanged to continue a run, but %s.", why), argument = "target")
}
