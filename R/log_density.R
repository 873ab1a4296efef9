#' Evaluate a density
#'
#' The log density at every row of a matrix, by the same kernels that [mh_step()] and [is_weights()] use.
#'
#' @param density A density.
#' @param x Points: a numeric matrix n x n_dim, one point per row, a data frame of numbers, or a matrix from
#'   [to_device()], which is read where it lies. Never modified.
#' @inheritParams mh_step
#' @return n log densities (natural log), named by the row names of `x`. `-Inf` outside the support. At a point that is
#'   not finite the value is what the formula gives: `-Inf` or `NaN`.
#' @section Errors:
#' `fusedmc_error_input` for arguments of the wrong type, shape or range; `fusedmc_error_cuda` where `backend = "cuda"`
#' cannot be had; `fusedmc_error_memory` where memory runs out.
#' @export
#' @examples
#' x <- rbind(c(0, 0), c(1, 2))
#' log_density(density_normal(0, 1), x)
#' rowSums(dnorm(x, log = TRUE)) # the same
log_density <- function(density, x, precision = c("double", "single"),
                        backend = getOption("fusedmc.backend", "auto"), device = 0L) {
  precision <- precision_for(x, if (!missing(precision)) precision)
  x <- check_matrix_in_place(x, "n", "x", precision, backend)
  check_density(density, ncol(x), "density", "x")
  out <- if (is_in_r(density)) {
    check_run(backend, device, cpu_ns = 0, bytes = 0)
    evaluate_in_r(density, as.matrix(x), precision)
  } else {
    evaluate_nodes(density, x, precision, backend, device)
  }
  names(out) <- rownames(x)
  out
}

evaluate_nodes <- function(density, x, precision, backend, device) {
  nodes <- density_nodes(density, ncol(x))
  check_density_range(nodes, precision, "density")
  n <- as.double(nrow(x))
  numbers <- n * ncol(x)
  cpu_ns <- 0.4 * numbers + n * nodes_ns(nodes)
  run <- run_where(x, check_run(backend, device, cpu_ns = cpu_ns, bytes = 8 * numbers, nodes = nodes))
  if (n == 0) {
    return(numeric())
  }
  nodes <- linked(nodes, precision, run)
  check_result(.Call(C_ffi_log_density, for_c(x), nodes, precision == "single", run), run[[1]])
}

# Log densities at the rows of x of a density that is, in part, a function of R.
evaluate_in_r <- function(density, x, precision) {
  UseMethod("evaluate_in_r")
}

#' @export
evaluate_in_r.default <- function(density, x, precision) {
  evaluate_nodes(density, x, precision, "cpu", 0L)
}

# Log weights where target or proposal is a function of R; the other may run anywhere.
log_ratio_in_r <- function(target, proposal, samples, precision, backend, device) {
  log_density_of <- function(density) {
    unname(log_density(density, samples, precision, backend, device))
  }
  log_weights <- log_density_of(target) - log_density_of(proposal)
  if (precision == "single") round_to_float(log_weights) else log_weights
}
