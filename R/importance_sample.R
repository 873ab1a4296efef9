#' Importance sampling
#'
#' Draws from a proposal, weighs the draws towards a target and sums them, in one pass that stores nothing unless it is
#' asked to: the number of draws is not bounded by memory.
#'
#' @param target Density to integrate over; it need not be normalised.
#' @param proposal Density to draw from, one that [draw()] takes; or a list of J of them, a deterministic mixture:
#'   sample number i, counted from 0, comes from proposal i mod J, and is weighed against the mixture of all with equal
#'   weights.
#' @param n Number of samples: a whole number from 0 to 2^53. With a list of J proposals best a multiple of J.
#' @param offset Number of the first sample: a whole number from 0 to 2^53. Calls with the same seed and neighbouring
#'   ranges are parts of one run, which [is_merge()] joins.
#' @param keep `"summary"`: nothing but sums; `"draws"`: the draws and their log weights too; or `"resampled"`:
#'   `n_resample` of the draws, chosen by their weights with replacement.
#' @param n_resample Number of draws to choose where `keep = "resampled"`: a whole number from 1 to 2^31 - 1.
#' @param method How they are chosen: `"systematic"`, `"stratified"` or `"multinomial"`, see [resample()].
#' @param covariance Whether the covariance matrix is wanted, which takes n_dim (n_dim + 1) / 2 sums in place of n_dim.
#' @param n_adapt Number of draws of each of the ten rounds of [adapt_proposal()] that go before; 0 for none. They
#'   depend on `seed`, not on `offset`, so parts of one run adapt alike.
#' @param n_tail Number of largest log weights that are kept for `pareto_k`: a whole number from 0 to 2^24.
#' @param n_dim Number of dims, where target and proposal fit any number; else `NULL`.
#' @param devices Where to run, in place of `backend`: numbers of GPUs from 0, or `"cpu"`, or several of these, over
#'   which the samples are split; one after the other does its part.
#' @param workers `NULL`, or a number of parts that the samples are split into, to be run by \pkg{future} under the
#'   [future::plan()] that is set.
#' @inheritParams is_weights
#' @inheritParams mh_sample
#'
#' @details
#' With draws \eqn{x_i} and log weights \eqn{l_i = \log p(x_i) - \log q(x_i)}, where q is the proposal or the mixture
#' of all proposals with equal weights (the balance heuristic), and \eqn{w_i = \exp(l_i) / \sum_j \exp(l_j)}:
#'
#' * `mean`: \eqn{m = \sum_i w_i x_i};
#' * `cov`: \eqn{\sum_i w_i (x_i - m) (x_i - m)'}, and `sd` the roots of its diagonal. They are those of the weighted
#'   sample, not corrected for its size;
#' * `ess`: \eqn{1 / \sum_i w_i^2}, Kish's effective sample size, and `relative_efficiency` = `ess` / `n`;
#' * `log_mean_weight`: \eqn{\log \frac{1}{n} \sum_i \exp(l_i)}, the log of the ratio of the densities' normalising
#'   constants, so the log evidence where the proposal is normalised;
#' * `log_mean_weight_se`: \eqn{\sqrt{(n / \mathrm{ess} - 1) / n}}, its standard error by the delta method. It takes
#'   samples as independent of one distribution; for a list of proposals the truth is rather less;
#' * `max_share`: the largest \eqn{w_i};
#' * `pareto_k`: the shape of a generalised Pareto distribution fitted to the largest weights, by \pkg{loo} where that
#'   is installed. See [summary.is_draws()] for what it says.
#'
#' With a list of proposals each of them must be normalised, so products and tempered densities are refused there. The
#' weights belong to J samples that come together; where `n` is no multiple of J the bias is of order J / n.
#'
#' Sample number i is row i + 1 of `draw(proposal, n, seed)`. Sums are taken in an order that depends on the numbers of
#' the samples alone, over tiles of 4096. So the result is the same to the bit on the CPU and the GPU, for any number of
#' threads, `devices` and `workers`; and runs over neighbouring ranges that meet at a multiple of 4096 are joined by
#' [is_merge()] to what one run gives. In single precision draws and densities are floats and sums are doubles.
#'
#' Ctrl-C ends the run early: what has been done comes back, with a warning of class `fusedmc_warning_interrupted`; a
#' second call from there and [is_merge()] complete it.
#'
#' Timings and where the run took place are in `fit$run` and nowhere else.
#'
#' @return A list of class `is_draws`, a plain R object that can be saved:
#'   * `draws`: n x n_dim with the names of the parameters where `keep = "draws"`, n_resample x n_dim where
#'     `keep = "resampled"`, else `NULL`;
#'   * `log_weights`: n log weights, unnormalised, where `keep = "draws"`; `-Inf` for a dropped sample; else `NULL`;
#'   * `mean`, `sd`: n_dim numbers, named by the parameters; `cov`: n_dim x n_dim, or `NULL`;
#'   * `ess`, `relative_efficiency`, `log_mean_weight`, `log_mean_weight_se`, `max_share`, `pareto_k`: numbers;
#'   * `n`, `n_zero` (weights of zero by a log weight of `-Inf`), `n_bad` (log weights of `NaN` or `+Inf`) and
#'     `first_bad` (number of the first of these samples, or `NA`);
#'   * `seed`, `offset`, `target`, `proposal`, `parameters`, `settings`;
#'   * `sums`: the mergeable sums;
#'   * `run`: backend, devices, workers and seconds; `version`: of the package.
#'
#'   Where every log weight is `-Inf` the log mean weight is `-Inf`, `ess` is 0 and the others are `NA`, with one
#'   warning. `log_mean_weight_se` is `NA` for fewer than two samples; `pareto_k` where it cannot be computed: fewer
#'   than five tail weights, all of them the same, or \pkg{loo} not installed.
#'
#'   It has methods for `print()`, `summary()`, `plot()`, `vcov()`, `weights()` and for \pkg{posterior}.
#' @section Errors:
#' `fusedmc_error_input` for arguments of the wrong type, shape or range, and where the proposal cannot be drawn from;
#' `fusedmc_error_nonfinite` where a log weight is `NaN` or `+Inf` and `nonfinite = "error"`, with the count and the
#' number of the first sample; also where weights are to be resampled and all are zero; `fusedmc_error_memory` where the
#' draws would take more than half of the free memory (`options(fusedmc.max_gb = )` sets another limit) or memory runs
#' out; `fusedmc_error_cuda` where a GPU that is asked for cannot be had.
#' @references
#' Owen (2013), *Monte Carlo theory, methods and examples*, chapter 9.
#'
#' Veach and Guibas (1995), Optimally combining sampling techniques for Monte Carlo rendering, *SIGGRAPH 95*, 419-428.
#'
#' Hesterberg (1995), Weighted average importance sampling and defensive mixture distributions, *Technometrics* 37,
#' 185-194.
#' @seealso [is_merge()], [is_summary()], [summary.is_draws()], [adapt_proposal()], [is_weights()]
#' @export
#' @examples
#' target <- density_mixture(c(0.3, 0.7), means = rbind(c(-1, 0), c(2, 1)), sds = 1)
#' is <- importance_sample(target, density_student_t(5, scale = 2), n = 1e5, seed = 1)
#' is
#' is$mean # 0.3 * c(-1, 0) + 0.7 * c(2, 1) = c(1.1, 0.7) is expected
#'
#' # two proposals, of which each covers a part
#' both <- list(density_normal(c(-1, 0), 1.2), density_normal(c(2, 1), 1.2))
#' importance_sample(target, both, n = 1e5, seed = 1, keep = "draws")
importance_sample <- function(target, proposal, n, seed = NULL, offset = 0, keep = c("summary", "draws", "resampled"),
                              n_resample = 4000, method = c("systematic", "stratified", "multinomial"),
                              covariance = FALSE, n_adapt = 0, n_tail = 16384, n_dim = NULL,
                              nonfinite = c("error", "drop"), precision = c("double", "single"),
                              backend = getOption("fusedmc.backend", "auto"), devices = NULL, workers = NULL,
                              progress = NULL) {
  started <- proc.time()[[3]]
  n <- check_whole(n, 2^53, "n", "2^53")
  offset <- check_offset(offset, n)
  keep <- check_choice(if (missing(keep)) "summary" else keep, c("summary", "draws", "resampled"), "keep")
  methods <- c("systematic", "stratified", "multinomial")
  chosen <- list(
    n = check_positive_whole(n_resample, "n_resample"),
    method = check_choice(if (missing(method)) methods[1] else method, methods, "method")
  )
  precision <- check_precision(if (missing(precision)) "double" else precision)
  nonfinite <- check_choice(if (missing(nonfinite)) "error" else nonfinite, c("error", "drop"), "nonfinite")
  settings <- is_settings(keep == "draws", precision, covariance, n_tail)
  n_adapt <- check_whole(n_adapt, 2^31 - 1, "n_adapt", "2^31 - 1")
  workers <- check_workers(workers)
  n_dim <- check_is_densities(target, proposal, n_dim)
  check_size_of_covariance(covariance, n_dim)
  report <- new_progress(n, progress, "sample")
  seed <- check_seed(seed)
  check_draws_fit(if (keep == "draws") n else if (keep == "resampled") chosen$n else 0, n_dim)
  runs <- check_is_devices(devices, backend, target, proposal, n_dim, n, settings)
  if (n_adapt > 0) {
    proposal <- adapt_rounds(new_is_plan(target, proposal, n_dim, seed, settings), n_adapt, nonfinite, runs[[1]])
  }

  plan <- new_is_plan(target, proposal, n_dim, seed, settings)
  part <- if (is.null(workers)) {
    run_ranges(plan, offset, n, runs, nonfinite, report)
  } else {
    run_in_parts(plan, offset, n, runs, nonfinite, workers)
  }
  if (!is.null(report)) {
    report$close()
  }
  fit <- new_is_draws(plan, offset, part)
  if (keep == "resampled" && !part$interrupted && n > 0) {
    fit <- add_resampled(fit, chosen, runs)
  }
  fit$run <- new_is_run(runs, workers, started)
  warn_about(fit)
  if (part$interrupted) {
    warn_interrupted(fit, n)
  }
  fit
}

# ---- checks ----------------------------------------------------------------------------------

check_offset <- function(offset, n) {
  offset <- check_whole(offset, 2^53, "offset", "2^53")
  if (offset + n > 2^53) {
    abort_input("offset", "a whole number with `offset` + `n` at most 2^53", offset)
  }
  offset
}

is_settings <- function(keep_draws, precision, covariance, n_tail) {
  list(
    keep = if (keep_draws) "draws" else "summary", precision = precision,
    covariance = check_flag(covariance, "covariance"), n_tail = check_whole(n_tail, 2^24, "n_tail", "2^24")
  )
}

# A covariance of more dims would have more sums than C numbers.
check_size_of_covariance <- function(covariance, n_dim) {
  if (covariance && n_dim > 30000) {
    abort_input("covariance", sprintf("FALSE for more than 30,000 dims, here %s", whole(n_dim)), covariance)
  }
}

as_proposals <- function(proposal) {
  if (inherits(proposal, "fusedmc_density")) list(proposal) else proposal
}

# Checks target and proposals; returns their number of dims.
check_is_densities <- function(target, proposal, n_dim) {
  proposals <- as_proposals(proposal)
  if (!is.list(proposals) || is.object(proposals) || length(proposals) == 0) {
    abort_input("proposal", "a density that draw() takes, or a list of them", proposal)
  }
  several <- !inherits(proposal, "fusedmc_density")
  args <- if (several) sprintf("proposal[[%d]]", seq_along(proposals)) else "proposal"
  found <- check_parts(c(list(target), unname(proposals)), c("target", args))
  n_dim <- check_n_dim(n_dim, found, "`target` and `proposal`")
  for (i in seq_along(proposals)) {
    check_drawn_from(proposals[[i]], n_dim, args[i], several)
  }
  n_dim
}

check_drawn_from <- function(density, n_dim, arg, several) {
  rule <- if (length(draw_parts(density, n_dim)) == 0) {
    "a density that can be drawn from, see draw()"
  } else if (several && is.null(elliptical_parts(density, n_dim))) {
    "a normalised density where there are several proposals"
  }
  if (!is.null(rule)) {
    abort("input", sprintf("`%s` must be %s; it is %s.", arg, rule, format(density)), argument = arg)
  }
}

# A list of what run_importance() takes as `run`, one per device.
check_is_devices <- function(devices, backend, target, proposal, n_dim, n, settings, device = 0L) {
  weighing <- weighing_density(proposal)
  nodes <- c(if (!is_in_r(target)) density_nodes(target, n_dim), density_nodes(weighing, n_dim))
  check_density_range(density_nodes(weighing, n_dim), settings$precision, "proposal")
  if (!is_in_r(target)) {
    check_density_range(density_nodes(target, n_dim), settings$precision, "target")
  }
  plan_run <- function(backend) {
    run_for_importance(
      backend, device, n, n_dim, nodes, draw_plan(as_proposals(proposal), n_dim), moments_of(settings),
      moved = if (settings$keep == "draws") n_dim + 1 else 0
    )
  }
  if (is.null(devices)) {
    return(list(plan_run(backend)))
  }
  if (!is.atomic(devices) || length(devices) == 0 || anyNA(devices)) {
    abort_devices(devices)
  }
  cpu_ns <- plan_run("cpu")[[4]]
  lapply(devices, function(device) {
    number <- check_device(device, cpu_ns)
    on_cpu <- identical(number, "cpu")
    list(if (on_cpu) "cpu" else "cuda", if (on_cpu) 0L else number, check_threads(), cpu_ns)
  })
}

# Draws are held twice while chunks are joined, and are the rows of a matrix.
check_draws_fit <- function(n, n_dim) {
  if (n > 2^31 - 1) {
    abort_input("n", "at most 2^31 - 1 where draws are kept", n)
  }
  bytes <- 16 * n * (n_dim + 1)
  limit <- memory_limit()
  if (bytes > limit) {
    message <- sprintf(
      "The draws (%s in %s) would take %.3g GB; the limit is %.3g GB. %s", counted(n, "sample"),
      counted(n_dim, "dim"), bytes / 1e9, limit / 1e9,
      "Use keep = \"summary\" or \"resampled\", or options(fusedmc.max_gb = )."
    )
    abort("memory", message, bytes = bytes)
  }
}

# ---- what went wrong on the way --------------------------------------------------------------

# `n` log weights from sample number `offset` on.
check_no_bad <- function(n_bad, first_bad, n, nonfinite) {
  if (n_bad == 0 || nonfinite == "drop") {
    return(invisible())
  }
  message <- sprintf(
    "%s of %s log weights are NaN or +Inf; the first: that of sample number %s, counted from 0. %s", whole(n_bad),
    whole(n), whole(first_bad), "Use nonfinite = \"drop\" to give them weight zero."
  )
  abort("nonfinite", message, n = n_bad, first = first_bad)
}

whole <- function(x) {
  format(x, scientific = FALSE, trim = TRUE)
}

# What a result of n samples has to warn of.
warn_about <- function(fit) {
  if (fit$n_bad > 0) {
    message <- sprintf(
      "%s of %s log weights are NaN or +Inf and got weight zero; the first: that of sample number %s, counted from 0.",
      whole(fit$n_bad), whole(fit$n), whole(fit$first_bad)
    )
    warn("nonfinite", message, n = fit$n_bad, first = fit$first_bad)
  }
  if (fit$n > 0 && fit$ess == 0) {
    warn("nonfinite", sprintf("All %s weights are zero: mean, sd and the like are NA.", whole(fit$n)))
  }
}

# `n` is what was asked for.
warn_interrupted <- function(fit, n) {
  message <- sprintf(
    "Interrupted after %s of %s; importance_sample(n = %s, offset = %s) with seed and all else the same, and %s",
    whole(fit$n), counted(n, "sample"), whole(n - fit$n), whole(fit$offset + fit$n), "is_merge(), complete the run."
  )
  warn("interrupted", message, n = fit$n)
}
