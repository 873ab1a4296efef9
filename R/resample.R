#' Resample by weight
#'
#' Chooses among weighted draws so that what comes out has equal weights, by four methods; the same indices on the CPU
#' and on the GPU.
#'
#' @param x What to resample, where it carries its weights: a result of [importance_sample()] with `keep = "draws"`, of
#'   [is_weights()], or draws of \pkg{posterior} with a variable `.log_weight`. `NULL` with `log_weights` or `weights`.
#' @param n How many to choose: a whole number from 0 to 2^50; by default as many as there are weights.
#' @param method `"systematic"`, `"stratified"`, `"multinomial"` or `"residual"`; see details.
#' @param log_weights N log weights, natural log, of any constant shift. `-Inf` is weight zero.
#' @param weights N weights in place of `log_weights`: finite, not negative, of any constant factor.
#' @param step Which of the seed's random numbers to use: a whole number from 0 to 2^32 - 1. A filter that resamples
#'   again and again with one seed takes another step each time.
#' @inheritParams draw
#' @inheritParams mh_step
#'
#' @details
#' With normalised weights \eqn{w_i}, each method chooses i \eqn{n w_i} times on average:
#' * systematic: the numbers \eqn{(j + u) / n}, j = 0, ..., n - 1, of one uniform u, each choosing the first i whose
#'   cumulated weight is above it. i comes \eqn{n w_i} times, rounded down or up;
#' * stratified: the same with a uniform \eqn{u_j} for each;
#' * multinomial: n independent draws, in the order of the draws;
#' * residual: \eqn{\lfloor n w_i \rfloor} copies of each i, in their order, then independent draws by what is left of
#'   the weights.
#'
#' Systematic is the usual choice: it adds the least noise in most cases, but its draws depend on the order of the
#' weights, and no simple formula says how much noise. Stratified and residual resampling are never worse than
#' multinomial. Systematic and stratified indices come in rising order.
#'
#' Weights become whole numbers: the largest is 2^s, with s = 61 less the bits of N, at most 52, and others are rounded
#' down in proportion. So a weight below 2^-s of the largest counts as zero: 2^-41 with a million weights. Their sums
#' are exact, hence the same in any order, on any machine. A weight of zero is never chosen. A random number has 64
#' bits: beside the rounding of weights, the chance of an index is off by less than 2^-64.
#'
#' @return From `log_weights`, `weights` or a result of [is_weights()]: n whole numbers from 1 to N (doubles where N is
#'   above 2^31 - 1). From a result of [importance_sample()]: a matrix n x n_dim of the chosen draws, with their
#'   numbers as attribute `indices`. From draws of \pkg{posterior}: draws of the same format, without log weights, all
#'   in one chain. Each has an attribute `seed`: the seed that was used.
#' @section Errors:
#' `fusedmc_error_input` for arguments of the wrong type or range, for weights that are negative or not finite, and for
#' an `x` without weights; `fusedmc_error_nonfinite` where a log weight is `NaN` or `+Inf`, naming the first, and where
#' all weights are zero, so that there is nothing to choose from; `fusedmc_error_cuda` where `backend = "cuda"` cannot
#' be had; `fusedmc_error_memory` where memory runs out.
#' @references
#' Douc, Cappe and Moulines (2005), Comparison of resampling schemes for particle filtering, *Proceedings of the 4th
#' International Symposium on Image and Signal Processing and Analysis*, 64-69.
#'
#' Kitagawa (1996), Monte Carlo filter and smoother for non-Gaussian nonlinear state space models, *Journal of
#' Computational and Graphical Statistics* 5, 1-25.
#' @seealso [is_weights()]
#' @export
#' @examples
#' x <- draw(density_normal(0, 3), 1000, seed = 1, n_dim = 2)
#' w <- is_weights(x, target = density_normal(1, 1))
#' chosen <- resample(w, n = 500, seed = 2)
#' colMeans(x[chosen, ]) # 1 and 1 are expected
#' table(resample(weights = c(5, 3, 2), n = 10, seed = 1))
resample <- function(x = NULL, n = NULL, method = c("systematic", "stratified", "multinomial", "residual"),
                     log_weights = NULL, weights = NULL, seed = NULL, step = 0,
                     backend = getOption("fusedmc.backend", "auto"), device = 0L) {
  given <- given_weights(x, log_weights, weights)
  n_weights <- length(given$weights)
  n <- if (is.null(n)) n_weights else check_whole(n, 2^50, "n", "2^50")
  method <- check_choice(if (missing(method)) "systematic" else method, resample_methods, "method")
  step <- check_whole(step, 2^32 - 1, "step", "2^32 - 1")
  run <- resample_run(n_weights, n, backend, device)
  check_resample_fits(n_weights, n)
  seed <- check_seed(seed)
  indices <- resample_indices(given$weights, n, method, seed, step, run = run, is_log = given$is_log)
  out <- if (is.null(x)) indices else take_resampled(x, indices)
  attr(out, "seed") <- seed
  out
}

resample_methods <- c("systematic", "stratified", "multinomial", "residual")

# ---- what is resampled -----------------------------------------------------------------------

# list(weights, is_log) from the one argument that is given.
given_weights <- function(x, log_weights, weights) {
  given <- c("x", "log_weights", "weights")[!c(is.null(x), is.null(log_weights), is.null(weights))]
  if (length(given) == 0) {
    abort_input("x", "given, or else `log_weights` or `weights`", NULL)
  }
  if (length(given) > 1) {
    rule <- sprintf("NULL where `%s` is given: either holds the weights", given[2])
    abort_input(given[1], rule, list(x = x, log_weights = log_weights)[[given[1]]])
  }
  values <- switch(given, x = resample_weights(x), log_weights = log_weights, weights = weights)
  if (!is.numeric(values) || is.object(values) || !is.null(dim(values))) {
    abort_input(given, "a numeric vector", values)
  }
  list(weights = as.double(values), is_log = given != "weights")
}

# The log weights of what can be resampled.
resample_weights <- function(x) {
  UseMethod("resample_weights")
}

#' @export
resample_weights.default <- function(x) {
  rule <- "a result of importance_sample() or is_weights(), or draws of posterior with a variable `.log_weight`"
  if (is.numeric(x) && is.null(dim(x))) {
    rule <- paste0(rule, " (for numbers, say log_weights = or weights =)")
  }
  abort_input("x", rule, x)
}

#' @export
resample_weights.fusedmc_is_weights <- function(x) {
  if (is.null(x$log_weights)) {
    abort("input", "`x` must hold log weights; it was made with weights = FALSE.", argument = "x")
  }
  x$log_weights
}

#' @export
resample_weights.is_draws <- function(x) {
  if (!is.matrix(x$draws) || length(x$log_weights) != nrow(x$draws)) {
    abort("input", "`x` must hold draws with their log weights: make it with keep = \"draws\".", argument = "x")
  }
  x$log_weights
}

#' @export
resample_weights.draws <- function(x) {
  log_weights <- if (requireNamespace("posterior", quietly = TRUE)) stats::weights(x, log = TRUE, normalize = FALSE)
  if (is.null(log_weights)) {
    abort("input", "`x` must have a variable `.log_weight`: see posterior::weight_draws().", argument = "x")
  }
  log_weights
}

# What comes out of x for these numbers.
take_resampled <- function(x, indices) {
  UseMethod("take_resampled")
}

#' @export
take_resampled.fusedmc_is_weights <- function(x, indices) {
  indices
}

#' @export
take_resampled.is_draws <- function(x, indices) {
  draws <- x$draws[indices, , drop = FALSE]
  rownames(draws) <- NULL
  attr(draws, "indices") <- indices
  draws
}

#' @export
take_resampled.draws <- function(x, indices) {
  format <- utils::head(intersect(class(x), paste0("draws_", c("matrix", "array", "df", "list", "rvars"))), 1)
  all <- unclass(posterior::as_draws_matrix(posterior::merge_chains(x)))
  chosen <- all[indices, setdiff(colnames(all), ".log_weight"), drop = FALSE]
  dimnames(chosen) <- list(NULL, colnames(chosen))
  getExportedValue("posterior", paste0("as_", format))(posterior::as_draws_matrix(chosen))
}

# ---- the door to C ---------------------------------------------------------------------------

# How a call is to run, see check_run(). In nanoseconds: a weight, and a draw with its search.
resample_run <- function(n_weights, n, backend = "auto", device = 0L) {
  check_run(backend, device, cpu_ns = 6 * n_weights + 12 * n, bytes = 8 * n_weights + 4 * n)
}

check_resample_fits <- function(n_weights, n) {
  bytes <- n * if (n_weights > .Machine$integer.max) 8 else 4
  if (bytes > 1e8 && bytes > memory_limit()) {
    message <- sprintf(
      "The result (%s numbers) would take %.3g GB; the limit is %.3g GB. Use a smaller `n`, or %s.",
      format(n, scientific = FALSE), bytes / 1e9, memory_limit() / 1e9, "options(fusedmc.max_gb = )"
    )
    abort("memory", message, bytes = bytes)
  }
}

# Numbers of n chosen weights, from 1. Draw j, from 0, takes the random numbers of draw number offset + j: those who
# resample parts of a whole each by themselves take offsets that do not overlap.
resample_indices <- function(log_weights, n, method, seed, step = 0, offset = 0,
                             run = resample_run(length(log_weights), n), is_log = TRUE) {
  n_weights <- length(log_weights)
  if (n_weights == 0) {
    if (n > 0) {
      abort_input(if (is_log) "log_weights" else "weights", "at least one number where `n` is not 0", numeric())
    }
    return(integer())
  }
  result <- call_resample(log_weights, n, method, c(seed, step, offset), NULL, run, is_log)
  check_weights_whole(result, n_weights, is_log)
  result$indices
}

call_resample <- function(weights, n, method, rng, piece, run, is_log = TRUE) {
  method <- match(method, resample_methods) - 1L
  result <- .Call(C_ffi_resample, weights, is_log, as.double(n), method, as.double(rng), piece, run)
  check_result(result, run[[1]])
}

check_weights_whole <- function(result, n_weights, is_log) {
  arg <- if (is_log) "log_weights" else "weights"
  count <- function(n) format(n, scientific = FALSE)
  if (result$n_bad > 0) {
    where <- enumerate(result$bad, result$n_bad)
    what <- if (is_log) "log weights are NaN or +Inf" else "weights are negative or not finite"
    message <- sprintf("%s of %s %s: %s.", count(result$n_bad), count(n_weights), what, where)
    kind <- if (is_log) "nonfinite" else "input"
    abort(kind, message, argument = arg, indices = result$bad, n = result$n_bad)
  }
  if (all(result$sum == 0)) {
    what <- if (is_log) "log weights are -Inf" else "weights are zero"
    message <- sprintf("All %s %s: there is nothing to choose from.", count(n_weights), what)
    abort("nonfinite", message, argument = arg)
  }
}

# ---- weights that come in pieces -------------------------------------------------------------
# To resample n_all weights of which no more than a piece is at hand at once: find the largest log weight, add up
# resample_sum() of all pieces, then take resample_piece() of each. What comes out is what resample_indices() gives for
# the whole. Sums are pairs of doubles, c(high, low) 32 bits.

# The sum of the whole weights of a piece. `max` is the largest of all n_all log weights, and finite.
resample_sum <- function(log_weights, max, n_all, run = resample_run(length(log_weights), 0)) {
  piece <- list(as.double(n_all), max, c(0, 0), c(0, 0))
  call_resample(log_weights, 0, "systematic", c(0, 0, 0), piece, run)$sum
}

add_sums <- function(a, b) {
  low <- a[2] + b[2]
  c(a[1] + b[1] + low %/% 2^32, low %% 2^32)
}

# Which of the n draws fall on which weight of a piece, counted from 1 within it; 0 where a draw falls elsewhere. `base`
# is the sum of the pieces before, `total` that of all. Not for residual resampling.
resample_piece <- function(log_weights, n, method, seed, step = 0, offset = 0, max, n_all, base, total,
                           run = resample_run(length(log_weights), n)) {
  piece <- list(as.double(n_all), max, base, total)
  call_resample(log_weights, n, method, c(seed, step, offset), piece, run)$indices
}
