#' Independent normals
#'
#' The density of independent normals, one per dim.
#'
#' @param mean Mean: one number for every dim, or one per dim, whose names are then those of the parameters. Finite.
#' @param sd Standard deviation (not variance): one number for every dim, or one per dim. Positive and finite.
#'
#' @details
#' \deqn{\log p(x) = \sum_d \left( -\frac{1}{2} z_d^2 - \log \mathrm{sd}_d - \frac{1}{2} \log 2\pi \right),
#'   \quad z_d = (x_d - \mathrm{mean}_d) / \mathrm{sd}_d}
#'
#' Where both are single numbers the density fits any number of dims. A vector always goes along the dims, which are
#' the columns of a matrix of states; nothing is recycled.
#'
#' @return A density, of class `fusedmc_density_normal`: a list with `n_dim` (`NA` where it fits any number), `mean`
#'   and `sd`.
#' @section Errors:
#' `fusedmc_error_input` where `mean` or `sd` is not finite, `sd` is not positive, or both are vectors of different
#' lengths.
#' @export
#' @examples
#' density_normal(0, 1)
#' density_normal(c(-1, 0, 1), 2)
density_normal <- function(mean = 0, sd = 1) {
  names <- list(names(mean), names(sd))
  mean <- check_per_dim(mean, "mean", "a finite number, or one per dim")
  sd <- check_per_dim(sd, "sd", "a positive finite number, or one per dim")
  if (any(sd < smallest_sd)) {
    abort_input("sd", "a positive finite number (from 2.3e-308), or one per dim", sd)
  }
  lengths <- c(length(mean), length(sd))
  if (all(lengths > 1) && lengths[1] != lengths[2]) {
    abort_input("sd", sprintf("one number, or one per dim (%d, as `mean` has)", lengths[1]), sd)
  }
  n_dim <- if (all(lengths == 1)) NA_integer_ else max(lengths)
  parameters <- names_of_dims(n_dim, names[[1]], names[[2]])
  new_density("fusedmc_density_normal", n_dim, mean = mean, sd = sd, parameters = parameters)
}

check_per_dim <- function(x, arg, rule) {
  if (!is.null(dim(x)) || length(x) == 0) {
    abort_input(arg, rule, x)
  }
  check_numbers(x, arg, rule)
}

#' @rdname fusedmc_density
#' @export
format.fusedmc_density_normal <- function(x, ...) {
  dims <- if (is.na(x$n_dim)) "any number of dims" else counted(x$n_dim, "dim")
  sprintf("<density> normal in %s: mean %s, sd %s", dims, format_numbers(x$mean), format_numbers(x$sd))
}

#' @export
density_nodes.fusedmc_density_normal <- function(density, n_dim) {
  one <- length(density$mean) == 1 && length(density$sd) == 1
  mean <- if (one) density$mean else rep_len(density$mean, n_dim)
  sd <- if (one) density$sd else rep_len(density$sd, n_dim)
  list(mixture_node(1, mean, sd, n_dim))
}
