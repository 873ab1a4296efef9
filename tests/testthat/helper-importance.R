# Shared by the tests of importance sampling.

is_target <- function() {
  density_mixture(c(0.3, 0.7), means = rbind(c(a = -1, b = 0), c(2, 1)), sds = rbind(c(1, 0.5), 1))
}

is_proposal <- function() density_student_t(5, c(0.5, 0.5), 2)

small_is <- function(n = 1000, offset = 0, ..., target = is_target(), proposal = is_proposal(), seed = 31) {
  importance_sample(target, proposal, n, seed = seed, offset = offset, backend = "cpu", ...)
}

# Plain R for all that a result says of draws and log weights.
oracle_is_draws <- function(draws, log_weights) {
  n <- nrow(draws)
  weights <- exp(log_weights - max(log_weights))
  share <- weights / sum(weights)
  mean <- colSums(draws * share)
  centred <- sweep(draws, 2, mean)
  cov <- t(centred) %*% (centred * share)
  list(
    mean = mean, sd = sqrt(diag(cov)), cov = cov, ess = 1 / sum(share^2), relative_efficiency = 1 / sum(share^2) / n,
    log_mean_weight = log(mean(weights)) + max(log_weights),
    log_mean_weight_se = sqrt(mean((weights - mean(weights))^2) / n) / mean(weights), max_share = max(share), n = n
  )
}

# sd of ESS / n by the delta method, from n weights.
efficiency_se <- function(weights) {
  a <- mean(weights)
  b <- mean(weights^2)
  sd(2 * a / b * (weights - a) - a^2 / b^2 * (weights^2 - b)) / sqrt(length(weights))
}

# A condition as Ctrl-C makes it, at the call number `at` of a target that is the standard normal.
interrupting_target <- function(at) {
  calls <- 0
  density_function(function(x) {
    calls <<- calls + 1
    if (calls == at) {
      signalCondition(structure(class = c("interrupt", "condition"), list(message = "interrupted", call = NULL)))
    }
    -rowSums(x^2) / 2
  }, n_dim = 2)
}
