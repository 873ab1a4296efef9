# What weights say about themselves.

# `tail`: the largest finite log weights, falling.
weight_diagnostics <- function(total, tail) {
  n <- total$n
  known <- total$sum > 0
  ess <- if (known) min(max(total$sum * total$sum / total$sum_squares, 1), n) else 0
  list(
    ess = ess,
    relative_efficiency = if (known) ess / n else NA_real_,
    log_mean_weight = if (known) total$max + (core_math("log", total$sum) - core_math("log", n)) else -Inf,
    log_mean_weight_se = if (known && n > 1) sqrt(max(0, n * total$sum_squares / total$sum^2 - 1) / n) else NA_real_,
    pareto_k = pareto_k_of(tail, n),
    max_share = if (known) 1 / total$sum else NA_real_
  )
}

# Length of the tail that a Pareto distribution is fitted to; the next largest weight is its threshold.
tail_length <- function(n, n_known) {
  max(0, min(ceiling(min(0.2 * n, 3 * sqrt(n))), n_known - 1))
}

# NA where it cannot be computed. Weights that are next to nothing beside a few of the largest leave no digits to fit
# to, yet are the worst there are: Inf. Ties that cannot be fitted, at the threshold or at the top, give NA.
pareto_k_of <- function(tail, n) {
  fit <- pareto_fit(tail, n)
  if (is.null(fit)) {
    return(NA_real_)
  }
  if (is.finite(fit$k)) {
    return(fit$k)
  }
  beside_largest <- tail[tail_length(n, length(tail)) + 1] - tail[1]
  if (beside_largest < -700 && tail[5] < tail[1]) Inf else NA_real_
}

# list(k, sigma) of the excess of the tail's weights over the threshold, relative to the largest weight; or NULL.
pareto_fit <- function(tail, n) {
  length <- tail_length(n, length(tail))
  if (length < 5 || tail[1] - tail[length] < .Machine$double.eps / 100 || !requireNamespace("loo", quietly = TRUE)) {
    return(NULL)
  }
  weights <- exp(rev(tail[seq_len(length + 1)]) - tail[1])
  loo::gpdfit(weights[-1] - weights[1], sort_x = FALSE)
}

# Thresholds of Vehtari and others (2024).
describe_k <- function(k, n) {
  if (is.na(k)) {
    return("not computed")
  }
  limit <- min(1 - 1 / log10(n), 0.7)
  judgement <- if (k > limit) {
    sprintf("above %.2g: not reliable", limit)
  } else if (k > 0.5) {
    "from 0.5 to 0.7: usable, but slow to converge"
  } else {
    "good"
  }
  sprintf("%.2f (%s)", k, judgement)
}
