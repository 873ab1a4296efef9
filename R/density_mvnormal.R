#' Multivariate normal
#'
#' The normal density with a full covariance matrix.
#'
#' @param mean Mean: one number for every dim, or one per dim. Finite.
#' @param cov Covariance matrix (variances on its diagonal, not standard deviations), n_dim x n_dim: finite, symmetric
#'   and positive definite; or `NULL` where `chol` is given.
#' @param chol Cholesky factor of the covariance, n_dim x n_dim with a positive diagonal: lower (`L` with covariance
#'   `L %*% t(L)`) or upper as [chol()] gives it (`U` with covariance `t(U) %*% U`). Exactly one of `cov` and `chol` is
#'   given.
#'
#' @details
#' With L the lower Cholesky factor of the covariance,
#' \deqn{\log p(x) = -\frac{1}{2} \left| L^{-1} (x - \mathrm{mean}) \right|^2 - \sum_d \log L_{dd} - \frac{d}{2} \log
#'   2\pi}
#'
#' L and its inverse are computed once, here. `cov` counts as symmetric where entries \[i, j\] and \[j, i\] differ by
#' at most 100 rounding errors of the root of the product of their variances; their mean is used. It counts as singular
#' where a variable's variance, once the variables before it are known, is at most n_dim rounding errors (2.2e-16) of
#' the variance itself. Use `chol` for a covariance that is closer to singular than that.
#'
#' Names of the columns of `cov` or `chol`, or of `mean`, become the column names of what [draw()] gives.
#'
#' @return A density, of class `fusedmc_density_mvnormal`: a list with `n_dim`, `mean` (n_dim numbers), `factor` (the
#'   lower Cholesky factor), `inverse` (the rows of its inverse, one after the other) and `parameters` (names or
#'   `NULL`).
#' @section Errors:
#' `fusedmc_error_input` where both or none of `cov` and `chol` are given, a matrix is not square, not finite, not
#' symmetric or triangular, not positive definite or singular to rounding, or `mean` is not finite or has another
#' length.
#' @seealso [density_normal()] for independent normals, [density_student_t()] for heavier tails.
#' @export
#' @examples
#' S <- matrix(c(2, 0.5, 0.5, 1), 2)
#' density <- density_mvnormal(c(0, 0), cov = S)
#' density
#' log_density(density, rbind(c(1, -1)))
#' log_density(density_mvnormal(0, chol = chol(S)), rbind(c(1, -1))) # the same
density_mvnormal <- function(mean, cov = NULL, chol = NULL) {
  if (is.null(cov) == is.null(chol)) {
    abort_input("cov", "given, or else `chol`: exactly one of the two", cov)
  }
  arg <- if (is.null(cov)) "chol" else "cov"
  given <- if (is.null(cov)) chol else cov
  factor <- if (is.null(cov)) check_cholesky(chol, "chol") else check_covariance(cov, "cov")
  n_dim <- nrow(factor)
  parameters <- if (is.null(colnames(given))) names(mean) else colnames(given)
  mean <- check_mean_of(mean, n_dim, arg)
  with_nodes(new_density(
    "fusedmc_density_mvnormal", n_dim,
    mean = rep_len(mean, n_dim), factor = factor, inverse = checked_inverse(factor, arg, given),
    parameters = if (length(parameters) == n_dim) parameters
  ))
}

check_mean_of <- function(mean, n_dim, arg) {
  mean <- check_per_dim(mean, "mean", "a finite number, or one per dim")
  if (!match(length(mean), c(1L, n_dim), 0L)) {
    abort_input("mean", sprintf("one number, or one per dim (%d, as `%s` has)", n_dim, arg), mean)
  }
  mean
}

#' @rdname fusedmc_density
#' @export
format.fusedmc_density_mvnormal <- function(x, ...) {
  sprintf("<density> multivariate normal in %s: mean %s", counted(x$n_dim, "dim"), format_numbers(x$mean))
}

#' @export
density_nodes.fusedmc_density_mvnormal <- function(density, n_dim) {
  density$nodes
}

#' @export
elliptical_parts.fusedmc_density_mvnormal <- function(density, n_dim) {
  list(full_part(1, density$mean, density$factor, density$inverse))
}
