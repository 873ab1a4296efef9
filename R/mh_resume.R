#' Continue a run
#'
#' Takes more steps from where a result of [mh_sample()] ended. Steps, sums and draws go on as if the run had never
#' stopped: the result is to the bit that of one longer run.
#'
#' @param fit A result of [mh_sample()], [mh_resume()] or [mh_bind()], or a part that [mh_split()] made; also one that
#'   was saved and read again.
#' @param n_steps Steps to add: a whole number, a multiple of the run's `thin`; any whole number where Ctrl-C ended the
#'   run between two kept states.
#' @param keep `NULL` for what the run keeps, or `"summary"` to turn a run with draws into one that keeps a sample of
#'   them.
#' @param target `NULL`, or the target, to be sure that it is still the same.
#' @inheritParams mh_sample
#'
#' @details
#' Nothing is adapted: the step size is `fit$step_size`, and there is no second warm-up. The log densities of the last
#' states are computed once more and must come out as they were, so a target that has changed is noticed: a
#' [density_function()] that uses other data, or runs on a machine that rounds differently. To go on from the same
#' states with another target, start a run: `mh_sample(target, init = fit)`.
#'
#' The length of batches stays that of the first call. To get a result that is equal to a longer run in its sums too,
#' both need the same `batch`.
#' @return An `mh_draws` as from [mh_sample()]; draws, sums and acceptance rates are those of the whole run.
#' @section Errors:
#' `fusedmc_error_input` where an argument breaks its rule, the target is another, or `fit` is a part that `[` made;
#' the others as in [mh_sample()].
#' @seealso [mh_sample()], [mh_split()]
#' @export
#' @examples
#' fit <- mh_sample(
#'   density_normal(0, 1), matrix(0, 4, 2), n_steps = 100, batch = 10, adapt = FALSE, seed = 1
#' )
#' more <- mh_resume(fit, 50)
#' dim(more)
#' all <- mh_sample(
#'   density_normal(0, 1), matrix(0, 4, 2), n_steps = 150, batch = 10, adapt = FALSE, seed = 1
#' )
#' identical(more$draws, all$draws)
mh_resume <- function(fit, n_steps, keep = NULL, target = NULL, backend = getOption("fusedmc.backend", "auto"),
                      devices = NULL, workers = NULL, progress = NULL) {
  check_whole_fit(fit, "fit")
  settings <- fit$settings
  n_steps <- check_n_steps(n_steps, settings$thin, fit$state$n_since)
  check_last_step(fit$state$step, n_steps)
  check_kept(keep, settings$keep)
  workers <- check_workers(workers)
  report <- new_progress(n_steps, progress)
  if (!is.null(target) && !same_target(target, fit$target)) {
    abort_changed_target("it is not the one that `fit` was made with")
  }
  shape <- dim(fit$state$x)
  if (!is.null(keep) && keep != settings$keep) {
    fit <- draws_to_sample(fit)
  }
  n_new <- kept_after(fit$state, n_steps, settings$thin)$n_kept - fit$state$n_kept
  check_fits(n_new, shape[1], shape[2], fit$settings$keep, n_before = fit$state$n_kept)
  devices <- check_devices(devices, backend, fit$target, fit$state$x, n_steps, settings$precision)
  check_log_densities(fit, devices)

  before <- fit$state
  fit$run$fresh <- FALSE
  fit$run$interrupted <- FALSE
  fit$run[c("backend", "devices")] <- new_run(devices)[c("backend", "devices")]
  finish_run(take_samples(fit, n_steps, devices, workers, report), n_steps, before)
}

check_kept <- function(keep, kept) {
  if (is.null(keep)) {
    return(invisible())
  }
  check_choice(keep, c("draws", "summary"), "keep")
  if (keep == "draws" && kept == "summary") {
    abort_input("keep", "NULL or \"summary\", for the draws so far were not kept", keep)
  }
}

draws_to_sample <- function(fit) {
  fit$settings$keep <- "summary"
  fit$settings$store <- if (sample_stride(0, nrow(fit$state$x), ncol(fit$state$x)) == 0) 0 else 1
  if (fit$settings$store > 0) {
    fit["sample"] <- list(fit$draws)
  }
  fit["draws"] <- list(NULL)
  fit
}

# Functions are the same where their code is: what they use is seen from the log densities.
same_target <- function(x, y) {
  identical(x, y, ignore.bytecode = TRUE, ignore.environment = TRUE, ignore.srcref = TRUE)
}

check_log_densities <- function(fit, devices) {
  state <- fit$state
  again <- tryCatch(
    new_run_state(fit$target, state$x, fit$settings$precision, devices, fit$parameters)$log_density,
    fusedmc_error_input = function(e) rep(NaN, length(state$log_density))
  )
  bad <- which(is.na(again) | again != state$log_density)
  if (length(bad) > 0) {
    rows <- enumerate_rows(utils::head(bad, 5), length(bad))
    abort_changed_target(sprintf("its log density is not what it was at %s of `fit$state$x`", rows))
  }
}

abort_changed_target <- function(why) {
  message <- sprintf(
    "`target` must be unchanged to continue a run, but %s. mh_sample(target, init = fit) starts a new run there.", why
  )
  abort("input", message, argument = "target")
}
