#' Importance weights
#'
#' Weighs samples of one density as samples of another: log weights, self-normalised weights, weighted mean and
#' effective sample size, from one stable pass.
#'
#' @param samples Samples: a numeric matrix n x n_dim of finite numbers, one sample per row. Integer and logical
#'   matrices and data frames of numbers are converted, and a matrix from [to_device()] is read where it lies. Never
#'   modified. May be `NULL` with `log_weights`.
#' @param target Density to weigh towards, such as [density_mixture()].
#' @param proposal Density that the samples were drawn from; the default is independent normals with mean 0 and sd 3.
#' @param log_weights Log weights of your own, in place of `target` and `proposal`: n numbers, natural log, of any
#'   constant shift. `-Inf` is weight zero.
#' @param weights Whether `log_weights` and `weights` are wanted. `FALSE` spares their memory and their way back from
#'   the GPU where only mean, ESS and log mean weight matter.
#' @param nonfinite What to do with a log weight that is `NaN` or `+Inf`: `"error"`, or `"drop"`, which gives it
#'   weight zero with a warning. A dropped sample still counts in `n`.
#' @inheritParams mh_step
#'
#' @details
#' With log weight \eqn{l_i = \log p(x_i) - \log q(x_i)},
#' \deqn{w_i = \frac{\exp(l_i)}{\sum_j \exp(l_j)}, \quad \mathrm{mean} = \sum_i w_i x_i, \quad
#'   \mathrm{ess} = \frac{1}{\sum_i w_i^2}, \quad \mathrm{log\_mean\_weight} = \log \frac{1}{n} \sum_i \exp(l_i).}
#' `ess` is Kish's effective sample size. `log_mean_weight` estimates the log of the ratio of the densities'
#' normalising constants: the log evidence where `target` is not normalised (the built-in ones are, so there it
#' estimates 0). All sums are taken relative to the largest log weight, so log weights of 1e4 or -1e4 neither
#' overflow nor underflow. Weights are raw: no smoothing. Where both densities are `-Inf` at a sample, its log weight
#' is `NaN`.
#'
#' Sums run in double precision for both precisions, in an order that depends on n alone, so results are equal to the
#' bit for any number of threads and on the CPU and the GPU.
#'
#' @return A list of class `fusedmc_is_weights`:
#'   * `log_weights`: n log weights, unnormalised; `-Inf` for a dropped sample; `NULL` where `weights = FALSE`;
#'   * `weights`: n weights that sum to 1; `NULL` where `weights = FALSE`;
#'   * `mean`: weighted mean, n_dim numbers with the column names of `samples`; `NULL` without `samples`;
#'   * `ess`: effective sample size, from 1 to n;
#'   * `log_mean_weight`: log of the mean weight;
#'   * `n`: number of samples.
#'
#'   The vectors carry the row names of `samples`. Where every log weight is `-Inf`, `log_mean_weight` is `-Inf`,
#'   `weights` and `mean` are `NA` and `ess` is 0, with one warning. For 0 rows the same, with nothing in `weights`
#'   and no warning.
#' @section Errors:
#' `fusedmc_error_input` for arguments of the wrong type, shape or range; `fusedmc_error_nonfinite`, naming the
#' samples, where a log weight is `NaN` or `+Inf` and `nonfinite = "error"`; `fusedmc_error_cuda` where `backend =
#' "cuda"` cannot be had; `fusedmc_error_memory` where memory runs out.
#' @references
#' Kish (1965), *Survey Sampling*, Wiley.
#'
#' Owen (2013), *Monte Carlo theory, methods and examples*, chapter 9.
#' @seealso [to_device()], [mh_step()], [density_normal()], [density_mixture()]
#' @export
#' @examples
#' target <- density_mixture(c(0.3, 0.7), means = rbind(c(-1, 0), c(2, 1)), sds = 1)
#' set.seed(1)
#' samples <- matrix(rnorm(2 * 5000, sd = 3), ncol = 2)
#' out <- is_weights(samples, target, density_normal(0, 3))
#' out
#' out$mean # 0.3 * c(-1, 0) + 0.7 * c(2, 1) = c(1.1, 0.7) is expected
#'
#' # log weights of your own
#' is_weights(log_weights = c(-1000, -1001, -1002))$weights
is_weights <- function(samples = NULL, target = NULL, proposal = density_normal(0, 3), log_weights = NULL,
                       weights = TRUE, nonfinite = c("error", "drop"), precision = c("double", "single"),
                       backend = getOption("fusedmc.backend", "auto"), device = 0L) {
  check_route(samples, target, missing(proposal), log_weights)
  precision <- precision_for(samples, if (!missing(precision)) precision)
  if (!is.null(samples)) {
    samples <- check_matrix_in_place(samples, "n", "samples", precision, backend)
  }
  n <- if (is.null(samples)) length(log_weights) else nrow(samples)
  n_dim <- if (is.null(samples)) 0L else ncol(samples)
  check_flag(weights, "weights")
  nonfinite <- check_choice(if (missing(nonfinite)) "error" else nonfinite, c("error", "drop"), "nonfinite")
  densities <- list()
  from_densities <- is.null(log_weights)
  if (from_densities) {
    check_density(target, n_dim, "target", "samples")
    check_density(proposal, n_dim, "proposal", "samples")
    if (is_in_r(target) || is_in_r(proposal)) {
      log_weights <- log_ratio_in_r(target, proposal, samples, precision, backend, device)
    } else {
      densities <- list(target = density_nodes(target, n_dim), proposal = density_nodes(proposal, n_dim))
      check_density_range(densities$target, precision, "target")
      check_density_range(densities$proposal, precision, "proposal")
    }
  } else {
    log_weights <- check_log_weights(log_weights, n, samples)
  }
  nodes <- c(densities$target, densities$proposal)
  numbers <- as.double(n) * (n_dim + 1)
  cpu_ns <- numbers * 0.4 + n * nodes_ns(nodes)
  run <- run_where(samples, check_run(backend, device, cpu_ns = cpu_ns, bytes = 8 * numbers, nodes = nodes))
  if (n == 0) {
    return(empty_is_weights(samples, weights))
  }

  densities <- lapply(densities, linked, precision = precision, run = run)
  result <- .Call(
    C_ffi_is_weights, for_c(samples), densities$target, densities$proposal, log_weights, weights,
    precision == "single", run
  )
  result <- check_result(result, run[[1]])
  check_log_weights_finite(result, samples, n, nonfinite, from_densities)
  if (result$ess == 0) {
    warn("nonfinite", sprintf("All %s log weights are -Inf: weights and mean are NA.", format(n, scientific = FALSE)))
  }
  if (!is.null(result$mean)) {
    names(result$mean) <- colnames(samples)
    check_mean(result$mean, samples, log_weights)
  }
  if (weights && !is.null(rownames(samples))) {
    names(result$log_weights) <- names(result$weights) <- rownames(samples)
  }
  new_is_weights(result$log_weights, result$weights, result$mean, result$ess, result$log_mean_weight, n)
}

new_is_weights <- function(log_weights, weights, mean, ess, log_mean_weight, n) {
  structure(
    list(
      log_weights = log_weights, weights = weights, mean = mean, ess = ess, log_mean_weight = log_mean_weight, n = n
    ),
    class = "fusedmc_is_weights"
  )
}

empty_is_weights <- function(samples, weights) {
  none <- if (weights) numeric()
  mean <- if (!is.null(samples)) stats::setNames(rep(NA_real_, ncol(samples)), colnames(samples))
  new_is_weights(none, none, mean, 0, -Inf, 0L)
}

# Log weights come from densities or from the user, not from both.
check_route <- function(samples, target, default_proposal, log_weights) {
  if (is.null(log_weights)) {
    if (is.null(target)) {
      abort_input("target", "a density (or give `log_weights`)", target)
    }
    if (is.null(samples)) {
      abort_input("samples", "a numeric matrix (n x n_dim) or a data frame of numbers", samples)
    }
  } else if (!is.null(target) || !default_proposal) {
    abort_input("log_weights", "NULL where `target` or `proposal` is given: either weighs the samples", log_weights)
  }
}

check_log_weights <- function(log_weights, n, samples) {
  rule <- "a numeric vector"
  if (!is.null(samples)) {
    rule <- sprintf("a numeric vector of length %d, one per row of `samples`", n)
  }
  if (!is.numeric(log_weights) || is.object(log_weights) || !is.null(dim(log_weights)) || length(log_weights) != n) {
    abort_input("log_weights", rule, log_weights)
  }
  as.double(log_weights)
}

check_log_weights_finite <- function(result, samples, n, nonfinite, from_densities) {
  if (result$n_bad == 0) {
    return(invisible())
  }
  which_ones <- enumerate(result$bad, result$n_bad)
  if (nonfinite == "error") {
    if (from_densities) {
      check_finite_rows(as.matrix(samples), "samples")
    }
    message <- sprintf(
      "%s of %s log weights are NaN or +Inf: %s. Use nonfinite = \"drop\" to give them weight zero.",
      format(result$n_bad, scientific = FALSE), format(n, scientific = FALSE), which_ones
    )
    abort("nonfinite", message, indices = result$bad, n = result$n_bad)
  }
  message <- sprintf(
    "%s of %s log weights are NaN or +Inf and got weight zero: %s.", format(result$n_bad, scientific = FALSE),
    format(n, scientific = FALSE), which_ones
  )
  warn("nonfinite", message, indices = result$bad, n = result$n_bad)
}

# A sample that is not finite may stand where the weight is zero, by a log weight of -Inf or because it was dropped: it
# contributes nothing. Elsewhere it spoils the mean.
check_mean <- function(mean, samples, log_weights) {
  if (!is.null(log_weights) && !all(is.finite(mean))) {
    samples <- as.matrix(samples)
    samples[!is.finite(log_weights), ] <- 0
    check_finite_rows(samples, "samples")
  }
}

#' @export
print.fusedmc_is_weights <- function(x, ...) {
  cat(sprintf("<is_weights> %s samples", format(x$n, big.mark = ",", scientific = FALSE)))
  if (x$n > 0) {
    cat(sprintf(": ESS %.1f (%.1f%%), log mean weight %.4g", x$ess, 100 * x$ess / x$n, x$log_mean_weight))
  }
  if (!is.null(x$mean)) {
    shown <- utils::head(x$mean, 8)
    cat("\nmean: ", paste(format(shown, digits = 4), collapse = " "), sep = "")
    cat(if (length(x$mean) > 8) sprintf(" ... and %d more", length(x$mean) - 8L) else "")
  }
  kept <- names(x)[!vapply(x, is.null, logical(1))]
  cat("\nelements: ", paste0("$", kept, collapse = ", "), "\n", sep = "")
  invisible(x)
}
