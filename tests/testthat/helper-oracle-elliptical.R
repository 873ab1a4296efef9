# The oracle for multivariate normals, Student t, their mixtures, and draws from them: plain R on R's own linear
# algebra and gamma functions.

# One component in terms of its covariance or scale matrix. lgamma(a + h) - lgamma(a) is lgamma(h) - lbeta(a, h), which
# does not cancel.
oracle_part <- function(mean, sigma, df = Inf, weight = 1) {
  list(mean = mean, sigma = sigma, root = chol(sigma), df = df, weight = weight)
}

# list(value, scale): log densities at the rows of x, and the sums of the absolute terms that make them.
oracle_part_terms <- function(part, x) {
  d <- length(part$mean)
  z <- backsolve(part$root, t(x) - part$mean, transpose = TRUE)
  q <- colSums(z^2)
  log_det <- log(diag(part$root))
  terms <- if (part$df == Inf) {
    list(-q / 2, -d / 2 * log(2 * pi))
  } else {
    df <- part$df
    list(-(df + d) / 2 * log1p(q / df), lgamma(d / 2), -lbeta(df / 2, d / 2), -d / 2 * log(pi * df))
  }
  list(
    value = Reduce(`+`, terms) - sum(log_det), scale = Reduce(`+`, lapply(terms, abs)) + sum(abs(log_det))
  )
}

# A mixture of such parts, as oracle_log_density() takes it.
oracle_elliptical <- function(...) {
  parts <- list(...)
  parts <- Filter(function(part) part$weight > 0, parts)
  weights <- vapply(parts, function(part) part$weight, 0)
  columns <- function(x, what) {
    matrix(vapply(parts, function(part) oracle_part_terms(part, x)[[what]], numeric(nrow(x))), nrow(x))
  }
  list(
    log_density = function(x, precision = "double") {
      x <- round_to(x, precision)
      log_w <- matrix(log(weights / sum(weights)), nrow(x), length(parts), byrow = TRUE)
      oracle_log_sum_exp(columns(x, "value") + log_w)
    },
    scale = function(x) do.call(pmax, as.data.frame(columns(x, "scale")))
  )
}

# Largest error of log_density(), relative to the terms that make up the value.
oracle_error <- function(density, oracle, x, precision = "double") {
  largest_relative(log_density(density, x, precision), oracle$log_density(x, precision), oracle$scale(x))
}

# A covariance with variances of about `sd`^2, correlated.
grid_covariance <- function(d, salt, sd = 1) {
  a <- grid_matrix(2 * d, d, salt)
  sd^2 * crossprod(a) / (2 * d)
}

# ---- draws ---------------------------------------------------------------------------------

oracle_draw_words <- function(n, seed, use, block, offset) {
  oracle_words(seed, 2, use, block, seq_len(n) - 1, offset)
}

oracle_draw_uniform <- function(high, low) (high * 2^20 + low %/% 2^12 + 0.5) * 2^-52

oracle_draw_normals <- function(n, n_dim, seed, offset) {
  blocks <- lapply(seq_len((n_dim + 3) %/% 4) - 1, function(block) {
    oracle_normal(oracle_draw_words(n, seed, 0, block, offset))
  })
  do.call(cbind, blocks)[, seq_len(n_dim), drop = FALSE]
}

# The component of each sample, from 1.
oracle_draw_component <- function(n, weights, seed, offset) {
  if (length(weights) == 1) {
    return(rep(1, n))
  }
  words <- oracle_draw_words(n, seed, 1, 0, offset)
  u <- oracle_draw_uniform(words[, 1], words[, 2])
  vapply(u, function(u) which(c(u < cumsum(weights)[-length(weights)], TRUE))[1], 0)
}

# sqrt(df / chi-square) of each sample, by Marsaglia and Tsang.
oracle_draw_stretch <- function(n, df, seed, offset) {
  if (df >= 2^60) {
    return(rep(1, n))
  }
  half <- df / 2
  d <- (if (half < 1) half + 1 else half) - 1 / 3
  v <- rep(NA_real_, n)
  attempt <- 0
  while (anyNA(v)) {
    words <- oracle_draw_words(n, seed, 2 + attempt, 0, offset)
    z <- oracle_normal(words[, 1])
    u <- oracle_draw_uniform(words[, 3], words[, 4])
    t <- z / sqrt(9 * d)
    now <- is.na(v) & t > -1
    now[now] <- (log(u) < z^2 / 2 + d * (3 * log1p(pmax(t, -1)) - t * (3 + t * (3 + t))))[now]
    v[now] <- (1 + t[now])^3
    attempt <- attempt + 1
  }
  boost <- 1
  if (half < 1) {
    words <- oracle_draw_words(n, seed, 1, 15, offset)
    boost <- exp(-log(oracle_draw_uniform(words[, 1], words[, 2])) / df)
  }
  sqrt(half / (d * v)) * boost
}

# parts: a list of list(mean, factor = lower factor or sds, df, weight).
oracle_draw <- function(parts, n, seed, offset = 0, precision = "double") {
  rounded <- function(x) round_to(x, precision)
  n_dim <- length(parts[[1]]$mean)
  z <- oracle_draw_normals(n, n_dim, seed, offset)
  component <- oracle_draw_component(n, vapply(parts, function(part) part$weight, 0), seed, offset)
  x <- matrix(0, n, n_dim)
  for (k in unique(component)) {
    rows <- which(component == k)
    part <- parts[[k]]
    stretch <- rounded(oracle_draw_stretch(n, part$df, seed, offset)[rows])
    factor <- rounded(part$factor)
    for (i in seq_len(n_dim)) {
      move <- if (is.matrix(factor)) {
        Reduce(function(a, b) rounded(a + b), lapply(seq_len(i), function(j) rounded(factor[i, j] * z[rows, j])))
      } else {
        rounded(factor[i] * z[rows, i])
      }
      x[rows, i] <- rounded(rounded(part$mean[i]) + rounded(move * stretch))
    }
  }
  x
}
