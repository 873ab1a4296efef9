# Methods for other packages' generics, registered when those packages are loaded.

#' Draws for other packages
#'
#' Results of [mh_sample()] are taken by \pkg{posterior} and \pkg{coda}, where these are installed: by
#' `posterior::as_draws()`, `as_draws_array()`, `as_draws_matrix()`, `as_draws_df()`, `as_draws_list()` and
#' `as_draws_rvars()`, hence `posterior::summarise_draws()`, and by `coda::as.mcmc.list()`.
#'
#' @param x A result of [mh_sample()].
#' @param ... Not used.
#' @details
#' Where `keep = "summary"` they get the sample that the result holds, else the last states, and a message says so: of
#' class `fusedmc_message_sample`.
#' @return What the generic promises, with n_kept iterations and the names of the parameters.
#' @name mh_draws_convert
#' @examples
#' fit <- mh_sample(density_normal(0, 1), matrix(0, 4, 2), n_steps = 100, seed = 1)
#' if (requireNamespace("posterior", quietly = TRUE)) posterior::as_draws_array(fit)
NULL

#' @rdname mh_draws_convert
#' @exportS3Method posterior::as_draws
as_draws.mh_draws <- function(x, ...) { # nolint: object_name_linter
  as_draws_array.mh_draws(x)
}

#' @rdname mh_draws_convert
#' @exportS3Method posterior::as_draws_array
as_draws_array.mh_draws <- function(x, ...) { # nolint: object_name_linter
  posterior::as_draws_array(told_states(x))
}

#' @rdname mh_draws_convert
#' @exportS3Method posterior::as_draws_matrix
as_draws_matrix.mh_draws <- function(x, ...) { # nolint: object_name_linter
  posterior::as_draws_matrix(as_draws_array.mh_draws(x))
}

#' @rdname mh_draws_convert
#' @exportS3Method posterior::as_draws_df
as_draws_df.mh_draws <- function(x, ...) { # nolint: object_name_linter
  posterior::as_draws_df(as_draws_array.mh_draws(x))
}

#' @rdname mh_draws_convert
#' @exportS3Method posterior::as_draws_list
as_draws_list.mh_draws <- function(x, ...) { # nolint: object_name_linter
  posterior::as_draws_list(as_draws_array.mh_draws(x))
}

#' @rdname mh_draws_convert
#' @exportS3Method posterior::as_draws_rvars
as_draws_rvars.mh_draws <- function(x, ...) { # nolint: object_name_linter
  posterior::as_draws_rvars(as_draws_array.mh_draws(x))
}

#' @rdname mh_draws_convert
#' @exportS3Method coda::as.mcmc.list
as.mcmc.list.mh_draws <- function(x, ...) { # nolint: object_name_linter
  states <- told_states(x)
  every <- x$settings$thin * max(1, x$settings$store)
  first <- x$settings$n_warmup + every
  chains <- lapply(seq_len(dim(states)[2]), function(i) {
    one <- matrix(states[, i, ], dim(states)[1], dimnames = list(NULL, x$parameters))
    coda::mcmc(one, start = first, thin = every)
  })
  coda::as.mcmc.list(chains)
}

# The stored states, with a message where they are not all that were kept.
told_states <- function(fit) {
  states <- stored_states(fit)
  if (is.null(states)) {
    states <- name_states(array(0, c(0, dim(fit$state$x))), fit$parameters)
  }
  if (is.null(fit$draws)) {
    text <- sprintf(
      "keep = \"summary\": these are %s of each chain, of %s kept.", counted(dim(states)[1], "state"),
      format(fit$state$n_kept, scientific = FALSE)
    )
    class <- c("fusedmc_message_sample", "fusedmc_message", "message", "condition")
    message(structure(class = class, list(message = paste0(text, "\n"), call = user_call())))
  }
  states
}
