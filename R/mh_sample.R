#' Sample by Metropolis-Hastings
#'
#' Runs many chains for many steps, adapts the proposal in a warm-up, and keeps draws, or only their sums.
#'
#' @param target Density to sample from, such as [density_glm()]; it need not be normalised.
#' @param init Starting points:
#'   * a matrix n_chains x n_dim (or a data frame of numbers): a chain starts at each row;
#'   * n_dim numbers: chains are scattered around them by normals of sd 0.1;
#'   * a density that [draw()] can draw from: starts are drawn;
#'   * an earlier result: chains start at its last states, with its step size. It needs another `seed`;
#'   * `NULL`: standard normals; for [density_glm()] normals around the prior mean, of the prior's sd, but at most 1.
#'
#'   Names of columns, or of the numbers, become names of parameters; without them the target's own are taken.
#' @param n_chains Number of chains: a whole number from 1 on. Where `init` is a matrix or an earlier result it says
#'   how many, and `n_chains` may be left out.
#' @param n_steps Steps of every chain after warm-up: a whole number, a multiple of `thin`. 0 only warms up.
#' @param n_warmup Steps of every chain before that; nothing of them is kept. `NULL`: half of `n_steps` where `adapt`,
#'   else 0.
#' @param thin Every `thin`-th state after warm-up is kept. The others are never stored.
#' @param step_size Scale of the proposal as in [mh_step()]: a number, one per dim, or a Cholesky factor; where
#'   `adapt`, the one that warm-up starts from. `NULL`: 2.38 / sqrt(n_dim), or the step size of an earlier result.
#' @param adapt Whether warm-up adapts the step size. After warm-up it never changes.
#' @param adapt_shape What warm-up learns from the states besides the scale: `"diagonal"`, a standard deviation per
#'   dim; `"full"`, the covariance (n_dim^2 numbers); or `"none"`, so that `step_size` is only multiplied.
#' @param target_acceptance Acceptance rate that the scale is tuned to: a number between 0 and 1. `NULL`: 0.441, 0.352,
#'   0.316, 0.279 and 0.275 in 1 to 5 dims, 0.234 in more.
#' @param keep `"draws"`: every kept state; or `"summary"`: only sums over kept states and a sample of at most 2e6
#'   numbers, from states at a regular stride.
#' @param n_superchains Number of groups of chains that start at one point, for nested R-hat; it divides `n_chains`.
#'   Neighbouring chains make a group, and all start where the first would. `NULL`: 16 where the function makes the
#'   starts and there are 32 chains or more, in a multiple of 16; else every chain is a group of its own.
#' @param batch Length of the batches for Monte Carlo standard errors, in kept states. `NULL`: the square root of the
#'   number of kept states, rounded down.
#' @param devices Where to run, in place of `backend`: numbers of GPUs from 0, or `"cpu"`, or several of these, such as
#'   `c("cpu", 0, 1)`, over which chains are split.
#' @param workers `NULL`, or a number of parts that the chains are split into after warm-up, to be run by \pkg{future}
#'   under the [future::plan()] that is set.
#' @param progress Whether progress is shown, on the standard error. `NULL`: in interactive sessions, but not while
#'   knitting.
#' @inheritParams mh_step
#'
#' @details
#' A chain's path depends on its start, `seed`, its number and the step size alone. So with `adapt = FALSE` chain i is
#' the same whatever the number of chains, and `mh_step(seed = seed, step = t)` for t = 0, 1, ... walks the same path.
#' Warm-up takes steps 0 to n_warmup - 1.
#'
#' Warm-up starts with windows of 10 steps, until some proposals are accepted and some are not (a fifth of it at most);
#' then windows grow from 25 steps to 200, or to a twentieth of a long warm-up. After each, the logarithm of the scale
#' moves towards `target_acceptance` by the difference in the logit of the acceptance rate (Robbins-Monro), the rate
#' being that of all chains; a move is by a factor of 10 at most. The shape is learnt from the states of all chains at
#' the window's end where there are many chains (100, and 5 per dim for `"full"`), else from the second half of all
#' states so far; the last window leaves it alone. A covariance is shrunk towards its diagonal. All this is computed in
#' an order that is fixed, so the step size is the same on every machine.
#'
#' Ctrl-C ends the run early: what has been done comes back, with a warning of class `fusedmc_warning_interrupted`, and
#' [mh_resume()] goes on from there. A run that is stopped in warm-up goes on without adapting further.
#'
#' Timings and where the run took place are in `fit$run` and nowhere else. To compare two results to the bit, take that
#' part away: `fit$run <- NULL`.
#'
#' @section Several processes:
#' `workers = 4` warms up here and runs four parts of the chains by \pkg{future}. The result is the same to the bit.
#' By hand, on any machines: warm up with `n_steps = 0`, split by [mh_split()], continue each part by [mh_resume()],
#' and join them by [mh_bind()].
#'
#' @return A list of class `mh_draws`, a plain R object that can be saved:
#'   * `draws`: array n_kept x n_chains x n_dim with the names of the parameters, where `keep = "draws"`, else `NULL`;
#'   * `sample`: where `keep = "summary"`, the kept states at a stride of `settings$store`, in the same form; `NULL`
#'     where one state of all chains has more than 2e6 numbers (`state$x` is the last one);
#'   * `state`: what the next step needs, and the sums: `x`, `log_density`, `step`, `n_accepted`, `n_steps`,
#'     `not_finite` (number of proposals with a log density of `NaN` or `+Inf`, warm-up included; step and row of the
#'     first), `sums`, `n_kept` and others;
#'   * `acceptance`: the acceptance rate of each chain after warm-up, `NaN` without steps;
#'   * `step_size`: the step size after warm-up, n_dim numbers or a lower Cholesky factor;
#'   * `settings`: `n_warmup`, `thin`, `keep`, `store`, `batch`, `precision`, `adapt_shape`, `target_acceptance`;
#'   * `seed`, `chain_offset`, `target`, `parameters` (names), `superchain` (the group of each chain);
#'   * `warmup`: a data frame with a row per window: `first_step`, `n_steps`, `scale`, `acceptance`, `shape_updated`;
#'   * `run`: backend, devices, workers and seconds; `version`: of the package.
#'
#'   It has methods for `print()`, `summary()`, `plot()`, `dim()` (n_kept, n_chains, n_dim), `[` (chains, parameters),
#'   `vcov()`, and for \pkg{posterior} and \pkg{coda}, where these are installed.
#' @section Errors:
#' `fusedmc_error_input` for arguments of the wrong type, shape or range, and naming the rows where a start or its log
#' density is not finite; `fusedmc_error_memory` where the result would take more than half of the free memory
#' (`options(fusedmc.max_gb = )` sets another limit) or memory runs out; `fusedmc_error_cuda` where a GPU that is asked
#' for cannot be had.
#' @references
#' Gelman, Roberts and Gilks (1996), Efficient Metropolis jumping rules, *Bayesian Statistics 5*, 599-607.
#'
#' Margossian, Hoffman, Sountsov, Riou-Durand, Vehtari and Gelman (2024), Nested R-hat: assessing the convergence of
#' Markov chain Monte Carlo when running many short chains, *Bayesian Analysis*.
#' @seealso [mh_resume()], [summary.mh_draws()], [mh_step()], [mh_split()]
#' @export
#' @examples
#' post <- density_glm(am ~ wt, mtcars, family = binomial())
#' fit <- mh_sample(post, n_chains = 64, n_steps = 500, seed = 1)
#' fit
#' fit$step_size
#'
#' # nothing stored but sums and a sample
#' big <- mh_sample(
#'   density_normal(c(0, 5), 1), n_chains = 1000, n_steps = 200, keep = "summary", seed = 1
#' )
#' summary(big)
mh_sample <- function(target, init = NULL, n_chains = 1024, n_steps = 1000, n_warmup = NULL, thin = 1,
                      step_size = NULL, adapt = TRUE, adapt_shape = c("diagonal", "full", "none"),
                      target_acceptance = NULL, keep = c("draws", "summary"), n_superchains = NULL, batch = NULL,
                      seed = NULL, chain_offset = 0, precision = c("double", "single"),
                      backend = getOption("fusedmc.backend", "auto"), devices = NULL, workers = NULL,
                      progress = NULL) {
  if (!inherits(target, "fusedmc_density")) {
    abort_input("target", "a density, such as density_normal(0, 1)", target)
  }
  check_flag(adapt, "adapt")
  shape <- check_choice(
    if (missing(adapt_shape)) "diagonal" else adapt_shape, c("diagonal", "full", "none"), "adapt_shape"
  )
  keep <- check_choice(if (missing(keep)) "draws" else keep, c("draws", "summary"), "keep")
  precision <- check_precision(if (missing(precision)) "double" else precision)
  thin <- check_positive_whole(thin, "thin")
  n_steps <- check_n_steps(n_steps, thin)
  n_warmup <- check_n_warmup(n_warmup, n_steps, adapt)
  check_last_step(n_warmup, n_steps)
  batch <- check_batch(batch, n_steps / thin)
  workers <- check_workers(workers)
  report <- new_progress(n_warmup + n_steps, progress)
  seed <- check_run_seed(seed, init)
  chain_offset <- check_whole(chain_offset, 2^53, "chain_offset", "2^53")
  starts <- find_starts(init, target, if (!missing(n_chains)) n_chains, n_superchains, seed, chain_offset)
  n_dim <- ncol(starts$x)
  step_size <- check_first_step(if (is.null(step_size)) starts$step_size else step_size, n_dim, adapt)
  settings <- list(
    n_warmup = n_warmup, thin = thin, keep = keep, store = first_stride(keep, n_steps / thin, starts$x), batch = batch,
    precision = precision, adapt_shape = if (adapt) shape else NA_character_,
    target_acceptance = check_target_acceptance(target_acceptance, n_dim, adapt)
  )
  check_fits(n_steps / thin, nrow(starts$x), n_dim, keep)
  devices <- check_devices(devices, backend, target, starts$x, n_warmup + n_steps, precision)

  state <- new_run_state(target, starts$x, precision, devices, starts$parameters)
  fit <- new_mh_draws(target, state, step_size, settings, seed, chain_offset, starts, devices)
  fit <- warm_up(fit, adapt, devices, report)
  fit$state <- begin_sums(fit$state, batch)
  if (fit$run$interrupted) {
    return(finish_run(fit, n_steps, state))
  }
  finish_run(take_samples(fit, n_steps, devices, workers, report), n_steps, state)
}

# ---- what both mh_sample() and mh_resume() do ------------------------------------------------

# run_steps() for a fit; `done` is what the progress has seen before.
advance <- function(fit, state, step_size, n_steps, thin, store, devices, report, done) {
  if (nrow(state$x) == 0 || n_steps == 0) {
    return(skip_steps(state, n_steps, thin, store))
  }
  progress <- if (!is.null(report)) function(n) report$at(done + n)
  run_steps(
    fit$target, state, step_size, n_steps, thin, store, fit$seed, fit$chain_offset, fit$settings$precision, devices,
    progress, fit$parameters
  )
}

# Steps of no chains.
skip_steps <- function(state, n_steps, thin, store) {
  n_before <- kept_after(state, 0, thin)$n_kept
  after <- kept_after(state, n_steps, thin)
  state$step <- state$step + n_steps
  state$n_steps <- state$n_steps + n_steps
  if (!is.null(state$sums)) {
    state[c("n_kept", "n_since")] <- after
  }
  draws <- if (store > 0) array(0, c(after$n_kept %/% store - n_before %/% store, dim(state$x)))
  list(state = state, draws = draws, n_done = n_steps, interrupted = FALSE)
}

take_samples <- function(fit, n_steps, devices, workers, report) {
  started <- proc.time()[[3]]
  fit <- if (is.null(workers)) {
    continue_run(fit, n_steps, devices, report)
  } else {
    continue_in_parts(fit, n_steps, devices, workers)
  }
  fit$run$seconds[["sampling"]] <- fit$run$seconds[["sampling"]] + proc.time()[[3]] - started
  if (!is.null(report)) {
    report$close()
  }
  fit
}

# n_steps more of sampling, in this process.
continue_run <- function(fit, n_steps, devices, report = NULL) {
  settings <- fit$settings
  fit <- restride(fit, kept_after(fit$state, n_steps, settings$thin)$n_kept)
  done <- if (fit$run$fresh) settings$n_warmup else 0
  # run_steps() gives back what is done; where Ctrl-C comes just before or after it, nothing is
  result <- tryCatch(
    advance(fit, fit$state, fit$step_size, n_steps, settings$thin, fit$settings$store, devices, report, done),
    interrupt = function(condition) list(state = fit$state, interrupted = TRUE)
  )
  fit$state <- result$state
  fit$acceptance <- fit$state$n_accepted / fit$state$n_steps
  fit$run$interrupted <- result$interrupted
  if (!is.null(result$draws)) {
    what <- if (settings$keep == "draws") "draws" else "sample"
    fit[[what]] <- append_states(fit[[what]], result$draws, fit$parameters)
  }
  fit
}

# Says what went wrong on the way. `before` is the state that the call started from.
finish_run <- function(fit, n_steps, before) {
  after <- fit$state
  bad <- after$not_finite
  if (bad[["n"]] > before$not_finite[["n"]]) {
    message <- sprintf(
      "Rejected %s with a log density of NaN or +Inf; the first: row %s (chain %s) at step %s.",
      counted(bad[["n"]], "proposal"), format(bad[["row"]], scientific = FALSE),
      format(fit$chain_offset + bad[["row"]] - 1, scientific = FALSE), format(bad[["step"]], scientific = FALSE)
    )
    warn("nonfinite", message, n = bad[["n"]])
  }
  if (fit$run$interrupted) {
    n_done <- after$step - before$step
    where <- if (after$n_kept == 0 && n_steps > 0) " in warm-up, which will not be taken up again" else ""
    message <- sprintf(
      "Interrupted after %s%s; the result holds %s. mh_resume() goes on from there.", counted(n_done, "step"), where,
      counted(after$n_kept, "kept state")
    )
    warn("interrupted", message, n_steps = n_done)
  }
  fit$run$interrupted <- fit$run$fresh <- NULL
  fit
}

# ---- checks ----------------------------------------------------------------------------------

check_positive_whole <- function(x, arg, upper = 2^31 - 1, shown_upper = "2^31 - 1") {
  if (!qtest(x, "N1[1,]") || is.object(x) || x > upper || x != floor(x)) {
    abort_input(arg, sprintf("a whole number from 1 to %s", shown_upper), x)
  }
  as.double(x)
}

# A run that Ctrl-C ended may stand between two kept states, n_since steps after the first; any number continues it.
check_n_steps <- function(n_steps, thin, n_since = 0) {
  n_steps <- check_whole(n_steps, 2^32 - 1, "n_steps", "2^32 - 1")
  if (n_steps %% thin != 0 && n_since == 0) {
    abort_input("n_steps", sprintf("a multiple of `thin`, %s", format(thin, scientific = FALSE)), n_steps)
  }
  n_steps
}

check_n_warmup <- function(n_warmup, n_steps, adapt) {
  if (is.null(n_warmup)) {
    return(if (adapt) n_steps %/% 2 else 0)
  }
  check_whole(n_warmup, 2^32 - 1, "n_warmup", "2^32 - 1")
}

# Steps are numbered by 32 bits.
check_last_step <- function(step, n_steps) {
  if (step + n_steps > 2^32) {
    rule <- sprintf("at most %s, for a run has no more than 2^32 steps", format(2^32 - step, scientific = FALSE))
    abort_input("n_steps", rule, n_steps)
  }
}

check_batch <- function(batch, n_kept) {
  if (is.null(batch)) {
    return(floor(sqrt(if (n_kept == 0) 1000 else n_kept)))
  }
  check_positive_whole(batch, "batch")
}

check_run_seed <- function(seed, init) {
  seed <- check_seed(seed)
  if (inherits(init, "mh_draws") && seed == init$seed) {
    abort_input("seed", "another than that of `init`, whose states depend on it (mh_resume() continues a run)", seed)
  }
  seed
}

check_first_step <- function(step_size, n_dim, adapt) {
  step_size <- check_step_size(if (is.null(step_size)) 2.38 / sqrt(n_dim) else step_size, n_dim)
  scales <- if (is.matrix(step_size)) diag_of(step_size) else step_size
  if (adapt && any(scales == 0)) {
    abort_input("step_size", "positive where `adapt` is TRUE", min(scales))
  }
  step_size
}

best_acceptance <- c(0.441, 0.352, 0.316, 0.279, 0.275)

check_target_acceptance <- function(rate, n_dim, adapt) {
  if (is.null(rate)) {
    best <- if (n_dim <= length(best_acceptance)) best_acceptance[n_dim] else 0.234
    return(if (adapt) best else NA_real_)
  }
  if (!qtest(rate, "N1(0,1)") || is.object(rate)) {
    abort_input("target_acceptance", "a number between 0 and 1", rate)
  }
  as.double(rate)
}

# A list of "cpu" and numbers of GPUs.
check_devices <- function(devices, backend, target, x, n_steps, precision) {
  n_chains <- as.double(nrow(x))
  numbers <- n_chains * ncol(x)
  nodes <- if (!is_in_r(target)) density_nodes(target, ncol(x))
  check_density_range(nodes, precision, "target")
  cpu_ns <- n_steps * (6 * numbers + n_chains * nodes_ns(nodes))
  if (is.null(devices)) {
    run <- check_run(backend, 0L, cpu_ns = cpu_ns, bytes = 48 * numbers, nodes = nodes)
    return(list(if (run[[1]] == "cpu" || is_in_r(target)) "cpu" else run[[2]]))
  }
  if (!is.atomic(devices) || length(devices) == 0 || anyNA(devices)) {
    abort_devices(devices)
  }
  lapply(devices, check_device, cpu_ns = cpu_ns)
}

check_device <- function(device, cpu_ns) {
  if (identical(device, "cpu")) {
    return("cpu")
  }
  number <- suppressWarnings(as.numeric(device))
  if (is.na(number) || number < 0 || number != floor(number)) {
    abort_devices(device)
  }
  check_run("cuda", number, cpu_ns = cpu_ns, bytes = 0)[[2]]
}

abort_devices <- function(devices) {
  abort_input("devices", "\"cpu\", a number of a GPU from 0 on, or several of these", devices)
}

# Refuses a result that memory has no room for, before anything runs.
check_fits <- function(n_kept, n_chains, n_dim, keep, n_before = 0) {
  numbers <- as.double(n_chains) * n_dim
  # the states with their sums, twice while they change
  bytes <- 8 * (12 * numbers + if (keep == "draws") (n_before + n_kept) * numbers + n_before * numbers else 0)
  limit <- memory_limit()
  if (bytes > limit) {
    message <- sprintf(
      "The result (%s kept, of %s in %s) would take %.3g GB; the limit is %.3g GB. %s",
      counted(if (keep == "draws") n_before + n_kept else 0, "state"), counted(n_chains, "chain"),
      counted(n_dim, "dim"), bytes / 1e9, limit / 1e9,
      "Use keep = \"summary\", a larger `thin`, or options(fusedmc.max_gb = )."
    )
    abort("memory", message, bytes = bytes)
  }
}

# Half of what is free, where the system says.
memory_limit <- function() {
  limit <- getOption("fusedmc.max_gb")
  if (!is.null(limit)) {
    if (!qtest(limit, "N1(0,]")) {
      abort_input("options(fusedmc.max_gb)", "a positive number, or NULL", limit)
    }
    return(limit * 1e9)
  }
  known <- tryCatch(
    grep("^MemAvailable:", readLines("/proc/meminfo"), value = TRUE),
    error = function(e) character(), warning = function(w) character()
  )
  if (length(known) == 1) as.numeric(gsub("[^0-9]", "", known)) * 1024 / 2 else 16e9
}
