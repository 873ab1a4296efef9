#' Mixture of independent normals
#'
#' A weighted mixture of components, each of independent normals.
#'
#' @param weights Weights of the K components, on the natural scale: K finite numbers, none negative, not all zero.
#'   They are divided by their sum, so `c(1, 1)` means half and half. A component of weight zero contributes nothing.
#' @param means Means: a matrix of K rows and n_dim columns. A plain vector of K numbers stands for n_dim = 1.
#' @param sds Standard deviations (not variances): a matrix as `means`, or one number for all. For n_dim = 1 also K
#'   numbers. Positive and finite in every component.
#'
#' @details
#' \deqn{\log p(x) = \log \sum_k \exp\left( \log w_k + \sum_d \log N(x_d; \mathrm{mean}_{kd}, \mathrm{sd}_{kd})
#' \right)} computed as a log-sum-exp, so points far out do not underflow.
#'
#' @return A density, of class `fusedmc_density_mixture`: a list with `n_dim`, `weights` (summing to 1), `means` and
#' `sds`
#'   (both K x n_dim).
#' @section Errors:
#' `fusedmc_error_input` where weights are negative, not finite or all zero, means are not finite, sds are not
#' positive and finite, or shapes do not fit.
#' @export
#' @examples
#' density_mixture(c(0.3, 0.7), means = rbind(c(0, 0), c(3, 3)), sds = 1)
#' density_mixture(c(1, 1), means = c(-2, 2), sds = c(0.5, 1))
density_mixture <- function(weights, means, sds) {
  rule <- "finite numbers, none negative and not all zero"
  if (!is.null(dim(weights)) || length(weights) == 0) {
    abort_input("weights", rule, weights)
  }
  weights <- check_numbers(weights, "weights", rule)
  if (any(weights < 0) || all(weights == 0)) {
    abort_input("weights", rule, weights)
  }
  weights <- weights / max(weights)
  weights <- weights / Reduce(`+`, weights) # sum() adds in long double, which is not the same on every machine
  n_components <- length(weights)
  means <- check_components(means, n_components, "means", "finite")
  sds <- check_sds(sds, n_components, ncol(means))
  new_density("fusedmc_density_mixture", ncol(means), weights = weights, means = means, sds = sds)
}

# A K x n_dim matrix of doubles; a vector of K numbers is one column.
check_components <- function(x, n_components, arg, rule) {
  rule <- sprintf("%s, in a matrix of %d rows (one per weight) and n_dim columns", rule, n_components)
  if (is.data.frame(x)) {
    x <- check_data_frame(x, arg)
  }
  if (is.null(dim(x)) && length(x) == n_components) {
    x <- matrix(x, ncol = 1)
  }
  if (!is.matrix(x) || !is.numeric(x) || nrow(x) != n_components || ncol(x) == 0 || !all(is.finite(x))) {
    abort_input(arg, rule, x)
  }
  matrix(as.double(x), nrow(x), ncol(x), dimnames = dimnames(x))
}

check_sds <- function(sds, n_components, n_dim) {
  if (is.null(dim(sds)) && is.numeric(sds) && length(sds) == 1) {
    sds <- matrix(sds, n_components, n_dim)
  } else if (is.null(dim(sds)) && n_dim > 1) {
    abort_input("sds", sprintf("one positive number, or a %d x %d matrix", n_components, n_dim), sds)
  }
  sds <- check_components(sds, n_components, "sds", "positive and finite")
  if (any(sds < smallest_sd)) {
    abort_input("sds", "positive (from 2.3e-308) and finite in every component", sds[which(sds < smallest_sd)[1]])
  }
  if (ncol(sds) != n_dim) {
    abort_input("sds", sprintf("one positive number, or a %d x %d matrix", n_components, n_dim), sds)
  }
  sds
}

#' @rdname fusedmc_density
#' @export
format.fusedmc_density_mixture <- function(x, ...) {
  n_components <- length(x$weights)
  sprintf(
    "<density> mixture of %s in %s: weights %s", counted(n_components, "normal component"), counted(x$n_dim, "dim"),
    format_numbers(x$weights)
  )
}

#' @export
density_nodes.fusedmc_density_mixture <- function(density, n_dim) {
  list(mixture_node(density$weights, density$means, density$sds, n_dim))
}
