# The result of mh_sample(): what it is made of, how it is cut and joined.

new_mh_draws <- function(target, state, step_size, settings, seed, chain_offset, starts, devices) {
  n_none <- c(0, dim(state$x))
  fit <- list(
    draws = if (settings$keep == "draws") name_states(array(0, n_none), starts$parameters),
    sample = if (settings$keep == "summary" && settings$store > 0) name_states(array(0, n_none), starts$parameters),
    state = state, acceptance = rep(NaN, nrow(state$x)), step_size = step_size, settings = settings, seed = seed,
    chain_offset = chain_offset, target = target, parameters = starts$parameters, superchain = starts$superchain,
    warmup = no_windows, run = new_run(devices), version = as.character(utils::packageVersion("fusedmc"))
  )
  class(fit) <- "mh_draws"
  fit
}

# Where and how long. `fresh` and `interrupted` are for the time of a call.
new_run <- function(devices) {
  list(
    backend = unique(vapply(devices, function(device) if (identical(device, "cpu")) "cpu" else "cuda", "")),
    devices = unlist(devices), workers = 0, seconds = c(warmup = 0, sampling = 0), fresh = TRUE
  )
}

# ---- stored states: arrays n_stored x n_chains x n_dim ---------------------------------------

name_states <- function(states, parameters) {
  dimnames(states) <- list(NULL, NULL, parameters)
  states
}

append_states <- function(old, new, parameters) {
  if (dim(new)[1] == 0) {
    return(old)
  }
  name_states(if (dim(old)[1] == 0) new else bind_states(old, new), parameters)
}

# The states of both, one after the other.
bind_states <- function(first, second) {
  n <- c(dim(first)[1], dim(second)[1])
  states <- array(0, c(sum(n), dim(first)[-1]))
  states[seq_len(n[1]), , ] <- first
  states[n[1] + seq_len(n[2]), , ] <- second
  states
}

# The power of two by which kept states are stored in a sample of at most 2e6 numbers; 0 where one has more.
sample_stride <- function(n_kept, n_chains, n_dim) {
  room <- 2e6 %/% max(1, as.double(n_chains) * n_dim)
  if (room == 0) {
    return(0)
  }
  stride <- 1
  while (n_kept %/% stride > room) {
    stride <- 2 * stride
  }
  stride
}

first_stride <- function(keep, n_kept, x) {
  if (keep == "draws") 1 else sample_stride(n_kept, nrow(x), ncol(x))
}

# Makes room in the sample for a run that will have n_kept kept states in all.
restride <- function(fit, n_kept) {
  old <- fit$settings$store
  if (fit$settings$keep == "draws" || old == 0) {
    return(fit)
  }
  new <- max(old, sample_stride(n_kept, nrow(fit$state$x), ncol(fit$state$x)))
  if (new > old) {
    fit$sample <- fit$sample[(seq_len(dim(fit$sample)[1]) * old) %% new == 0, , , drop = FALSE]
    fit$settings$store <- new
  }
  fit
}

# What is there of states, or the last one.
stored_states <- function(fit) {
  states <- if (is.null(fit$draws)) fit$sample else fit$draws
  if (length(states) == 0 && fit$state$n_kept > 0) {
    states <- name_states(array(fit$state$x, c(1, dim(fit$state$x))), fit$parameters)
  }
  states
}

#' Cut a result of mh_sample()
#'
#' @param x,fit A result of [mh_sample()].
#' @param chains,parameters Numbers (from 1), or for parameters also names, of what to take; all where left out.
#' @param drop,... Not used.
#' @param n Number of parts: a whole number from 1 to the number of chains.
#'
#' @details
#' `x[chains, parameters]` is for looking at: draws, sample, sums, acceptance and states of some chains and some
#' parameters. It cannot be continued, and `summary()` has no minimum and maximum where no draws are stored.
#'
#' `mh_split()` makes parts of neighbouring chains that [mh_resume()] continues, here or elsewhere, and that [mh_bind()]
#' joins; until then their smallest and largest state are those of all chains.
#'
#' @return `[`: an `mh_draws`. `mh_split()`: a list of `n` of them. `dim()`: n_kept, n_chains and n_dim, where n_kept
#'   counts kept states whether or not they are stored. `dimnames()`: a list of which only the last is not `NULL`, the
#'   names of the parameters.
#' @section Errors:
#' `fusedmc_error_input` where chains or parameters are not there, or `n` is out of range.
#' @seealso [mh_sample()], [mh_bind()]
#' @export
#' @examples
#' fit <- mh_sample(
#'   density_normal(c(a = 0, b = 1), 1), c(a = 0, b = 0), n_chains = 8, n_steps = 200, seed = 1
#' )
#' fit[1:2, "a"]
#' parts <- lapply(mh_split(fit, 2), mh_resume, n_steps = 100)
#' mh_bind(parts)
`[.mh_draws` <- function(x, chains, parameters, ..., drop = FALSE) {
  at <- if (missing(chains)) seq_len(nrow(x$state$x)) else find_places(chains, nrow(x$state$x), NULL, "chains")
  dims <- if (missing(parameters)) {
    seq_along(x$parameters)
  } else {
    find_places(parameters, length(x$parameters), x$parameters, "parameters")
  }
  x <- take_part(x, at, dims)
  known <- !is.null(x$draws) && length(x$draws) > 0
  if (known) {
    x$state$range[] <- t(apply(x$draws, 3, range))
  } else if (x$state$n_kept > 0 && !missing(chains)) {
    x$state$range[] <- NA_real_
  }
  x$state$part <- TRUE
  x
}

find_places <- function(x, n, names, arg) {
  places <- stats::setNames(seq_len(n), names)
  found <- if (is.numeric(x) || is.logical(x) || is.character(x)) unname(places[x])
  if (is.null(found) || anyNA(found) || length(found) == 0 || anyDuplicated(found) > 0) {
    rule <- sprintf("places from 1 to %d%s, none twice", n, if (is.null(names)) "" else " or names of parameters")
    abort_input(arg, rule, x)
  }
  found
}

# Chains and dims by their places.
take_part <- function(fit, at, dims = seq_along(fit$parameters)) {
  for (what in c("draws", "sample")) {
    if (!is.null(fit[[what]])) {
      fit[[what]] <- fit[[what]][, at, dims, drop = FALSE]
    }
  }
  state <- fit$state
  state$x <- state$x[at, dims, drop = FALSE]
  state$log_density <- state$log_density[at]
  state$n_accepted <- state$n_accepted[at]
  state$sums <- state$sums[at, dims, , drop = FALSE]
  state$shift <- state$shift[dims]
  state$range <- state$range[dims, , drop = FALSE]
  fit$state <- state
  fit$acceptance <- fit$acceptance[at]
  fit$parameters <- fit$parameters[dims]
  fit$superchain <- fit$superchain[at]
  fit
}

# Parts that `[` made lack what a run needs.
check_whole_fit <- function(fit, arg) {
  if (!inherits(fit, "mh_draws")) {
    abort_input(arg, "a result of mh_sample()", fit)
  }
  if (isTRUE(fit$state$part)) {
    abort_input(arg, "a whole result of mh_sample() or a part that mh_split() made, not one that `[` made", fit)
  }
}

#' @rdname sub-.mh_draws
#' @export
dim.mh_draws <- function(x) {
  c(x$state$n_kept, dim(x$state$x))
}

#' @rdname sub-.mh_draws
#' @export
dimnames.mh_draws <- function(x) {
  list(NULL, NULL, x$parameters)
}

#' @rdname sub-.mh_draws
#' @export
mh_split <- function(fit, n) {
  check_whole_fit(fit, "fit")
  n_chains <- nrow(fit$state$x)
  n <- check_positive_whole(n, "n", max(1, n_chains), "the number of chains")
  sizes <- split_chains(n_chains, n)
  before <- c(0, cumsum(sizes))
  lapply(seq_len(n), function(i) {
    part <- take_part(fit, before[i] + seq_len(sizes[i]))
    part$chain_offset <- fit$chain_offset + before[i]
    if (i > 1) {
      # counted once, with the first part
      part$state$not_finite <- c(n = 0, step = NA, row = NA)
    }
    part
  })
}

#' Join chains
#'
#' Joins results of [mh_sample()] or [mh_resume()] over neighbouring chains of one run into one result.
#'
#' @param ... Results of the same run, or one list of them: the same seed, target, step size, number of steps and
#'   settings, and the chains of each after those of the one before (`chain_offset`).
#' @details
#' Parts that [mh_split()] made give to the bit what one process would have given. Parts of runs that were started
#' separately, with `chain_offset`, `adapt = FALSE` and starts of their own, give the same draws and states; their sums
#' are relative to different points and are brought to the first one's, which may change the last digits of means and
#' standard deviations. A superchain is joined across parts only where [mh_split()] cut it.
#' @return An `mh_draws` of all chains.
#' @section Errors:
#' `fusedmc_error_input` where the parts are not of one run, or chains are missing between them.
#' @seealso [mh_split()], [mh_sample()]
#' @export
#' @examples
#' target <- density_normal(0, 1)
#' run <- function(offset) {
#'   mh_sample(target, matrix(0, 4, 2), n_steps = 100, adapt = FALSE, seed = 1, chain_offset = offset)
#' }
#' mh_bind(run(0), run(4))
mh_bind <- function(...) {
  parts <- list(...)
  if (length(parts) == 1 && !inherits(parts[[1]], "mh_draws")) {
    parts <- parts[[1]]
  }
  if (!is.list(parts) || length(parts) == 0) {
    abort_input("...", "results of mh_sample()", parts)
  }
  parts <- unname(parts)
  lapply(parts, check_whole_fit, arg = "...")
  check_same_run(parts)
  sizes <- vapply(parts, function(part) as.double(nrow(part$state$x)), 0)
  fit <- parts[[1]]
  for (what in c("draws", "sample")) {
    if (!is.null(fit[[what]])) {
      fit[[what]] <- name_states(bind_chains(lapply(parts, `[[`, what)), fit$parameters)
    }
  }
  fit$state <- bind_run_states(lapply(parts, `[[`, "state"), sizes)
  fit$acceptance <- unlist(lapply(parts, `[[`, "acceptance"))
  fit$superchain <- bind_superchains(parts)
  fit$run <- bind_runs(lapply(parts, `[[`, "run"))
  fit
}

check_same_run <- function(parts) {
  first <- parts[[1]]
  offset <- first$chain_offset
  counts <- c("step", "n_kept", "n_since")
  for (i in seq_along(parts)) {
    part <- parts[[i]]
    same <- c(
      seed = identical(part$seed, first$seed), target = same_target(part$target, first$target),
      `step size` = identical(part$step_size, first$step_size), settings = identical(part$settings, first$settings),
      `number of steps` = identical(part$state[counts], first$state[counts]),
      parameters = identical(part$parameters, first$parameters)
    )
    if (!all(same)) {
      rule <- sprintf("parts of one run, but the %s of part %d is another", names(which(!same))[1], i)
      abort("input", sprintf("`...` must be %s.", rule), argument = "...")
    }
    if (part$chain_offset != offset) {
      shown <- format(c(part$chain_offset, offset), scientific = FALSE, trim = TRUE)
      rule <- sprintf("neighbouring chains in order, but part %d has chains from %s, not %s", i, shown[1], shown[2])
      abort("input", sprintf("`...` must be %s.", rule), argument = "...")
    }
    offset <- offset + nrow(part$state$x)
  }
}

# Arrays whose second dim is the chain, side by side.
bind_chains <- function(arrays) {
  n <- vapply(arrays, function(one) dim(one)[2], 0L)
  shape <- dim(arrays[[1]])
  out <- array(0, c(shape[1], sum(n), shape[3]))
  at <- 0
  for (i in seq_along(arrays)) {
    out[, at + seq_len(n[i]), ] <- arrays[[i]]
    at <- at + n[i]
  }
  out
}

bind_run_states <- function(states, sizes) {
  state <- states[[1]]
  state$x <- do.call(rbind, lapply(states, `[[`, "x"))
  state$log_density <- unlist(lapply(states, `[[`, "log_density"))
  state$n_accepted <- unlist(lapply(states, `[[`, "n_accepted"))
  sums <- lapply(states, function(one) aperm(shift_sums(one, state$shift), c(3, 1, 2)))
  names <- dimnames(state$sums)
  state$sums <- aperm(bind_chains(sums), c(2, 3, 1))
  dimnames(state$sums) <- names
  ranges <- lapply(states, `[[`, "range")
  state$range[, 1] <- do.call(pmin, lapply(ranges, function(range) range[, 1]))
  state$range[, 2] <- do.call(pmax, lapply(ranges, function(range) range[, 2]))
  state$not_finite <- bind_not_finite(lapply(states, `[[`, "not_finite"), cumsum(sizes) - sizes)
  state
}

# Sums of x - shift from sums of x - state$shift.
shift_sums <- function(state, shift) {
  sums <- state$sums
  by <- state$shift - shift
  if (all(by == 0)) {
    return(sums)
  }
  n_full <- state$n_kept %/% state$batch
  n_rest <- state$n_kept - n_full * state$batch
  by <- rep(by, each = nrow(state$x))
  total <- sums[, , "total"]
  of_batch <- state$batch * by
  sums[, , "squares"] <- sums[, , "squares"] + 2 * by * (total + sums[, , "batch"]) + state$n_kept * by^2
  sums[, , "batch_squares"] <- sums[, , "batch_squares"] + 2 * of_batch * total + n_full * of_batch^2
  sums[, , "total"] <- total + n_full * of_batch
  sums[, , "batch"] <- sums[, , "batch"] + n_rest * by
  sums
}

# The counts added up, and the first of the firsts: lowest step, then lowest row.
bind_not_finite <- function(counts, before) {
  n <- vapply(counts, `[[`, 0, "n")
  step <- vapply(counts, function(one) as.double(one[["step"]]), 0)
  row <- vapply(counts, function(one) as.double(one[["row"]]), 0) + before
  if (sum(n) == 0) {
    return(counts[[1]])
  }
  first <- order(step, row)[1]
  c(n = sum(n), step = step[first], row = row[first])
}

# Groups keep their numbers where they rise from part to part, as mh_split() leaves them; else each part's follow.
bind_superchains <- function(parts) {
  groups <- lapply(parts, `[[`, "superchain")
  joined <- unlist(groups)
  if (!is.unsorted(joined) && !starts_anew(groups)) {
    return(joined)
  }
  before <- 0L
  for (i in seq_along(groups)) {
    groups[[i]] <- match(groups[[i]], unique(groups[[i]])) + before
    before <- max(groups[[i]])
  }
  unlist(groups)
}

# Whether a later part counts its groups from 1, so that they cannot be the ones of the part before.
starts_anew <- function(groups) {
  any(vapply(groups[-1], function(group) length(group) > 0 && group[1] == 1L, NA)) && length(unique(groups[[1]])) > 1
}

bind_runs <- function(runs) {
  run <- runs[[1]]
  run$backend <- unique(unlist(lapply(runs, `[[`, "backend")))
  run$devices <- unique(unlist(lapply(runs, `[[`, "devices")))
  run$seconds <- do.call(pmax, lapply(runs, `[[`, "seconds"))
  run
}
