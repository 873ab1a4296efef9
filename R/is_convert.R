# Methods for posterior's generics, registered when that package is loaded.

#' Weighted draws for posterior
#'
#' Results of [importance_sample()] are taken by \pkg{posterior}, where it is installed: by `posterior::as_draws()`,
#' `as_draws_matrix()`, `as_draws_array()`, `as_draws_df()`, `as_draws_list()` and `as_draws_rvars()`.
#'
#' @param x A result of [importance_sample()] with `keep = "draws"` or `"resampled"`.
#' @param ... Not used.
#' @details
#' Draws of `keep = "draws"` carry their log weights as `.log_weight`, unnormalised, as `posterior::weight_draws()`
#' has it. \pkg{posterior}'s summaries take no notice of weights: use [summary.is_draws()], or resample first, by
#' [resample()] or `posterior::resample_draws()`. Draws of `keep = "resampled"` have equal weights and carry none.
#' @return What the generic promises, in one chain, with the names of the parameters.
#' @section Errors:
#' `fusedmc_error_input` where the result holds no draws.
#' @name is_draws_convert
#' @examples
#' is <- importance_sample(
#'   density_normal(1, 1), density_normal(0, 2), 1000, n_dim = 2, keep = "draws", seed = 1
#' )
#' if (requireNamespace("posterior", quietly = TRUE)) posterior::as_draws_df(is)
NULL

#' @rdname is_draws_convert
#' @exportS3Method posterior::as_draws
as_draws.is_draws <- function(x, ...) { # nolint: object_name_linter
  as_draws_matrix.is_draws(x)
}

#' @rdname is_draws_convert
#' @exportS3Method posterior::as_draws_matrix
as_draws_matrix.is_draws <- function(x, ...) { # nolint: object_name_linter
  if (is.null(x$draws)) {
    abort("input", "`x` must hold draws: make it with keep = \"draws\" or \"resampled\".", argument = "x")
  }
  draws <- x$draws
  attr(draws, "indices") <- NULL
  draws <- posterior::as_draws_matrix(draws)
  if (is.null(x$log_weights)) draws else posterior::weight_draws(draws, x$log_weights, log = TRUE)
}

#' @rdname is_draws_convert
#' @exportS3Method posterior::as_draws_array
as_draws_array.is_draws <- function(x, ...) { # nolint: object_name_linter
  posterior::as_draws_array(as_draws_matrix.is_draws(x))
}

#' @rdname is_draws_convert
#' @exportS3Method posterior::as_draws_df
as_draws_df.is_draws <- function(x, ...) { # nolint: object_name_linter
  posterior::as_draws_df(as_draws_matrix.is_draws(x))
}

#' @rdname is_draws_convert
#' @exportS3Method posterior::as_draws_list
as_draws_list.is_draws <- function(x, ...) { # nolint: object_name_linter
  posterior::as_draws_list(as_draws_matrix.is_draws(x))
}

#' @rdname is_draws_convert
#' @exportS3Method posterior::as_draws_rvars
as_draws_rvars.is_draws <- function(x, ...) { # nolint: object_name_linter
  posterior::as_draws_rvars(as_draws_matrix.is_draws(x))
}
