#' Multivariate Student t
#'
#' The multivariate t density: one chi-square stretches all dims together. It is not a product of t densities; in one
#' dim the two are the same.
#'
#' @param df Degrees of freedom: one number > 0 (from 1.2e-38), `Inf` allowed. At `Inf` it is the normal density.
#' @param mean Location: one number for every dim, or one per dim. Finite. For df up to 1 there is no mean.
#' @param scale Scale: one positive number for every dim, or one per dim (scales as `sd` is, not variances); or a scale
#'   matrix, n_dim x n_dim, symmetric and positive definite. A scale matrix is on the scale of variances, but it is not
#'   the covariance: that is df / (df - 2) times the scale matrix, for df above 2.
#'
#' @details
#' With L the lower Cholesky factor of the scale matrix (the scales on its diagonal, where they are numbers), d the
#' number of dims and \eqn{q = |L^{-1} (x - \mathrm{mean})|^2},
#' \deqn{\log p(x) = \log \Gamma\left(\frac{\mathrm{df} + d}{2}\right) - \log \Gamma\left(\frac{\mathrm{df}}{2}\right)
#'   - \frac{d}{2} \log(\pi\, \mathrm{df}) - \sum_d \log L_{dd}
#'   - \frac{\mathrm{df} + d}{2} \log\left(1 + \frac{q}{\mathrm{df}}\right)}
#' computed without cancellation, so large `df` go over into the normal density, and without overflow of q.
#'
#' Where all arguments are single numbers the density fits any number of dims.
#'
#' @return A density, of class `fusedmc_density_student_t`: a list with `n_dim` (`NA` where it fits any number), `df`,
#'   `mean`, and either `scale` (numbers) or `factor` (the lower Cholesky factor of the scale matrix) and `inverse` (the
#'   rows of its inverse, one after the other).
#' @section Errors:
#' `fusedmc_error_input` where `df` is not positive, `mean` or `scale` is not finite, scales are not positive, a scale
#' matrix is not square, symmetric and positive definite, or lengths do not fit.
#' @seealso [density_mvnormal()], whose page says when a matrix counts as symmetric and as singular.
#' @export
#' @examples
#' density_student_t(4)
#' log_density(density_student_t(4), rbind(c(1, 1)))
#' density_student_t(4, mean = c(0, 1), scale = matrix(c(2, 0.5, 0.5, 1), 2))
density_student_t <- function(df, mean = 0, scale = 1) {
  smallest_df <- 2^-126 # df and 1 / df are numbers in single precision too
  if (!qtest(df, "N1") || is.object(df) || is.na(df) || df < smallest_df) {
    abort_input("df", "one number > 0 (from 1.2e-38), Inf allowed", df)
  }
  if (is.matrix(scale)) {
    factor <- check_covariance(scale, "scale")
    n_dim <- nrow(factor)
    parameters <- names_of_dims(n_dim, colnames(scale), names(mean))
    mean <- rep_len(check_mean_of(mean, n_dim, "scale"), n_dim)
    inverse <- checked_inverse(factor, "scale", scale)
    return(with_nodes(new_density(
      "fusedmc_density_student_t", n_dim,
      df = as.double(df), mean = mean, factor = factor, inverse = inverse, parameters = parameters
    )))
  }
  names <- list(names(mean), names(scale))
  mean <- check_per_dim(mean, "mean", "a finite number, or one per dim")
  rule <- "a positive finite number, or one per dim, or a scale matrix"
  scale <- check_per_dim(scale, "scale", rule)
  if (any(scale < smallest_sd)) {
    abort_input("scale", "a positive finite number (from 2.3e-308), or one per dim, or a scale matrix", scale)
  }
  n_dim <- common_length(mean, scale, "scale")
  with_nodes(new_density(
    "fusedmc_density_student_t", n_dim,
    df = as.double(df), mean = mean, scale = scale, parameters = names_of_dims(n_dim, names[[1]], names[[2]])
  ))
}

# The number of dims of two vectors, each one number or one per dim; NA where both are single.
common_length <- function(mean, scale, arg) {
  lengths <- c(length(mean), length(scale))
  if (all(lengths > 1) && lengths[1] != lengths[2]) {
    abort_input(arg, sprintf("one number, or one per dim (%d, as `mean` has)", lengths[1]), scale)
  }
  if (all(lengths == 1)) NA_integer_ else max(lengths)
}

#' @rdname fusedmc_density
#' @export
format.fusedmc_density_student_t <- function(x, ...) {
  dims <- if (is.na(x$n_dim)) "any number of dims" else counted(x$n_dim, "dim")
  scale <- if (is.null(x$factor)) paste("scale", format_numbers(x$scale)) else "a scale matrix"
  sprintf("<density> Student t in %s: df %s, mean %s, %s", dims, format(x$df), format_numbers(x$mean), scale)
}

#' @export
density_nodes.fusedmc_density_student_t <- function(density, n_dim) {
  if (is.null(density$nodes)) elliptical_nodes(elliptical_parts(density, n_dim), n_dim) else density$nodes
}

#' @export
elliptical_parts.fusedmc_density_student_t <- function(density, n_dim) {
  mean <- rep_len(density$mean, n_dim)
  part <- if (is.null(density$factor)) {
    diagonal_part(1, mean, rep_len(density$scale, n_dim), density$df)
  } else {
    full_part(1, mean, density$factor, density$inverse, density$df)
  }
  list(part)
}
