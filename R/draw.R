#' Draw from a density
#'
#' Independent draws by the package's counter-based generator: sample number i is the same whatever else is drawn.
#'
#' @param density A density that can be drawn from: [density_normal()], [density_mvnormal()], [density_student_t()], a
#'   [density_mixture()] of these, one of the first three tempered, or a product of normals.
#' @param n Number of draws: a whole number from 0 to 2^31 - 1.
#' @param seed Seed: a whole number from 0 to 2^53, or `NULL` to draw one from R's generator (so [set.seed()]
#'   governs). With a number, R's generator is not touched.
#' @param offset Number of the first draw: a whole number from 0 to 2^53. `draw(density, 5, seed, offset = 5)` gives
#'   rows 6 to 10 of `draw(density, 10, seed)`.
#' @param n_dim Number of dims, where the density fits any number; else `NULL`.
#'
#' @details
#' A draw is mean + L z with z standard normal and L the lower Cholesky factor of the covariance (the standard
#' deviations on its diagonal, where dims are independent). A Student t multiplies L z by sqrt(df / c) with c a
#' chi-square of df degrees of freedom, by Marsaglia's and Tsang's method. A mixture takes one uniform to choose the
#' component.
#'
#' The normals end at 6.34 standard deviations, as those of [mh_step()] do, and there are 2^32 of them in a dim. Weights
#' of draws from a normal hence leave out tails that have a share of 2.3e-10. A draw from a Student t with df far below
#' 1 can be too large for a double: it is then infinite.
#'
#' @return A matrix of doubles n x n_dim, one draw per row, with an attribute `seed`: the seed that was used. Columns
#'   are named where the density names its parameters.
#' @section Errors:
#' `fusedmc_error_input` for arguments of the wrong type, shape or range, where the density cannot be drawn from, and
#' where it fits any number of dims and `n_dim` does not say how many.
#' @references
#' Marsaglia and Tsang (2000), A simple method for generating gamma variables, *ACM Transactions on Mathematical
#' Software* 26, 363-372.
#' @export
#' @examples
#' draw(density_normal(c(0, 10), 1), 3, seed = 1)
#' x <- draw(density_student_t(4), 1000, seed = 1, n_dim = 2)
#' colMeans(x)
draw <- function(density, n, seed = NULL, offset = 0, n_dim = NULL) {
  check_parts(list(density), "density")
  n <- check_whole(n, 2^31 - 1, "n", "2^31 - 1")
  offset <- check_whole(offset, 2^53, "offset", "2^53")
  n_dim <- check_n_dim(n_dim, density$n_dim, "`density`")
  check_drawable(density, n_dim)
  seed <- check_seed(seed)
  x <- draw_rows(density, n, n_dim, seed, offset)
  if (!is.null(density$parameters)) {
    colnames(x) <- density$parameters
  }
  attr(x, "seed") <- seed
  x
}

check_drawable <- function(density, n_dim) {
  if (length(draw_parts(density, n_dim)) == 0) {
    rule <- paste(
      "a density that can be drawn from: normal, multivariate normal, Student t, a mixture of these, one of the",
      "first three tempered, or a product of normals"
    )
    message <- sprintf("`density` must be %s; %s cannot be drawn from.", rule, format(density))
    abort("input", message, argument = "density")
  }
}

# Draws number offset to offset + n - 1, n x n_dim.
draw_rows <- function(density, n, n_dim, seed, offset) {
  plan <- draw_plan(list(density), n_dim)
  run <- list("cpu", 0L, check_threads(), n * draw_ns(plan, n_dim))
  run_importance(n, n_dim, seed, offset, drawing = plan, keep_draws = TRUE, run = run)$draws
}

# What run_importance() draws from: list(cumulative, mean, factor, df, full, groups). Each density is a group of
# components; sample number i is drawn from density i mod length(densities), counted from 0. Group g has the components
# groups[g] to groups[g + 1] - 1, likewise. NULL where one of them cannot be drawn from.
draw_plan <- function(densities, n_dim) {
  groups <- lapply(densities, draw_parts, n_dim = n_dim)
  if (any(lengths(groups) == 0)) {
    return(NULL)
  }
  parts <- unlist(groups, recursive = FALSE)
  diagonal <- all(vapply(parts, is_diagonal, NA))
  dfs <- gather(parts, function(part) part$df)
  factor <- function(part) {
    if (diagonal) part$sd else if (is_diagonal(part)) pack_diagonal(part$sd) else pack_rows(part$factor)
  }
  cumulate <- function(group) Reduce(`+`, gather(group, function(part) part$weight), accumulate = TRUE)
  list(
    cumulative = gather(groups, cumulate), mean = gather(parts, function(part) part$mean),
    factor = gather(parts, factor), df = if (any(dfs < Inf)) dfs, full = !diagonal,
    groups = as.double(cumsum(c(0, lengths(groups))))
  )
}

# The parts to draw from (see elliptical.R): of the density, or where that is not normalised of the one proportional to
# it. An empty list where it is constant, NULL where it cannot be drawn from.
draw_parts <- function(density, n_dim) {
  UseMethod("draw_parts")
}

#' @export
draw_parts.default <- function(density, n_dim) {
  elliptical_parts(density, n_dim)
}

#' @export
draw_parts.fusedmc_density_tempered <- function(density, n_dim) {
  beta <- density$beta
  if (beta == 0) {
    return(list())
  }
  parts <- draw_parts(density$density, n_dim)
  if (length(parts) != 1) {
    return(if (is.list(parts) && length(parts) == 0) parts)
  }
  part <- parts[[1]]
  if (part$df == Inf) {
    return(scaled_part(part, 1 / sqrt(beta), Inf))
  }
  # (1 + q / df)^(-beta (df + d) / 2), as a t of df' = beta (df + d) - d with q / df = q' / df'
  df <- beta * (part$df + n_dim) - n_dim
  if (df > 0) scaled_part(part, sqrt(part$df / df), df)
}

# A part of other scales; NULL where they leave the range of numbers.
scaled_part <- function(part, by, df) {
  new <- if (is_diagonal(part)) {
    diagonal_part(1, part$mean, part$sd * by, df)
  } else {
    list(weight = 1, mean = part$mean, df = df, factor = part$factor * by)
  }
  scales <- if (is_diagonal(part)) new$sd else diag_of(new$factor)
  if (all(is.finite(scales) & scales > 0)) list(new)
}

#' @export
draw_parts.fusedmc_density_product <- function(density, n_dim) {
  parts <- lapply(density$densities, draw_parts, n_dim = n_dim)
  if (any(vapply(parts, is.null, NA))) {
    return(NULL)
  }
  parts <- Filter(length, parts) # the constant ones change nothing
  if (length(parts) < 2) {
    return(if (length(parts) == 0) list() else parts[[1]])
  }
  if (any(lengths(parts) > 1) || any(gather(parts, function(one) one[[1]]$df) < Inf)) {
    return(NULL)
  }
  product_of_normals(lapply(parts, `[[`, 1), n_dim)
}

# Precisions add up; the mean is that of the means, weighted by precision.
product_of_normals <- function(parts, n_dim) {
  if (all(vapply(parts, is_diagonal, NA))) {
    precision <- Reduce(`+`, lapply(parts, function(part) 1 / part$sd^2))
    weighted <- Reduce(`+`, lapply(parts, function(part) part$mean / part$sd^2))
    part <- diagonal_part(1, weighted / precision, 1 / sqrt(precision))
    return(if (all(is.finite(part$mean) & is.finite(part$sd) & part$sd > 0)) list(part))
  }
  precision <- matrix(0, n_dim, n_dim)
  weighted <- numeric(n_dim)
  for (part in parts) {
    own <- precision_of(part)
    precision <- precision + own
    weighted <- weighted + row_products(own, part$mean)
  }
  root <- core_cholesky(precision)
  if (root$pivot > 0) {
    return(NULL)
  }
  covariance <- precision_from_rows(core_inverse_factor(root$factor), n_dim)
  result <- core_cholesky(covariance)
  mean <- row_products(covariance, weighted)
  if (result$pivot == 0 && all(is.finite(mean))) list(list(weight = 1, mean = mean, df = Inf, factor = result$factor))
}

precision_of <- function(part) {
  inverse <- if (is_diagonal(part)) pack_diagonal(1 / part$sd) else core_inverse_factor(part$factor)
  precision_from_rows(inverse, length(part$mean))
}

# W' W from the packed rows of W. R's own products of matrices add in an order that differs between machines.
precision_from_rows <- function(rows, n_dim) {
  total <- matrix(0, n_dim, n_dim)
  for (i in seq_len(n_dim)) {
    row <- rows[i * (i - 1) / 2 + seq_len(i)]
    total[seq_len(i), seq_len(i)] <- total[seq_len(i), seq_len(i)] + row %o% row
  }
  total
}

# A symmetric matrix times a vector, terms in rising order.
row_products <- function(x, v) {
  total <- numeric(length(v))
  for (j in seq_along(v)) {
    total <- total + x[, j] * v[j]
  }
  total
}
