#' A density that is a function of R
#'
#' Wraps a function of your own. It is called once for all chains, with a matrix; everything else stays in C.
#'
#' @param f A function of one argument: a numeric matrix n x n_dim, one point per row, with the column names of the
#'   states. It returns n log densities (natural log, up to a constant), one per row. `-Inf` is outside the support.
#' @param n_dim Number of dims: a whole number from 1 on, or `NULL` where `f` takes any number.
#'
#' @details
#' A step calls `f` twice: with the states and with the proposals of all chains. Vectorise over rows: a loop over them
#' is what makes it slow. `f` runs in R, on the CPU, whatever the backend; states and proposals are the same to the bit
#' as with any other target, but `f` itself may round differently on another machine.
#'
#' In single precision `f` gets numbers that are rounded to 32-bit floats, and its values are rounded so.
#'
#' An error inside `f` comes through as it is, and so do its warnings.
#'
#' @return A density, of class `fusedmc_density_function`: a list with `n_dim` (`NA` where it fits any number) and `f`.
#' @section Errors:
#' `fusedmc_error_input` where `f` is no function or `n_dim` no whole number, and, when the density is used, where `f`
#' returns anything but one number per row.
#' @export
#' @examples
#' ring <- density_function(function(x) -8 * (sqrt(rowSums(x^2)) - 2)^2, n_dim = 2)
#' log_density(ring, rbind(c(2, 0), c(0, 0)))
#' mh_step(matrix(2, 100, 2), ring, step_size = 0.5, seed = 1)
density_function <- function(f, n_dim = NULL) {
  if (!is.function(f)) {
    abort_input("f", "a function of a matrix, such as function(x) -rowSums(x^2) / 2", f)
  }
  if (!is.null(n_dim) && (!qtest(n_dim, "N1[1,]") || n_dim != floor(n_dim) || n_dim > 2^30)) {
    abort_input("n_dim", "a whole number from 1 to 2^30, or NULL", n_dim)
  }
  n_dim <- if (is.null(n_dim)) NA_integer_ else as.integer(n_dim)
  new_density("fusedmc_density_function", n_dim, f = f, in_r = TRUE)
}

#' @rdname fusedmc_density
#' @export
format.fusedmc_density_function <- function(x, ...) {
  dims <- if (is.na(x$n_dim)) "any number of dims" else counted(x$n_dim, "dim")
  sprintf("<density> function of R in %s", dims)
}

#' @export
evaluate_in_r.fusedmc_density_function <- function(density, x, precision) {
  if (precision == "single") {
    x[] <- round_to_float(x)
  }
  value <- density$f(x)
  n <- nrow(x)
  column <- is.matrix(value) && ncol(value) == 1
  if (!(is.numeric(value) || is.logical(value)) || is.factor(value) || (!is.null(dim(value)) && !column)) {
    abort_value(value, n)
  }
  if (length(value) != n) {
    abort_value(value, n)
  }
  value <- as.double(value)
  if (precision == "single") round_to_float(value) else value
}

abort_value <- function(value, n) {
  abort_input("f(x)", sprintf("a numeric vector of length %d, one log density per row of x", n), value)
}

round_to_float <- function(x) {
  readBin(writeBin(as.vector(x), raw(), size = 4), "double", length(x), size = 4)
}
