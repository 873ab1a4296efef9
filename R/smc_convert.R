# Methods for other packages' generics, registered when those packages are loaded.

#' Particles for other packages
#'
#' Results of [smc_sample()] are taken by \pkg{posterior}, where it is installed: by `posterior::as_draws()`,
#' `as_draws_array()`, `as_draws_matrix()`, `as_draws_df()`, `as_draws_list()` and `as_draws_rvars()`, hence
#' `posterior::summarise_draws()`. Islands are chains, particles iterations; all have the same weight.
#'
#' @param x A result of [smc_sample()].
#' @param ... Not used.
#' @return What the generic promises, with the names of the parameters.
#' @name smc_draws_convert
#' @examples
#' fit <- smc_sample(density_normal(c(a = 0, b = 5), 1), density_normal(0, 10), 256, seed = 1)
#' if (requireNamespace("posterior", quietly = TRUE)) posterior::as_draws_df(fit)
NULL

#' @rdname smc_draws_convert
#' @exportS3Method posterior::as_draws
as_draws.smc_draws <- function(x, ...) { # nolint: object_name_linter
  as_draws_array.smc_draws(x)
}

#' @rdname smc_draws_convert
#' @exportS3Method posterior::as_draws_array
as_draws_array.smc_draws <- function(x, ...) { # nolint: object_name_linter
  n_islands <- x$settings$n_islands
  shape <- c(nrow(x$draws) / n_islands, n_islands, ncol(x$draws))
  posterior::as_draws_array(name_states(array(x$draws, shape), x$parameters))
}

#' @rdname smc_draws_convert
#' @exportS3Method posterior::as_draws_matrix
as_draws_matrix.smc_draws <- function(x, ...) { # nolint: object_name_linter
  posterior::as_draws_matrix(as_draws_array.smc_draws(x))
}

#' @rdname smc_draws_convert
#' @exportS3Method posterior::as_draws_df
as_draws_df.smc_draws <- function(x, ...) { # nolint: object_name_linter
  posterior::as_draws_df(as_draws_array.smc_draws(x))
}

#' @rdname smc_draws_convert
#' @exportS3Method posterior::as_draws_list
as_draws_list.smc_draws <- function(x, ...) { # nolint: object_name_linter
  posterior::as_draws_list(as_draws_array.smc_draws(x))
}

#' @rdname smc_draws_convert
#' @exportS3Method posterior::as_draws_rvars
as_draws_rvars.smc_draws <- function(x, ...) { # nolint: object_name_linter
  posterior::as_draws_rvars(as_draws_array.smc_draws(x))
}
