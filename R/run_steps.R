# Many steps: the door to C that sampling goes through. A run is carried by its state, a list of
#   x, log_density     n_chains x n_dim and n_chains: where the chains are
#   step               index of the next step
#   n_accepted, n_steps  accepted steps of each chain, and the steps they are counted over
#   not_finite         c(n, step, row): proposals of a log density of NaN or +Inf; step and row of the first, or NA
#   sums, shift, range, batch, n_kept, n_since  running sums of kept states, see begin_sums(); sums is NULL before
# It is the same to the bit however the steps are cut into calls.

# The state at step 0, from checked starts. A log density that is not finite there is an error that names the rows.
# `parameters`: names of the dims, which a function of R may go by, or NULL.
new_run_state <- function(target, x, precision, devices, parameters = NULL) {
  if (precision == "single") {
    x[] <- round_to_float(x)
  }
  log_density <- evaluate_on(target, x, precision, devices, parameters)
  bad <- which(!is.finite(log_density))
  if (length(bad) > 0) {
    check_starts(x, target, list(n_start = length(bad), start_rows = utils::head(bad, 5)))
  }
  list(
    x = x, log_density = log_density, step = 0, n_accepted = numeric(nrow(x)), n_steps = 0,
    not_finite = c(n = 0, step = NA, row = NA)
  )
}

# Log densities at the rows of x, for a run on `devices`.
evaluate_on <- function(density, x, precision, devices, parameters = NULL) {
  if (is_in_r(density)) {
    return(evaluate_named(density, x, precision, parameters))
  }
  unname(evaluate_nodes(density, x, precision, if (identical(devices, list("cpu"))) "cpu" else "auto", 0L))
}

evaluate_named <- function(density, x, precision, parameters) {
  colnames(x) <- parameters
  unname(evaluate_in_r(density, x, precision))
}

# Zeroes the sums. They are of d = x - shift, an entry per chain and dim: batch, of the batch that is not yet full;
# total, of full batches; squares, of d^2; batch_squares, of the squared sums of full batches. `batch` is the number of
# kept states of a batch, `range` the smallest and largest kept state of each dim; n_since counts the steps since the
# last kept state.
begin_sums <- function(state, batch) {
  n_chains <- nrow(state$x)
  n_dim <- ncol(state$x)
  what <- c("batch", "total", "squares", "batch_squares")
  state$sums <- array(0, c(n_chains, n_dim, length(what)), list(NULL, NULL, what))
  state$shift <- vapply(seq_len(n_dim), function(d) core_sum(state$x[, d]) / n_chains, 0)
  state$range <- matrix(c(Inf, -Inf), n_dim, 2, byrow = TRUE, dimnames = list(NULL, c("min", "max")))
  state$batch <- batch
  state$n_kept <- 0
  state$n_since <- 0
  count_anew(state)
}

# Counts accepted steps anew.
count_anew <- function(state) {
  state$n_accepted <- numeric(nrow(state$x))
  state$n_steps <- 0
  state
}

# Takes n_steps steps. After every thin-th the state is kept: the sums take it in, and kept states number store, 2
# store, ... are stored in draws (n_stored x n_chains x n_dim; none where store is 0). `devices` is a
# list of "cpu" and GPU numbers, over which the chains are split; `progress` is told the number of steps that are done.
# Returns list(state, draws, n_done, interrupted): Ctrl-C ends a run early with all that it has done.
run_steps <- function(target, state, step_size, n_steps, thin = 1, store = 0, seed, chain_offset = 0,
                      precision = "double", devices = list("cpu"), progress = NULL, parameters = NULL) {
  before <- kept_after(state, 0, thin)
  plan <- c(seed, state$step, chain_offset, n_steps, thin, store, before$n_kept, before$n_since)
  result <- if (is_in_r(target)) {
    run_in_r(target, state, step_size, plan, precision, parameters, progress)
  } else {
    run_in_c(target, state, step_size, plan, precision, devices, progress)
  }
  n_done <- result$n_done
  bad <- result$not_finite
  first <- if (state$not_finite[["n"]] > 0) state$not_finite[-1] else bad[-1]
  state$not_finite <- c(n = state$not_finite[["n"]] + bad[[1]], step = first[[1]], row = first[[2]])
  state$x <- result$x
  state$log_density <- result$log_density
  state$step <- state$step + n_done
  state$n_accepted <- state$n_accepted + result$n_accepted
  state$n_steps <- state$n_steps + n_done
  if (!is.null(state$sums)) {
    dimnames <- dimnames(state$sums)
    state$sums <- result$sums
    dimnames(state$sums) <- dimnames
    # + 0 makes -0 and 0, which compare as equal, the same
    state$range[] <- matrix(result$range + 0, ncol = 2, byrow = TRUE)
    state[c("n_kept", "n_since")] <- kept_after(state, n_done, thin)
  }
  draws <- result$draws
  if (result$interrupted && !is.null(draws)) {
    n_stored <- (before$n_kept + (before$n_since + n_done) %/% thin) %/% store - before$n_kept %/% store
    draws <- draws[seq_len(n_stored), , , drop = FALSE]
  }
  list(state = state, draws = draws, n_done = n_done, interrupted = result$interrupted)
}

# States kept and steps since the last of them, n_steps later; without sums a call counts for itself.
kept_after <- function(state, n_steps, thin) {
  if (is.null(state$sums)) {
    return(list(n_kept = n_steps %/% thin, n_since = n_steps %% thin))
  }
  n_since <- state$n_since + n_steps
  list(n_kept = state$n_kept + n_since %/% thin, n_since = n_since %% thin)
}

run_in_c <- function(target, state, step_size, plan, precision, devices, progress) {
  n_dim <- ncol(state$x)
  nodes <- density_nodes(target, n_dim)
  check_density_range(nodes, precision, "target")
  sizes <- split_chains(nrow(state$x), length(devices))
  devices <- devices[sizes > 0]
  sizes <- sizes[sizes > 0]
  step_ns <- n_dim * (4 + if (is.matrix(step_size)) 0.3 * n_dim else 0) + nodes_ns(nodes)
  runs <- Map(function(device, size) {
    on_cpu <- identical(device, "cpu")
    cpu_ns <- size * plan[4] * step_ns
    list(if (on_cpu) "cpu" else "cuda", if (on_cpu) 0L else as.integer(device), check_threads(), cpu_ns)
  }, devices, sizes)
  linked <- lapply(runs, function(run) linked(nodes, precision, run))
  sums <- if (!is.null(state$sums)) {
    list(state$sums, state$shift, as.vector(t(state$range)), as.double(state$batch))
  }
  check_result(.Call(
    C_ffi_mh_run, state$x, state$log_density, linked, step_size, as.double(plan), sums, precision == "single",
    progress, list(unname(runs), as.double(sizes))
  ), if (length(runs) > 1) "parallel" else runs[[1]][[1]])
}

# Contiguous parts, as equal as can be.
split_chains <- function(n_chains, n_parts) {
  n_chains %/% n_parts + (seq_len(n_parts) <= n_chains %% n_parts)
}

# The same for a density that is evaluated in R: proposals and decisions in C, a step at a time. `now` changes only
# between steps, so what stands there is whole when Ctrl-C comes.
run_in_r <- function(target, state, step_size, plan, precision, parameters, progress) {
  plan <- as.list(plan)
  names(plan) <- c("seed", "first_step", "chain_offset", "n_steps", "thin", "store", "n_before", "n_since")
  draws <- room_for_draws(plan, dim(state$x))
  now <- list(
    x = state$x, log_density = state$log_density, n_accepted = numeric(nrow(state$x)),
    not_finite = c(0, NA, NA), sums = state$sums,
    range = if (!is.null(state$range)) as.vector(t(state$range)), n_done = 0, n_stored = 0
  )
  advance <- function() {
    after <- step_in_r(now, target, step_size, plan, precision, parameters)
    n_kept <- plan$n_before + (plan$n_since + after$n_done) %/% plan$thin
    kept <- (plan$n_since + after$n_done) %% plan$thin == 0
    if (kept && !is.null(state$sums)) {
      after[c("sums", "range")] <- add_to_sums(after, state, n_kept)
    }
    if (kept && plan$store > 0 && n_kept %% plan$store == 0) {
      after$n_stored <- now$n_stored + 1
      draws[after$n_stored, , ] <<- after$x
    }
    now <<- after
  }
  interrupted <- tryCatch(
    {
      last <- proc.time()[[3]]
      while (now$n_done < plan$n_steps) {
        advance()
        if (!is.null(progress) && proc.time()[[3]] - last > 0.1) {
          last <- proc.time()[[3]]
          progress(now$n_done)
        }
      }
      FALSE
    },
    interrupt = function(condition) TRUE
  )
  c(
    now[c("x", "log_density", "n_accepted", "not_finite", "sums", "range", "n_done")],
    list(draws = draws, interrupted = interrupted)
  )
}

room_for_draws <- function(plan, dim) {
  if (plan$store > 0) {
    n_kept <- plan$n_before + (plan$n_since + plan$n_steps) %/% plan$thin
    array(NA_real_, c(n_kept %/% plan$store - plan$n_before %/% plan$store, dim))
  }
}

# One step from `now`.
step_in_r <- function(now, target, step_size, plan, precision, parameters) {
  index <- plan$first_step + now$n_done
  rng <- c(plan$seed, index, plan$chain_offset)
  run <- list("cpu", 0L, check_threads(), length(now$x) * 6)
  call_c <- function(given) {
    result <- .Call(C_ffi_mh_step, now$x, NULL, step_size, NULL, NULL, rng, precision == "single", given, run)
    check_result(result, "cpu")
  }
  result <- call_c(list(now$log_density, evaluate_named(target, call_c(NULL), precision, parameters)))
  bad <- result$not_finite
  if (bad$n_proposal > 0 && now$not_finite[1] == 0) {
    now$not_finite[2:3] <- c(index, bad$first_proposal)
  }
  now$not_finite[1] <- now$not_finite[1] + bad$n_proposal
  now$x <- result$x
  now$log_density <- result$log_density
  now$n_accepted <- now$n_accepted + result$accepted
  now$n_done <- now$n_done + 1
  now
}

add_to_sums <- function(now, state, n_kept) {
  d <- now$x - rep(state$shift, each = nrow(now$x))
  sums <- now$sums
  sums[, , "batch"] <- sums[, , "batch"] + d
  sums[, , "squares"] <- sums[, , "squares"] + d^2
  if (n_kept %% state$batch == 0) {
    sums[, , "total"] <- sums[, , "total"] + sums[, , "batch"]
    sums[, , "batch_squares"] <- sums[, , "batch_squares"] + sums[, , "batch"]^2
    sums[, , "batch"] <- 0
  }
  extremes <- apply(now$x, 2, range)
  least <- pmin(now$range[c(TRUE, FALSE)], extremes[1, ])
  most <- pmax(now$range[c(FALSE, TRUE)], extremes[2, ])
  list(sums = sums, range = as.vector(rbind(least, most)))
}
