# Mixtures of multivariate normals and Student t, as C takes them: what density_normal(), density_mvnormal(),
# density_student_t() and mixtures of these have in common. A part is a component:
#   weight, mean (n_dim), df (Inf for a normal), and either
#   sd (n_dim) or factor (lower Cholesky factor of the scale matrix) with inverse (packed rows of its inverse).

# The parts of a normalised density in n_dim dims, weights summing to 1; NULL where it has none.
elliptical_parts <- function(density, n_dim) {
  UseMethod("elliptical_parts")
}

#' @export
elliptical_parts.default <- function(density, n_dim) {
  NULL
}

#' @export
elliptical_parts.fusedmc_density_normal <- function(density, n_dim) {
  list(diagonal_part(1, rep_len(density$mean, n_dim), rep_len(density$sd, n_dim)))
}

diagonal_part <- function(weight, mean, sd, df = Inf) {
  list(weight = weight, mean = mean, df = df, sd = sd)
}

# A factor without entries beside its diagonal makes a diagonal part, with the same bits and less work.
full_part <- function(weight, mean, factor, inverse = core_inverse_factor(factor), df = Inf) {
  if (all(factor[lower.tri(factor)] == 0)) {
    return(diagonal_part(weight, mean, diag_of(factor), df))
  }
  list(weight = weight, mean = mean, df = df, factor = factor, inverse = inverse)
}

# diag() takes a 1 x 1 matrix of 3 for a size.
diag_of <- function(x) {
  x[seq.int(1, length(x), by = nrow(x) + 1)]
}

# One vector from all parts, a part's numbers side by side.
gather <- function(parts, what) {
  unlist(lapply(parts, what), use.names = FALSE)
}

is_diagonal <- function(part) {
  !is.null(part$sd)
}

# Rows of a lower triangular matrix, one after the other.
pack_rows <- function(lower) {
  upper <- t(lower)
  upper[upper.tri(upper, diag = TRUE)]
}

pack_diagonal <- function(x) {
  packed <- numeric(length(x) * (length(x) + 1) / 2)
  packed[cumsum(seq_along(x))] <- x
  packed
}

# The diagonals of `count` packed matrices.
packed_diagonals <- function(packed, count) {
  size <- length(packed) / count
  n_dim <- (sqrt(8 * size + 1) - 1) / 2
  packed[outer(cumsum(seq_len(n_dim)), size * (seq_len(count) - 1), `+`)]
}

half_log_two_pi <- 0x1.d67f1c864beb5p-1

# The leaf's nodes: see src/core/elliptical.h, and src/core/mixture.h for independent normals.
elliptical_nodes <- function(parts, n_dim) {
  diagonal <- all(vapply(parts, is_diagonal, NA))
  dfs <- gather(parts, function(part) part$df)
  weights <- gather(parts, function(part) part$weight)
  count <- length(parts)
  if (diagonal && all(dfs == Inf)) {
    rows <- function(what) matrix(gather(parts, what), count, byrow = TRUE)
    return(list(mixture_node(weights, rows(function(part) part$mean), rows(function(part) part$sd), n_dim)))
  }
  inverse_of <- function(part) if (is_diagonal(part)) pack_diagonal(1 / part$sd) else part$inverse
  inverses <- gather(parts, if (diagonal) function(part) 1 / part$sd else inverse_of)
  arrays <- list(log_constants(parts, weights, dfs, n_dim), gather(parts, function(part) part$mean), inverses)
  names(arrays) <- c("log_const", "mean", if (diagonal) "inv_sd" else "inv_factor")
  if (any(dfs < Inf)) {
    arrays$df <- dfs
  }
  # measured with AVX-512; rows of W share the loads of x
  ns <- count * (if (diagonal) 0.6 * n_dim else 0.5 * n_dim + 0.04 * n_dim^2) + 2 * sum(dfs < Inf)
  list(node("elliptical", count, flags = if (diagonal) 0L else 1L, arrays = arrays, ns = ns))
}

# Nodes are made once where the number of dims is known.
with_nodes <- function(density) {
  n_dim <- density$n_dim
  if (!is.na(n_dim)) {
    density$nodes <- elliptical_nodes(elliptical_parts(density, n_dim), n_dim)
  }
  density
}

# log w - sum of log scales - n_dim / 2 log(2 pi), and for a t lgamma((df + d) / 2) - lgamma(df / 2) - d / 2 log(df / 2)
# more, which goes to 0 as df grows: written so, nothing cancels.
log_constants <- function(parts, weights, dfs, n_dim) {
  log_det <- vapply(parts, function(part) core_sum_log(if (is_diagonal(part)) part$sd else diag_of(part$factor)), 0)
  normal <- core_math("log", weights) - log_det - n_dim * half_log_two_pi
  finite <- dfs < Inf
  normal[finite] <- normal[finite] + core_lgamma_ratio(dfs[finite] / 2, rep(n_dim / 2, sum(finite)))
  normal
}

# The lower Cholesky factor of a covariance or scale matrix, checked.
check_covariance <- function(x, arg, n_dim = NULL) {
  check_square(x, arg, n_dim, "a symmetric positive definite matrix")
  x <- matrix(as.double(x), nrow(x))
  variances <- diag_of(x)
  if (any(variances <= 0)) {
    i <- which(variances <= 0)[1]
    abort_input(arg, sprintf("positive definite, but entry [%d, %d] is not positive", i, i), variances[i])
  }
  check_symmetric(x, variances, arg)
  result <- core_cholesky((x + t(x)) / 2)
  check_pivots(result, variances, arg, x)
  result$factor
}

# A pivot is what is left of a variable's variance when the variables before it are known. It comes with an error of up
# to n_dim rounding errors of the variance, so one that is no larger may as well be zero.
check_pivots <- function(result, variances, arg, value) {
  pivots <- diag_of(result$factor)^2
  failed <- result$pivot
  if (failed > 0) {
    pivots <- c(pivots[seq_len(failed - 1)], diag_of(result$factor)[failed])
  }
  error <- length(variances) * .Machine$double.eps * variances[seq_along(pivots)]
  bad <- which(!(pivots > error))[1]
  if (is.na(bad)) {
    return(invisible())
  }
  why <- if (isTRUE(pivots[bad] < -error[bad])) {
    sprintf("but pivot %d of its Cholesky factor is %s", bad, format(pivots[bad], digits = 4))
  } else {
    sprintf("but to rounding it is singular: variable %d is a linear combination of those before it", bad)
  }
  abort_input(arg, paste0("positive definite, ", why), value)
}

check_square <- function(x, arg, n_dim, what) {
  size <- if (is.null(n_dim)) "n_dim x n_dim" else sprintf("%d x %d", n_dim, n_dim)
  fits <- is.matrix(x) && nrow(x) == ncol(x) && nrow(x) > 0 && (is.null(n_dim) || nrow(x) == n_dim)
  if (!is.numeric(x) || is.object(x) || !fits || !all(is.finite(x))) {
    abort_input(arg, sprintf("%s of finite numbers, %s", what, size), x)
  }
}

# Entries may differ by rounding alone: 100 eps of the root of the product of the two variances.
check_symmetric <- function(x, variances, arg) {
  scale <- sqrt(variances)
  apart <- abs(x - t(x)) > 100 * .Machine$double.eps * (scale %o% scale)
  if (any(apart)) {
    at <- which(apart, arr.ind = TRUE)[1, ]
    i <- max(at)
    j <- min(at)
    rule <- sprintf(
      "symmetric, but entry [%d, %d] is %s and entry [%d, %d] is %s", i, j, format(x[i, j], digits = 15), j, i,
      format(x[j, i], digits = 15)
    )
    abort_input(arg, rule, x)
  }
}

# A Cholesky factor from either triangle, checked; returns the lower one.
check_cholesky <- function(x, arg, n_dim = NULL) {
  check_square(x, arg, n_dim, "the Cholesky factor of a covariance, a triangular matrix")
  x <- matrix(as.double(x), nrow(x))
  lower <- all(x[upper.tri(x)] == 0)
  if (!lower && !all(x[lower.tri(x)] == 0)) {
    abort_input(arg, "triangular: the Cholesky factor of a covariance, such as chol(S)", x)
  }
  if (any(diag_of(x) < smallest_sd)) {
    i <- which(diag_of(x) < smallest_sd)[1]
    rule <- sprintf("a Cholesky factor with a positive diagonal (from 2.3e-308), but entry [%d, %d] is not", i, i)
    abort_input(arg, rule, x[i, i])
  }
  if (lower) x else t(x)
}

# The inverse of a checked factor, packed; its numbers must not overflow.
checked_inverse <- function(factor, arg, value) {
  inverse <- core_inverse_factor(factor)
  if (!all(is.finite(inverse))) {
    abort_input(arg, "a matrix whose Cholesky factor has a finite inverse", value)
  }
  inverse
}
