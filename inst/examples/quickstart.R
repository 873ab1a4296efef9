# What fusedmc does, each result beside the value that theory or another program gives for it.
#   Rscript inst/examples/quickstart.R     (or: make run)
# Ends with an error if a result lies more than four standard errors from its expected value.

library(fusedmc)

# Prints ours, expected and the standard error of ours, and keeps the distance in standard errors.
distances <- numeric()
compare <- function(what, ours, expected, se) {
  away <- (ours - expected) / se
  distances <<- c(distances, away)
  verdict <- if (abs(away) <= 4) "agrees" else "DIFFERS"
  cat(sprintf("  %-36s %10.5f %10.5f %9.5f   %s\n", what, ours, expected, se, verdict))
}
heading <- function(text) {
  cat("\n", text, "\n", sprintf("  %-36s %10s %10s %9s\n", "", "ours", "expected", "s.e."), sep = "")
}
standard_error <- function(x) sd(x) / sqrt(length(x))

print(backend_info())

# ---- Random-walk Metropolis-Hastings on a standard normal ------------------------------------

n_chains <- 4096
n_dim <- 64
target <- density_normal(0, 1)

heading("One step of 4096 chains in 64 dims from the mode of a standard normal")
step_size <- 0.1
out <- mh_step(matrix(0, n_chains, n_dim), target, step_size, seed = 1)
# E min(1, p(s z) / p(0)) = E exp(-s^2 |z|^2 / 2)
expected <- (1 + step_size^2)^(-n_dim / 2)
compare("acceptance rate", mean(out$accepted), expected, sqrt(expected * (1 - expected) / n_chains))

heading("200 steps of 4096 chains in 64 dims, started from the standard normal itself")
step_size <- 2.4 / sqrt(n_dim)
# At stationarity a move of length r is accepted with probability 2 pnorm(-r / 2), and r / s is chi with n_dim degrees
# of freedom. In one dim the integral is (2 / pi) atan(2 / s).
acceptance <- function(step_size, n_dim) {
  chi <- function(r) 2 * r * dchisq(r^2, n_dim)
  integrate(function(r) 2 * pnorm(-step_size * r / 2) * chi(r), 0, sqrt(n_dim) + 10, rel.tol = 1e-10)$value
}
stopifnot(all.equal(acceptance(2.4, 1), 2 / pi * atan(2 / 2.4)))

set.seed(1)
x <- matrix(rnorm(n_chains * n_dim), n_chains)
n_accepted <- numeric(n_chains)
for (step in 0:199) {
  out <- mh_step(x, target, step_size, seed = 2, step = step)
  x <- out$x
  n_accepted <- n_accepted + out$accepted
}
# Chains are independent of each other, so their means give honest standard errors.
rate <- n_accepted / 200
compare("acceptance rate", mean(rate), acceptance(step_size, n_dim), standard_error(rate))
compare("mean of x", mean(x), 0, standard_error(rowMeans(x)))
compare("mean of x^2", mean(x^2), 1, standard_error(rowMeans(x^2)))

# ---- Importance weights ----------------------------------------------------------------------

heading("4096 draws from a normal with sd 3 in 16 dims, weighed as a mixture of three normals")
n <- 4096
n_dim <- 16
mixture_weights <- c(0.5, 0.3, 0.2)
means <- matrix(c(-1, 0.5, 1), 3, n_dim)
sds <- matrix(2.5, 3, n_dim)
set.seed(3)
samples <- matrix(rnorm(n * n_dim, 0, 3), n)
out <- is_weights(samples, density_mixture(mixture_weights, means, sds), density_normal(0, 3))

# The standard error of a self-normalised mean.
weighted_se <- function(x, out) sqrt(colSums(out$weights^2 * sweep(x, 2, out$mean)^2))
se <- weighted_se(samples, out)
for (d in 1:3) {
  compare(sprintf("weighted mean of x%d", d), out$mean[d], sum(mixture_weights * means[, d]), se[d])
}
w <- exp(out$log_weights)
compare("mean weight", exp(out$log_mean_weight), 1, standard_error(w))

# Mean squared weight: the sum over pairs of components of the product over dims of the integral of N N / q, where the
# integrand is a normal again. n over it is what ess tends to.
pair_integral <- function(i, j, proposal_sd = 3) {
  precision <- 1 / sds[i, ]^2 + 1 / sds[j, ]^2 - 1 / proposal_sd^2
  centre <- (means[i, ] / sds[i, ]^2 + means[j, ] / sds[j, ]^2) / precision
  square <- means[i, ]^2 / sds[i, ]^2 + means[j, ]^2 / sds[j, ]^2 - precision * centre^2
  prod(proposal_sd / (sds[i, ] * sds[j, ] * sqrt(precision)) * exp(-square / 2))
}
pairs <- expand.grid(i = 1:3, j = 1:3)
mean_square <- sum(mixture_weights[pairs$i] * mixture_weights[pairs$j] * mapply(pair_integral, pairs$i, pairs$j))
ratio <- mean(w)^2 / mean(w^2)
influence <- 2 * mean(w) / mean(w^2) * w - ratio / mean(w^2) * w^2 # of each draw on ess / n
compare("effective sample size / n", out$ess / n, 1 / mean_square, standard_error(influence))

# ---- Two real data sets ----------------------------------------------------------------------

if (requireNamespace("MASS", quietly = TRUE)) {
  heading("Diabetes in 200 women (MASS::Pima.tr): the normal that glm() reports, by 1024 chains started far from it")
  fit <- summary(glm(type ~ ., binomial, MASS::Pima.tr))$coefficients
  estimate <- fit[, "Estimate"]
  se <- fit[, "Std. Error"]
  n_dim <- length(estimate)
  # Independent normals: glm()'s correlations are left out.
  target <- density_normal(estimate, se)
  step_size <- 2.4 / sqrt(n_dim) * se
  x <- matrix(estimate + 5 * se, 1024, n_dim, byrow = TRUE, dimnames = list(NULL, names(estimate)))
  chain_sum <- chain_squares <- 0 * x
  n_warmup <- 500
  n_kept <- 500
  for (step in seq_len(n_warmup + n_kept) - 1) {
    x <- mh_step(x, target, step_size, seed = 4, step = step)$x
    if (step >= n_warmup) {
      chain_sum <- chain_sum + x
      chain_squares <- chain_squares + sweep(x, 2, estimate)^2
    }
  }
  chain_mean <- chain_sum / n_kept
  variance <- colMeans(chain_squares / n_kept)
  variance_se <- apply(chain_squares / n_kept, 2, standard_error)
  for (name in names(estimate)) {
    compare(paste("mean of", name), mean(chain_mean[, name]), estimate[[name]], standard_error(chain_mean[, name]))
    sd_here <- sqrt(variance[[name]])
    compare(paste("sd of", name), sd_here, se[[name]], variance_se[[name]] / (2 * sd_here))
  }
} else {
  cat("\nThe package MASS is not installed: its data set is left out.\n")
}

heading("Old Faithful (faithful): 20000 draws from a wide normal, weighed as two normals fitted by EM in plain R")
x <- as.matrix(faithful[c("waiting", "eruptions")])
share <- ifelse(x[, "eruptions"] > 3, 0.9, 0.1) # of each eruption in the first component
em_mean <- em_sd <- matrix(0, 2, 2)
for (iteration in 1:100) {
  member <- cbind(share, 1 - share)
  em_weights <- colMeans(member)
  for (k in 1:2) {
    em_mean[k, ] <- colSums(member[, k] * x) / sum(member[, k])
    em_sd[k, ] <- sqrt(colSums(member[, k] * sweep(x, 2, em_mean[k, ])^2) / sum(member[, k]))
  }
  density <- sapply(1:2, function(k) {
    em_weights[k] * dnorm(x[, 1], em_mean[k, 1], em_sd[k, 1]) * dnorm(x[, 2], em_mean[k, 2], em_sd[k, 2])
  })
  share <- density[, 1] / rowSums(density)
}
proposal_mean <- colMeans(x)
proposal_sd <- 2 * apply(x, 2, sd)
set.seed(5)
samples <- sapply(colnames(x), function(name) rnorm(20000, proposal_mean[name], proposal_sd[name]))
out <- is_weights(samples, density_mixture(em_weights, em_mean, em_sd), density_normal(proposal_mean, proposal_sd))
se <- weighted_se(samples, out)
# Each iteration of EM keeps the mean of the mixture at the mean of the data.
for (name in colnames(x)) {
  compare(sprintf("weighted mean of %s (min)", name), out$mean[[name]], mean(x[, name]), se[[name]])
}
compare("mean weight", exp(out$log_mean_weight), 1, standard_error(exp(out$log_weights)))
cat(sprintf("  effective sample size: %.0f of %d\n", out$ess, out$n))

# ---- Evidence of a regression -----------------------------------------------------------------

heading("Fuel consumption of 32 cars (mtcars): log evidence of a regression with known sigma, which has a closed form")
cars <- data.frame(mpg = as.vector(scale(mtcars$mpg)), scale(mtcars[c("wt", "hp", "qsec")]))
sigma <- 0.4
prior_sd <- 1
posterior <- density_glm(mpg ~ ., cars, family = gaussian(), sigma = sigma, prior_sd = prior_sd)
# y is normal with mean 0 and this covariance
factor <- chol(sigma^2 * diag(nrow(cars)) + prior_sd^2 * tcrossprod(model.matrix(mpg ~ ., cars)))
z <- backsolve(factor, cars$mpg, transpose = TRUE)
expected <- -sum(log(diag(factor))) - sum(z^2) / 2 - nrow(cars) / 2 * log(2 * pi)
prior <- density_normal(0, prior_sd)
out <- importance_sample(posterior, adapt_proposal(posterior, prior, seed = 1), n = 2^20, seed = 1)
compare("importance_sample(), 2^20 draws", out$log_mean_weight, expected, out$log_mean_weight_se)
out <- smc_sample(posterior, prior, n_particles = 16384, seed = 1)
compare("smc_sample(), 16384 particles", out$log_evidence, expected, out$log_evidence_se)

cat(sprintf("\n%d comparisons, the largest distance %.1f standard errors\n", length(distances), max(abs(distances))))
if (max(abs(distances)) > 4) {
  stop("a result is more than four standard errors from what is expected")
}
