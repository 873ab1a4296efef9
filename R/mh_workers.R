# Chains in several processes. Parts are runs of their own, joined to what one process gives.

check_workers <- function(workers) {
  if (is.null(workers)) {
    return(NULL)
  }
  workers <- check_positive_whole(workers, "workers")
  if (!requireNamespace("future.apply", quietly = TRUE)) {
    abort_input("workers", "NULL where the package future.apply is not installed", workers)
  }
  workers
}

# The namespace of the package is known to the processes by its name, so nothing travels but the part.
continue_in_parts <- function(fit, n_steps, devices, workers) {
  n_parts <- max(1, min(workers, nrow(fit$state$x)))
  run <- fit$run
  fit <- restride(fit, kept_after(fit$state, n_steps, fit$settings$thin)$n_kept)
  parts <- future.apply::future_lapply(
    mh_split(fit, n_parts), continue_run,
    n_steps = n_steps, devices = devices, future.globals = FALSE, future.packages = "fusedmc", future.seed = NULL
  )
  fit <- mh_bind(parts)
  run$interrupted <- FALSE
  run$workers <- n_parts
  fit$run <- run
  fit
}
