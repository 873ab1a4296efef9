#' Product of densities
#'
#' The pointwise product of densities of the same states, such as a prior and a likelihood. It is not normalised.
#'
#' @param ... One or more densities in the same number of dims; those that fit any number take that of the others.
#'   Products and mixtures may be nested, at most eight deep.
#'
#' @details
#' \deqn{\log p(x) = \sum_j \log p_j(x)}
#' added from the first to the last. The product does not integrate to 1, even where every part does. All parts see all
#' dims: for independent blocks of dims this is not the product wanted.
#'
#' @return A density, of class `fusedmc_density_product`: a list with `n_dim` (`NA` where it fits any number) and
#'   `densities`. [draw()] draws from a product of normals.
#' @section Errors:
#' `fusedmc_error_input` where an argument is not a density, the numbers of dims differ, or densities are nested too
#' deep.
#' @seealso [density_tempered()]
#' @export
#' @examples
#' prior <- density_normal(0, 10)
#' likelihood <- density_function(function(x) -(x[, 1] - x[, 2])^2, n_dim = 2)
#' posterior <- density_product(prior, likelihood)
#' posterior
#' log_density(posterior, rbind(c(1, 2)))
density_product <- function(...) {
  densities <- unname(list(...))
  if (length(densities) == 0) {
    abort_input("...", "one or more densities, such as density_normal(0, 1)", NULL)
  }
  args <- sprintf("..%d", seq_along(densities))
  n_dim <- check_parts(densities, args)
  new_density(
    "fusedmc_density_product", n_dim,
    densities = densities, parameters = names_of_parts(n_dim, densities),
    in_r = any(vapply(densities, is_in_r, NA)), depth = check_depth(densities, "...")
  )
}

# Checks that all are densities and that their numbers of dims agree; returns that number, NA where all fit any.
check_parts <- function(densities, args) {
  n_dim <- NA_integer_
  for (i in seq_along(densities)) {
    density <- densities[[i]]
    if (!inherits(density, "fusedmc_density")) {
      abort_input(args[i], "a density, such as density_normal(0, 1)", density)
    }
    if (is.na(n_dim) && !is.na(density$n_dim)) {
      n_dim <- density$n_dim
      first <- i
    } else if (!is.na(density$n_dim) && density$n_dim != n_dim) {
      rule <- sprintf("a density in %s, as `%s` is", counted(n_dim, "dim"), args[first])
      abort("input", sprintf("`%s` must be %s; it is %s.", args[i], rule, format(density)), argument = args[i])
    }
  }
  n_dim
}

# How many values wait on C's stack at most while parts are joined one by one.
check_depth <- function(densities, arg) {
  most <- 8L # FMC_MAX_DEPTH of src/core/kinds.h
  depths <- vapply(densities, function(density) if (is.null(density$depth)) 1L else density$depth, 0L)
  depth <- max(depths + (seq_along(depths) > 1))
  if (depth > most) {
    rule <- sprintf("densities nested at most %d deep; put the deepest first, or join products into one", most)
    abort("input", sprintf("`%s` must be %s; it is nested %d deep.", arg, rule, depth), argument = arg)
  }
  as.integer(depth)
}

#' @rdname fusedmc_density
#' @export
format.fusedmc_density_product <- function(x, ...) {
  parts <- sub("^<density> ", "", vapply(x$densities, format, ""))
  sprintf("<density> product of %s: %s", counted(length(parts), "part"), paste(parts, collapse = " x "))
}

#' @export
density_nodes.fusedmc_density_product <- function(density, n_dim) {
  nodes <- lapply(density$densities, density_nodes, n_dim = n_dim)
  more <- lapply(nodes[-1], c, list(node("product")))
  c(nodes[[1]], unlist(more, recursive = FALSE))
}

#' @export
evaluate_in_r.fusedmc_density_product <- function(density, x, precision) {
  add <- function(sum, part) rounded_to(sum + part, precision)
  Reduce(add, lapply(density$densities, evaluate_in_r, x = x, precision = precision))
}

rounded_to <- function(x, precision) {
  if (precision == "single") round_to_float(x) else x
}
