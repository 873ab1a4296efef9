# The oracle's densities, mh_step and is_weights; see helper-oracle.R.
# Precision "single": parameters, states and noise are rounded to float first, states and
# proposals follow float arithmetic exactly; densities are the double ones of those floats.

oracle_log_sum_exp <- function(m) {
  top <- do.call(pmax, lapply(seq_len(ncol(m)), function(k) m[, k]))
  shift <- ifelse(is.finite(top), top, 0)
  ifelse(top == Inf, Inf, shift + log(rowSums(exp(m - shift))))
}

# A density as the oracle sees it: list(weights = K, means = K x d or K x 1, sds likewise).
oracle_mixture <- function(weights, means, sds) {
  list(weights = weights, means = as.matrix(means), sds = as.matrix(sds))
}

oracle_log_density <- function(density, x, precision = "double") {
  x <- round_to(x, precision)
  n_components <- length(density$weights)
  spread <- function(p, k) matrix(p[k, ], nrow(x), ncol(x), byrow = TRUE)
  means <- round_to(density$means, precision)
  sds <- round_to(density$sds, precision)
  used <- which(density$weights > 0)
  parts <- vapply(used, function(k) {
    rowSums(matrix(stats::dnorm(x, spread(means, k), spread(sds, k), log = TRUE), nrow(x)))
  }, numeric(nrow(x)))
  parts <- matrix(parts, nrow(x))
  if (n_components == 1) {
    return(parts[, 1])
  }
  log_w <- log(density$weights[used] / sum(density$weights))
  oracle_log_sum_exp(parts + matrix(log_w, nrow(x), length(used), byrow = TRUE))
}

# x + step * noise, rounded twice per element. A matrix step is a Cholesky factor: lower L, or upper
# U with L = t(U); row i of L z is summed from j = 0 upwards, one rounding per product and sum.
oracle_proposal <- function(x, step_size, noise, precision = "double") {
  rounded <- function(v) round_to(v, precision)
  x <- rounded(x)
  noise <- rounded(noise)
  if (!is.matrix(step_size)) {
    step <- matrix(rounded(step_size), nrow(x), ncol(x), byrow = TRUE)
    return(rounded(x + rounded(step * noise)))
  }
  lower <- if (any(step_size[upper.tri(step_size)] != 0)) t(step_size) else step_size
  lower <- rounded(lower)
  out <- x
  for (i in seq_len(ncol(x))) {
    move <- rounded(lower[i, 1] * noise[, 1])
    for (j in seq_len(i)[-1]) {
      move <- rounded(move + rounded(lower[i, j] * noise[, j]))
    }
    out[, i] <- rounded(x[, i] + move)
  }
  out
}

# noise and u may be NULL: then they come from the generator at (seed, step, chain_offset). A
# proposal worked out before may be given, to spare the time.
oracle_mh_step <- function(x, target, step_size, noise = NULL, u = NULL, seed = 0, step = 0,
                           chain_offset = 0, precision = "double", proposal = NULL) {
  if (is.null(noise) && is.null(proposal)) {
    noise <- oracle_noise(nrow(x), ncol(x), seed, step, chain_offset)
  }
  if (is.null(u)) {
    log_u <- log(oracle_uniform(nrow(x), seed, step, chain_offset, precision))
  } else {
    log_u <- log(pmax(u, 1e-10))
  }
  x <- round_to(x, precision)
  if (is.null(proposal)) {
    proposal <- oracle_proposal(x, step_size, noise, precision)
  }
  old <- oracle_log_density(target, x, precision)
  new <- oracle_log_density(target, proposal, precision)
  log_alpha <- new - old
  accepted <- !is.na(new) & new < Inf & (log_alpha >= 0 | log_u < log_alpha)
  x[accepted, ] <- proposal[accepted, ]
  list(
    x = x, accepted = accepted, log_density = ifelse(accepted, new, old), log_alpha = log_alpha,
    log_u = log_u, proposal = proposal, old = old, new = new
  )
}

# Everything is_weights() returns, from log weights alone or from samples and two densities.
oracle_is_weights <- function(samples = NULL, target = NULL, proposal = NULL, log_weights = NULL,
                              precision = "double") {
  if (is.null(log_weights)) {
    log_p <- oracle_log_density(target, samples, precision)
    log_q <- oracle_log_density(proposal, samples, precision)
    log_weights <- log_p - log_q
    scale <- abs(log_p) + abs(log_q)
  } else {
    scale <- abs(log_weights)
  }
  n <- length(log_weights)
  top <- max(log_weights)
  raw <- exp(log_weights - top)
  total <- sum(raw)
  weights <- raw / total
  mean <- NULL
  if (!is.null(samples)) {
    samples <- round_to(samples, precision)
    mean <- vapply(seq_len(ncol(samples)), function(d) {
      sum((weights * samples[, d])[weights > 0])
    }, 0)
  }
  list(
    log_weights = log_weights, weights = weights, mean = mean, ess = total^2 / sum(raw^2),
    log_mean_weight = top + log(total / n), n = n, scale = scale
  )
}
