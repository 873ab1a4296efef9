#' Tempered density
#'
#' A density to the power beta: flatter for beta below 1, more peaked above. It is not normalised.
#'
#' @param density A density.
#' @param beta Power (inverse temperature): one number from 0 to 1e38. 0 gives the constant 1, also where the density is
#'   zero.
#'
#' @details
#' \deqn{\log p_\beta(x) = \beta \log p(x)}
#'
#' @return A density, of class `fusedmc_density_tempered`: a list with `n_dim` (as that of `density`), `density` and
#'   `beta`. [draw()] draws from a tempered normal, multivariate normal or Student t, where that can be normalised.
#' @section Errors:
#' `fusedmc_error_input` where `density` is not a density, or `beta` is not in its range.
#' @seealso [density_product()]: `density_product(density_tempered(p, 1 - b), density_tempered(q, b))` leads from p to
#'   q as b goes from 0 to 1.
#' @export
#' @examples
#' density <- density_tempered(density_mixture(c(1, 1), c(-5, 5), 1), 0.1)
#' density
#' log_density(density, matrix(0))
density_tempered <- function(density, beta) {
  n_dim <- check_parts(list(density), "density")
  if (!qtest(beta, "N1[0,1e38]") || is.object(beta)) {
    abort_input("beta", "one number from 0 to 1e38", beta)
  }
  new_density(
    "fusedmc_density_tempered", n_dim,
    density = density, beta = as.double(beta), parameters = density$parameters,
    in_r = is_in_r(density), depth = check_depth(list(density), "density")
  )
}

#' @rdname fusedmc_density
#' @export
format.fusedmc_density_tempered <- function(x, ...) {
  sprintf("<density> (%s) to the power %s", sub("^<density> ", "", format(x$density)), format(x$beta, digits = 4))
}

#' @export
density_nodes.fusedmc_density_tempered <- function(density, n_dim) {
  c(density_nodes(density$density, n_dim), list(node("temper", numbers = density$beta)))
}

#' @export
evaluate_in_r.fusedmc_density_tempered <- function(density, x, precision) {
  if (density$beta == 0) {
    return(numeric(nrow(x)))
  }
  rounded_to(rounded_to(density$beta, precision) * evaluate_in_r(density$density, x, precision), precision)
}
