#' One Metropolis-Hastings step of many chains
#'
#' Moves every row of `x` by one random-walk Metropolis-Hastings step towards `target`: proposal, log densities,
#' acceptance and selection in one fused kernel.
#'
#' @param x States: a numeric matrix n_chains x n_dim of finite numbers, one chain per row. Integer and logical
#'   matrices and data frames of numbers are converted. Never modified.
#' @param target Density to sample from, such as [density_normal()] (the default: standard normal).
#' @param step_size Scale of the proposal: one number >= 0 for every dim, or n_dim numbers, one per dim (standard
#'   deviations of the move), or the n_dim x n_dim Cholesky factor of its covariance, lower (`L` with covariance
#'   `L %*% t(L)`) or upper as [chol()] gives it (`U` with covariance `t(U) %*% U`). A matrix is a factor, never a
#'   covariance. 0 stays in place.
#' @param noise Standard normal noise to use in place of the generator: a finite matrix n_chains x n_dim, or `NULL`.
#' @param u Acceptance uniforms to use in place of the generator: n_chains numbers from 0 to 1, or `NULL`. Clamped
#'   below at 1e-10.
#' @param seed Seed: a whole number from 0 to 2^53, or `NULL` to draw one from R's generator (so [set.seed()]
#'   governs). With a number, R's generator is not touched.
#' @param step Index of the step: a whole number from 0 to 2^32 - 1. Count it up to walk a path: `seed` and `step`
#'   together fix the random numbers.
#' @param chain_offset Index of the first row's chain: a whole number from 0 to 2^53. Rows of a larger set of chains
#'   keep their random numbers when the set is split.
#' @param precision `"double"`, or `"single"`: states, noise and densities rounded to and computed in 32-bit floats.
#'   The two take different acceptance uniforms, so keep to one along a path.
#' @param backend `"auto"`, `"cpu"` or `"cuda"`. `"auto"` takes the GPU where there is one and the way there and back
#'   pays: small calls are faster on the CPU. The result does not depend on it.
#' @param device GPU to use, counted from 0 as CUDA does.
#'
#' @details
#' For each chain (a row), with z standard normal and u uniform on (0, 1),
#' \deqn{x' = x + \mathrm{step\_size} \cdot z, \quad \log\alpha = \log p(x') - \log p(x),}
#' and x' is accepted where log alpha >= 0 or log u < log alpha. A proposal whose log density is `-Inf` is rejected;
#' one whose log density is `NaN` or `+Inf` is rejected and counted in a warning.
#'
#' Random numbers come from Philox4x32-10, a counter-based generator: chain i at step t gets the same ones whatever
#' else is computed, so results are equal to the bit for any number of chains beside it, any number of threads, and
#' on the CPU and the GPU. Normals end at 6.34 standard deviations; a symmetric proposal is exact whatever its shape.
#'
#' @return A list of class `fusedmc_mh_step`:
#'   * `x`: the new states, n_chains x n_dim doubles, with the dimnames of `x`;
#'   * `accepted`: n_chains logicals, never `NA`;
#'   * `log_density`: log density of the target at the new states;
#'   * `log_alpha`: log acceptance ratio, `-Inf` where the proposal has density zero;
#'   * `seed`: the seed that was used; `NA` where `noise` and `u` leave nothing to draw.
#'
#'   The vectors carry the row names of `x`. For 0 rows everything is empty.
#' @section Errors:
#' `fusedmc_error_input` for arguments of the wrong type, shape or range, and where the target's log density is not
#' finite at a row of `x`; `fusedmc_error_cuda` where `backend = "cuda"` cannot be had; `fusedmc_error_memory` where
#' memory runs out.
#' @references
#' Metropolis, Rosenbluth, Rosenbluth, Teller and Teller (1953), Equation of state calculations by fast computing
#' machines, *The Journal of Chemical Physics* 21, 1087-1092.
#'
#' Salmon, Moraes, Dror and Shaw (2011), Parallel random numbers: as easy as 1, 2, 3, *Proceedings of SC11*.
#' @seealso [is_weights()], [density_normal()], [density_mixture()]
#' @export
#' @examples
#' x <- matrix(0, 1000, 2)
#' out <- mh_step(x, density_normal(0, 1), step_size = 0.5, seed = 1)
#' out
#' mean(out$accepted) # (1 + 0.5^2)^(-2 / 2) = 0.8 is expected
#'
#' # a path: the same seed, the step counted up
#' for (t in 0:99) x <- mh_step(x, step_size = 1.7, seed = 1, step = t)$x
#' colMeans(x)
mh_step <- function(x, target = density_normal(0, 1), step_size = 0.1, noise = NULL, u = NULL, seed = NULL, step = 0,
                    chain_offset = 0, precision = c("double", "single"),
                    backend = getOption("fusedmc.backend", "auto"), device = 0L) {
  x <- check_matrix(x, "n_chains", "x")
  n_chains <- nrow(x)
  n_dim <- ncol(x)
  if (n_dim > 2^30) {
    abort_input("x", "a matrix of at most 2^30 columns", x)
  }
  check_density(target, n_dim, "target", "x")
  precision <- check_precision(if (missing(precision)) "double" else precision)
  nodes <- if (!is_in_r(target)) density_nodes(target, n_dim)
  check_density_range(nodes, precision, "target")
  step_size <- check_step_size(step_size, n_dim)
  noise <- check_noise(noise, n_chains, n_dim)
  u <- check_uniforms(u, n_chains)
  step <- check_whole(step, 2^32 - 1, "step", "2^32 - 1")
  chain_offset <- check_whole(chain_offset, 2^53, "chain_offset", "2^53")
  numbers <- as.double(n_chains) * n_dim
  cpu_ns <- numbers * (6 + if (is.matrix(step_size)) 0.3 * n_dim else 0) + 2 * n_chains * nodes_ns(nodes)
  run <- check_run(backend, device, cpu_ns = cpu_ns, bytes = 16 * numbers, nodes = nodes)
  if (is.null(seed) && !is.null(noise) && !is.null(u)) {
    seed <- NA_real_
  } else {
    seed <- check_seed(seed)
  }
  if (n_chains == 0) {
    return(new_mh_step(x, logical(), numeric(), numeric(), seed))
  }

  rng <- c(if (is.na(seed)) 0 else seed, step, chain_offset)
  take_step <- function(given) {
    nodes <- linked(nodes, precision, run)
    result <- .Call(C_ffi_mh_step, x, nodes, step_size, noise, u, rng, precision == "single", given, run)
    check_result(result, run[[1]])
  }
  given <- if (is_in_r(target)) {
    list(evaluate_in_r(target, x, precision), evaluate_in_r(target, take_step(NULL), precision))
  }
  result <- take_step(given)
  check_starts(x, target, result$not_finite)
  if (result$not_finite$n_proposal > 0) {
    warn_proposals(result$not_finite, step, chain_offset)
  }
  new_mh_step(result$x, result$accepted, result$log_density, result$log_alpha, seed)
}

new_mh_step <- function(x, accepted, log_density, log_alpha, seed) {
  if (!is.null(rownames(x))) {
    names(accepted) <- names(log_density) <- names(log_alpha) <- rownames(x)
  }
  step <- list(x = x, accepted = accepted, log_density = log_density, log_alpha = log_alpha, seed = seed)
  class(step) <- "fusedmc_mh_step"
  step
}

# n_dim numbers, or the lower Cholesky factor.
check_step_size <- function(step_size, n_dim) {
  if (is.matrix(step_size)) {
    return(check_factor(step_size, n_dim))
  }
  if (is.object(step_size) || !is.null(dim(step_size)) || !qtest(step_size, "N+[0,)") ||
    !match(length(step_size), c(1L, n_dim), 0L)) {
    abort_step_size(step_size, n_dim)
  }
  rep_len(as.double(step_size), n_dim)
}

abort_step_size <- function(step_size, n_dim) {
  rule <- sprintf("a finite number >= 0, %d of them (one per dim), or a %d x %d Cholesky factor", n_dim, n_dim, n_dim)
  abort_input("step_size", rule, step_size)
}

check_factor <- function(factor, n_dim) {
  if (!is.numeric(factor) || !identical(dim(factor), c(n_dim, n_dim)) || !all(is.finite(factor))) {
    abort_step_size(factor, n_dim)
  }
  lower <- all(factor[upper.tri(factor)] == 0)
  upper <- all(factor[lower.tri(factor)] == 0)
  if (!lower && !upper) {
    rule <- "triangular where it is a matrix: the Cholesky factor of a covariance, such as chol(S)"
    abort_input("step_size", rule, factor)
  }
  if (any(diag(factor) < 0)) {
    abort_input("step_size", "a Cholesky factor with no negative number on its diagonal", factor)
  }
  factor <- matrix(as.double(factor), n_dim, n_dim)
  if (lower) factor else t(factor)
}

check_noise <- function(noise, n_chains, n_dim) {
  if (is.null(noise)) {
    return(NULL)
  }
  if (is.data.frame(noise) || inherits(noise, "fusedmc_matrix")) {
    noise <- check_matrix(noise, "n_chains", "noise")
  }
  if (!is.matrix(noise) || !is.numeric(noise) || !identical(dim(noise), c(n_chains, n_dim)) || !all(is.finite(noise))) {
    abort_input("noise", sprintf("a %d x %d matrix of finite numbers, as `x` is", n_chains, n_dim), noise)
  }
  storage.mode(noise) <- "double"
  noise
}

check_uniforms <- function(u, n_chains) {
  if (is.null(u)) {
    return(NULL)
  }
  rule <- sprintf("%d numbers from 0 to 1, one per row of `x`", n_chains)
  if (!is.numeric(u) || is.object(u) || length(u) != n_chains || !all(is.finite(u))) {
    abort_input("u", rule, u)
  }
  if (any(u < 0 | u > 1)) {
    abort_input("u", rule, u[which(u < 0 | u > 1)[1]])
  }
  as.double(u)
}

check_starts <- function(x, target, not_finite) {
  if (not_finite$n_start == 0) {
    return(invisible())
  }
  check_finite_rows(x, "x")
  message <- sprintf(
    "The log density of `target`, %s, is not finite at the start: %s of `x`.", format(target),
    enumerate_rows(not_finite$start_rows, not_finite$n_start)
  )
  abort("input", message, argument = "x", rows = not_finite$start_rows)
}

warn_proposals <- function(not_finite, step, chain_offset) {
  first <- format(chain_offset + not_finite$first_proposal - 1, scientific = FALSE)
  message <- sprintf(
    "Rejected %s with a log density of NaN or +Inf; the first: row %s (chain %s) at step %s.",
    counted(not_finite$n_proposal, "proposal"), format(not_finite$first_proposal, scientific = FALSE), first,
    format(step, scientific = FALSE)
  )
  warn("nonfinite", message, n = not_finite$n_proposal)
}

#' @export
print.fusedmc_mh_step <- function(x, ...) {
  n_chains <- nrow(x$x)
  cat(sprintf("<mh_step> %s in %s", counted(n_chains, "chain"), counted(ncol(x$x), "dim")))
  if (n_chains > 0) {
    cat(sprintf(": %d accepted (%.1f%%)", sum(x$accepted), 100 * mean(x$accepted)))
    range <- range(x$log_density)
    cat(sprintf("\nlog density: mean %.4g, from %.4g to %.4g", mean(x$log_density), range[1], range[2]))
  }
  cat(if (is.na(x$seed)) "\nnoise and u were given" else sprintf("\nseed: %s", format(x$seed, scientific = FALSE)))
  cat("\nelements: $x, $accepted, $log_density, $log_alpha, $seed\n")
  invisible(x)
}
