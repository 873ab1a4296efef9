# The oracle of many steps: one mh_step() after the other, sums and all in plain R. A path is by contract that of
# mh_step(seed, step = t); mh_step() has an oracle of its own.

# As run_steps() of the package; devices and progress have no part in the result.
oracle_run_steps <- function(target, state, step_size, n_steps, thin = 1, store = 0, seed, chain_offset = 0,
                             precision = "double", devices = NULL, progress = NULL) {
  draws <- list()
  for (i in seq_len(n_steps)) {
    result <- suppressWarnings(
      mh_step(state$x, target, step_size, seed = seed, step = state$step, chain_offset = chain_offset,
        precision = precision, backend = "cpu"
      ),
      classes = "fusedmc_warning_nonfinite"
    )
    bad <- which(is.nan(result$log_alpha) | (result$log_alpha == Inf & !result$accepted))
    if (length(bad) > 0 && state$not_finite[["n"]] == 0) {
      state$not_finite[c("step", "row")] <- c(state$step, bad[1])
    }
    state$not_finite[["n"]] <- state$not_finite[["n"]] + length(bad)
    state$x <- result$x
    state$log_density <- result$log_density
    state$n_accepted <- state$n_accepted + result$accepted
    state$step <- state$step + 1
    state$n_steps <- state$n_steps + 1
    if (i %% thin == 0) {
      if (!is.null(state$sums)) {
        state <- oracle_add_state(state)
      }
      n_kept <- if (is.null(state$sums)) i / thin else state$n_kept
      if (store > 0 && n_kept %% store == 0) {
        draws <- c(draws, list(state$x))
      }
    }
  }
  stored <- if (store > 0) {
    aperm(array(unlist(draws), c(dim(state$x), length(draws))), c(3, 1, 2))
  }
  list(state = state, draws = stored, n_done = n_steps, interrupted = FALSE)
}

# A kept state goes into the sums.
oracle_add_state <- function(state) {
  d <- sweep(state$x, 2, state$shift)
  sums <- state$sums
  sums[, , "batch"] <- sums[, , "batch"] + d
  sums[, , "squares"] <- sums[, , "squares"] + d * d
  state$n_kept <- state$n_kept + 1
  if (state$n_kept %% state$batch == 0) {
    full <- sums[, , "batch"]
    sums[, , "total"] <- sums[, , "total"] + full
    sums[, , "batch_squares"] <- sums[, , "batch_squares"] + full * full
    sums[, , "batch"] <- 0
  }
  state$sums <- sums
  state$range[, "min"] <- pmin(state$range[, "min"], apply(state$x, 2, min))
  state$range[, "max"] <- pmax(state$range[, "max"], apply(state$x, 2, max))
  state
}

# Plain R for nested R-hat: draws n x n_chains, a group per chain. Straight from the definition.
oracle_nested_rhat <- function(draws, group) {
  groups <- unique(group)
  centre <- vapply(groups, function(g) mean(draws[, group == g]), 0)
  within <- vapply(groups, function(g) {
    own <- draws[, group == g, drop = FALSE]
    between_chains <- if (ncol(own) > 1) var(colMeans(own)) else 0
    between_chains + if (nrow(own) > 1) mean(apply(own, 2, var)) else 0
  }, 0)
  sqrt(1 + var(centre) / mean(within))
}

# Plain R for the standard error by batch means: all full batches of b states.
oracle_batch_error <- function(draws, b) {
  a <- nrow(draws) %/% b
  means <- apply(draws, 2, function(chain) colMeans(matrix(chain[seq_len(a * b)], b)))
  sqrt(var(as.vector(means)) * b / length(draws))
}

# A result without what may differ between equal runs.
bare <- function(fit) {
  fit$run <- NULL
  fit
}

# One run of a few chains, adapted or not as `...` says.
small_run <- function(n_steps = 60, target = density_normal(c(a = 0, b = 1), c(1, 2)), n_chains = 5, ...) {
  mh_sample(target, grid_matrix(n_chains, 2, 91), n_steps = n_steps, seed = 11, backend = "cpu", ...)
}
