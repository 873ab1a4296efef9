#' Densities
#'
#' A density is what a chain targets, and what importance sampling weighs against what. It is made by a constructor,
#' which checks it once: [density_normal()] or [density_mixture()]. All built-in densities are normalised.
#'
#' @param x A density.
#' @param ... Not used.
#' @return `print()` returns `x` invisibly; `format()` a string.
#' @name fusedmc_density
#' @examples
#' density_normal(c(0, 5), c(1, 2))
#' density_mixture(c(0.3, 0.7), means = rbind(c(0, 0), c(3, 3)), sds = 1)
NULL

# `n_dim` is NA where the density fits any number of dims.
new_density <- function(class, n_dim, ...) {
  density <- list(n_dim = n_dim, ...)
  class(density) <- c(class, "fusedmc_density")
  density
}

#' @rdname fusedmc_density
#' @export
print.fusedmc_density <- function(x, ...) {
  cat(format(x), "\n", sep = "")
  invisible(x)
}

# What C takes: list(weights, means, sds), with means and sds n_components x n_dim (for one component a plain vector).
as_mixture <- function(density, n_dim) {
  UseMethod("as_mixture")
}

# Checks that `density` is one and that it fits `n_dim` columns of `what`; returns what C takes.
check_density <- function(density, n_dim, arg, what) {
  if (!inherits(density, "fusedmc_density")) {
    abort_input(arg, "a density, such as density_normal(0, 1)", density)
  }
  if (!is.na(density$n_dim) && density$n_dim != n_dim) {
    rule <- sprintf("a density in %d dims, as `%s` has %d columns", n_dim, what, n_dim)
    abort("input", sprintf("`%s` must be %s; it is %s.", arg, rule, format(density)), argument = arg)
  }
  as_mixture(density, n_dim)
}

# Means and 1 / sd must be numbers in the precision they are computed in; the constructors see to it for double.
check_density_range <- function(mixture, precision, arg) {
  largest_float <- (2 - 2^-23) * 2^127
  if (precision == "single" && any(abs(mixture$means) > largest_float)) {
    worst <- mixture$means[which.max(abs(mixture$means))]
    abort_input(arg, "a density whose means fit single precision (up to 3.4e38)", worst)
  }
  if (precision == "single" && any(mixture$sds < 1 / largest_float | mixture$sds > largest_float)) {
    worst <- mixture$sds[which.max(abs(log(mixture$sds)))]
    abort_input(arg, "a density whose sds fit single precision (2.9e-39 to 3.4e38)", worst)
  }
}

# The smallest sd whose inverse is a number.
smallest_sd <- .Machine$double.xmin

# A few numbers as text: "0", "(0, 5)", "(0, 5, ... 8 more)".
format_numbers <- function(x) {
  if (length(unique(x)) == 1) {
    return(format(x[1], digits = 4))
  }
  shown <- vapply(utils::head(x, 4), format, character(1), digits = 4)
  more <- if (length(x) > 4) sprintf(", ... %d more", length(x) - 4L) else ""
  sprintf("(%s%s)", paste(shown, collapse = ", "), more)
}
