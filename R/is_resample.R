# keep = "resampled": draws that are chosen by weight among more than memory holds. The samples are drawn and weighed
# anew in chunks, once to add up their weights as whole numbers and once to choose: a sample's number is all it takes.

# Puts n draws into `fit`, whose samples are all done. Where Ctrl-C comes it stays as it is.
add_resampled <- function(fit, chosen, runs) {
  if (!(fit$ess > 0)) {
    message <- sprintf("All %s weights are zero: there is nothing to resample.", whole(fit$n))
    abort("nonfinite", message, argument = "keep")
  }
  plan <- new_is_plan(fit$target, fit$proposal, length(fit$parameters), fit$seed, fit$settings)
  draws <- tryCatch(
    resampled_draws(plan, fit, chosen$n, chosen$method, runs[[1]]),
    interrupt = function(condition) NULL
  )
  if (is.null(draws)) {
    warn("interrupted", "Interrupted while resampling; the result holds the sums of all samples, and no draws.")
    return(fit)
  }
  colnames(draws) <- fit$parameters
  fit$draws <- draws
  fit$settings[c("keep", "n_resample", "method")] <- list("resampled", chosen$n, chosen$method)
  fit
}

# n_chosen x n_dim; the same as resampling all at once.
resampled_draws <- function(plan, fit, n_chosen, method, run) {
  plan$settings[c("keep", "n_tail")] <- list("draws", 0)
  plan$settings$covariance <- FALSE
  ready <- ready_densities(plan, run)
  run[[4]] <- run[[4]] / fit$n
  max <- total_of(fit$sums$nodes, plan$n_dim)$max
  n_tiles <- max(1, min(64, 2^25 %/% (plan$n_dim * tile_size)))
  pieces <- split_tiles(fit$offset, fit$n, ceiling((fit$n / tile_size + 1) / n_tiles))
  piece_at <- function(i) weigh_chunk(plan, pieces$offset[i], pieces$n[i], ready, run)

  where <- function(n) resample_run(max(pieces$n), n, run[[1]], run[[2]])
  sums <- lapply(seq_along(pieces$n), function(i) resample_sum(piece_at(i)$log_weights[[1]], max, fit$n, where(0)))
  bases <- Reduce(add_sums, sums, accumulate = TRUE, init = c(0, 0))
  total <- bases[[length(bases)]]
  draws <- matrix(0, n_chosen, plan$n_dim)
  for (i in seq_along(pieces$n)) {
    piece <- piece_at(i)
    indices <- resample_piece(
      piece$log_weights[[1]], n_chosen, method, plan$seed,
      max = max, n_all = fit$n, base = bases[[i]], total = total, run = where(n_chosen)
    )
    hit <- which(indices > 0)
    draws[hit, ] <- piece$draws[[1]][indices[hit], ]
  }
  draws
}
