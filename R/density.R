#' Densities
#'
#' A density is what a chain targets, and what importance sampling weighs against what. It is made by a constructor,
#' which checks it once.
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

# Names of parameters: the first of these that has one for every dim, or NULL.
names_of_dims <- function(n_dim, ...) {
  for (names in list(...)) {
    if (!is.null(names) && !is.na(n_dim) && length(names) == n_dim) {
      return(names)
    }
  }
  NULL
}

names_of_parts <- function(n_dim, densities) {
  do.call(names_of_dims, c(list(n_dim), lapply(densities, function(density) density$parameters)))
}

#' @rdname fusedmc_density
#' @export
print.fusedmc_density <- function(x, ...) {
  cat(format(x), "\n", sep = "")
  invisible(x)
}

# What C takes: the density in `n_dim` dims as a list of nodes in postfix order, each made by node().
density_nodes <- function(density, n_dim) {
  UseMethod("density_nodes")
}

# A node, as src/ffi_density.c reads it. `kind` is a name in src/core/kinds.h, whose header says what count, flags,
# numbers and arrays mean. `ns`: what one point takes one CPU thread, in nanoseconds, to a factor of two.
node <- function(kind, count = 1, flags = 0L, numbers = numeric(), arrays = list(), ns = 1, source = NULL) {
  list(
    kind = kind, count = as.double(count), flags = as.integer(flags), numbers = numbers, arrays = arrays, ns = ns,
    source = source
  )
}

# A mixture of products of normals: weights that sum to 1; means and sds K x n_dim, or K numbers for all dims.
mixture_node <- function(weights, means, sds, n_dim) {
  arrays <- .Call(C_ffi_mixture_arrays, weights, means, sds, as.double(n_dim))
  count <- length(arrays$log_const)
  node("mixture", count, arrays = arrays, ns = n_dim * 0.6 * count)
}

has_source <- function(nodes) {
  any(vapply(nodes, function(node) !is.null(node$source), NA))
}

# The nodes with every user's code compiled for where the call runs.
linked <- function(nodes, precision, run) {
  if (has_source(nodes)) link_sources(nodes, precision, run[[1]], run[[2]]) else nodes
}

nodes_ns <- function(nodes) {
  sum(vapply(nodes, function(node) node$ns, 0))
}

# Checks that `density` is one and that it fits `n_dim` columns of `what`.
check_density <- function(density, n_dim, arg, what) {
  if (!inherits(density, "fusedmc_density")) {
    abort_input(arg, "a density, such as density_normal(0, 1)", density)
  }
  if (!is.na(density$n_dim) && density$n_dim != n_dim) {
    rule <- sprintf("a density in %s, as `%s` has %s", counted(n_dim, "dim"), what, counted(n_dim, "column"))
    abort("input", sprintf("`%s` must be %s; it is %s.", arg, rule, format(density)), argument = arg)
  }
}

# Parameters must be numbers in the precision they are computed in; the constructors see to it for double.
check_density_range <- function(nodes, precision, arg) {
  if (precision == "double") {
    return(invisible())
  }
  largest_float <- (2 - 2^-23) * 2^127
  for (node in nodes) {
    arrays <- Filter(length, node$arrays)
    for (name in setdiff(names(arrays), "df")) { # a df beyond the largest float becomes Inf, which is its limit
      x <- arrays[[name]]
      inv_sd <- if (name == "inv_sd") x else if (name == "inv_factor") packed_diagonals(x, node$count)
      if (any(inv_sd < 1 / largest_float | inv_sd > largest_float)) {
        worst <- 1 / inv_sd[which.max(abs(log(inv_sd)))]
        abort_input(arg, "a density whose sds fit single precision (2.9e-39 to 3.4e38)", worst)
      }
      if (any(abs(x[is.finite(x)]) > largest_float)) {
        what <- if (name == "mean") "means" else "parameters"
        rule <- sprintf("a density whose %s fit single precision (up to 3.4e38)", what)
        abort_input(arg, rule, x[which.max(abs(x))])
      }
    }
  }
}

# Whether the density is, somewhere in it, a function of R, so that it is evaluated in R.
is_in_r <- function(density) {
  isTRUE(density$in_r)
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
