#' Mixture
#'
#' A weighted mixture of normals, independent or with full covariances, or of densities of any kind.
#'
#' @param weights Weights of the K components, on the natural scale: K finite numbers, none negative, not all zero.
#'   They are divided by their sum, so `c(1, 1)` means half and half. A component of weight zero contributes nothing.
#' @param means Means: a matrix of K rows and n_dim columns. A plain vector of K numbers stands for n_dim = 1.
#' @param sds Standard deviations (not variances) of independent normals: a matrix as `means`, or one number for all.
#'   For n_dim = 1 also K numbers. Positive and finite in every component.
#' @param covs Covariances of the components, in place of `sds`: a list of K matrices n_dim x n_dim, or an array K x
#'   n_dim x n_dim. Symmetric and positive definite as [density_mvnormal()] has it.
#' @param chols Cholesky factors of the covariances, in place of `covs`, in the same shapes; each lower or upper.
#' @param components A list of K densities in the same number of dims, in place of all of these. A mixture of densities
#'   that are not normalised has the weights times their integrals.
#'
#' @details
#' \deqn{\log p(x) = \log \sum_k \exp\left( \log w_k + \log p_k(x) \right)} with, for independent normals,
#' \eqn{\log p_k(x) = \sum_d \log N(x_d; \mathrm{mean}_{kd}, \mathrm{sd}_{kd})}; computed as a log-sum-exp, so points
#' far out do not underflow.
#'
#' @return A density, of class `fusedmc_density_mixture`: a list with `n_dim` (`NA` where all `components` fit any
#'   number), `weights` (summing to 1), and either `means` (K x n_dim) with `sds` (K x n_dim) or `factors` (a list of K
#'   lower Cholesky factors), or `components`.
#' @section Errors:
#' `fusedmc_error_input` where weights are negative, not finite or all zero, means are not finite, sds are not
#' positive and finite, matrices are not positive definite, components are no densities, or shapes do not fit. That
#' holds for components of weight zero too.
#' @export
#' @examples
#' density_mixture(c(0.3, 0.7), means = rbind(c(0, 0), c(3, 3)), sds = 1)
#' density_mixture(c(1, 1), means = c(-2, 2), sds = c(0.5, 1))
#' S <- matrix(c(2, 0.5, 0.5, 1), 2)
#' density_mixture(c(1, 1), means = rbind(c(0, 0), c(3, 3)), covs = list(S, diag(2)))
#' density_mixture(c(0.9, 0.1), components = list(density_normal(0, 1), density_student_t(2)))
density_mixture <- function(weights, means, sds, covs = NULL, chols = NULL, components = NULL) {
  weights <- check_weights(weights)
  matrices <- !is.null(covs) || !is.null(chols)
  if (!is.null(components)) {
    if (!missing(means) || !missing(sds) || matrices) {
      abort_input("components", "given without `means`, `sds`, `covs` and `chols`", components)
    }
    return(mixture_of(weights, components))
  }
  n_components <- length(weights)
  means <- check_components(if (missing(means)) NULL else means, n_components, "means", "finite")
  if (!matrices) {
    sds <- check_sds(if (missing(sds)) NULL else sds, n_components, ncol(means))
    return(new_density(
      "fusedmc_density_mixture", ncol(means),
      weights = weights, means = means, sds = sds, parameters = colnames(means)
    ))
  }
  if (!missing(sds) || (!is.null(covs) && !is.null(chols))) {
    abort_input("covs", "given alone: exactly one of `sds`, `covs` and `chols`", covs)
  }
  matrices <- if (is.null(covs)) {
    check_matrices(chols, n_components, ncol(means), "chols", check_cholesky)
  } else {
    check_matrices(covs, n_components, ncol(means), "covs", check_covariance)
  }
  parts <- lapply(seq_len(n_components), function(k) {
    full_part(weights[k], as.vector(means[k, ]), matrices[[k]]$factor, matrices[[k]]$inverse)
  })
  with_nodes(new_density(
    "fusedmc_density_mixture", ncol(means),
    weights = weights, means = means, parameters = colnames(means),
    factors = lapply(matrices, function(m) m$factor), parts = parts[weights > 0]
  ))
}

# Weights that sum to 1.
check_weights <- function(weights) {
  rule <- "finite numbers, none negative and not all zero"
  if (!is.null(dim(weights)) || length(weights) == 0) {
    abort_input("weights", rule, weights)
  }
  weights <- check_numbers(weights, "weights", rule)
  if (any(weights < 0) || all(weights == 0)) {
    abort_input("weights", rule, weights)
  }
  weights <- weights / max(weights)
  weights / Reduce(`+`, weights) # sum() adds in long double, which is not the same on every machine
}

# From a list of K matrices or an array K x n_dim x n_dim, each checked by `check`: K lower factors and their inverses.
check_matrices <- function(x, n_components, n_dim, arg, check) {
  if (is.array(x) && identical(dim(x), c(n_components, n_dim, n_dim))) {
    x <- lapply(seq_len(n_components), function(k) matrix(x[k, , ], n_dim))
  }
  if (!is.list(x) || is.object(x) || length(x) != n_components) {
    rule <- sprintf(
      "a list of %d matrices %d x %d (one per weight), or an array %d x %d x %d", n_components, n_dim, n_dim,
      n_components, n_dim, n_dim
    )
    abort_input(arg, rule, x)
  }
  lapply(seq_len(n_components), function(k) {
    arg <- sprintf("%s[[%d]]", arg, k)
    factor <- check(x[[k]], arg, n_dim)
    list(factor = factor, inverse = checked_inverse(factor, arg, x[[k]]))
  })
}

# A mixture of densities. Those that are mixtures of normals and t themselves become one leaf.
mixture_of <- function(weights, components) {
  if (!is.list(components) || is.object(components) || length(components) != length(weights)) {
    abort_input("components", sprintf("a list of %d densities, one per weight", length(weights)), components)
  }
  components <- unname(components)
  n_dim <- check_parts(components, sprintf("components[[%d]]", seq_along(components)))
  used <- components[weights > 0]
  density <- new_density(
    "fusedmc_density_mixture", n_dim,
    weights = weights, components = components, parameters = names_of_parts(n_dim, components),
    in_r = any(vapply(used, is_in_r, NA))
  )
  # Where n_dim is open the parts of one dim tell what those of any number will be.
  parts <- flatten_components(density, if (is.na(n_dim)) 1L else n_dim)
  if (is.null(parts)) {
    density$depth <- check_depth(used, "components")
  } else if (!is.na(n_dim)) {
    density$parts <- parts
    density <- with_nodes(density)
  }
  density
}

# The components' parts with the weights of both; NULL where one has none.
flatten_components <- function(density, n_dim) {
  used <- which(density$weights > 0)
  parts <- lapply(density$components[used], elliptical_parts, n_dim = n_dim)
  if (any(vapply(parts, is.null, NA))) {
    return(NULL)
  }
  weigh <- function(parts, weight) {
    lapply(parts, function(part) replace(part, "weight", list(part$weight * weight)))
  }
  parts <- unlist(Map(weigh, parts, density$weights[used]), recursive = FALSE)
  Filter(function(part) part$weight > 0, parts)
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
  dims <- if (is.na(x$n_dim)) "any number of dims" else counted(x$n_dim, "dim")
  kind <- if (is.null(x$components)) "normal component" else "component"
  sprintf(
    "<density> mixture of %s in %s: weights %s", counted(n_components, kind), dims, format_numbers(x$weights)
  )
}

#' @export
elliptical_parts.fusedmc_density_mixture <- function(density, n_dim) {
  if (!is.null(density$parts)) {
    return(density$parts)
  }
  if (!is.null(density$components)) {
    return(flatten_components(density, n_dim))
  }
  lapply(which(density$weights > 0), function(k) {
    diagonal_part(density$weights[k], as.vector(density$means[k, ]), as.vector(density$sds[k, ]))
  })
}

#' @export
density_nodes.fusedmc_density_mixture <- function(density, n_dim) {
  if (!is.null(density$sds)) {
    return(list(mixture_node(density$weights, density$means, density$sds, n_dim)))
  }
  if (!is.null(density$nodes)) {
    return(density$nodes)
  }
  parts <- elliptical_parts(density, n_dim)
  if (!is.null(parts)) {
    return(elliptical_nodes(parts, n_dim))
  }
  used <- which(density$weights > 0)
  log_weights <- core_math("log", density$weights[used])
  nodes <- lapply(seq_along(used), function(j) {
    join <- node(if (j == 1) "mix_first" else "mix_add", numbers = log_weights[j], ns = 5)
    c(density_nodes(density$components[[used[j]]], n_dim), list(join))
  })
  c(unlist(nodes, recursive = FALSE), list(node("mix_end", ns = 3)))
}

#' @export
evaluate_in_r.fusedmc_density_mixture <- function(density, x, precision) {
  if (is.null(density$components)) {
    return(NextMethod())
  }
  used <- which(density$weights > 0)
  log_weights <- core_math("log", density$weights[used])
  terms <- vapply(seq_along(used), function(j) {
    evaluate_in_r(density$components[[used[j]]], x, precision) + log_weights[j]
  }, numeric(nrow(x)))
  terms <- matrix(terms, nrow(x))
  top <- do.call(pmax, lapply(seq_along(used), function(j) terms[, j]))
  shift <- ifelse(is.finite(top), top, 0)
  scaled <- Reduce(`+`, lapply(seq_along(used), function(j) core_math("exp", terms[, j] - shift)))
  rounded_to(ifelse(top %in% Inf, Inf, shift + core_math("log", scaled)), precision)
}
