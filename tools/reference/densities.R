# Makes inst/extdata/posteriors.csv: posterior means, sds and medians with their Monte Carlo standard errors, from
# programs other than this package. vignettes/densities.Rmd and tests/testthat/test-posteriors.R compare with them.
# Needs the packages mcmc, MCMCpack and MASS; takes some minutes. Run from the top of the tree:
#   Rscript --vanilla tools/reference/densities.R

# Estimates of mean and sd from an n x d matrix of draws in order, standard errors from 500 batch means. The sd's is
# that of the variance, divided by 2 sd.
summarise_path <- function(draws, n_batches = 500) {
  batch <- rep(seq_len(n_batches), each = nrow(draws) / n_batches)
  batch_se <- function(x) apply(rowsum(x, batch) * n_batches / nrow(x), 2, sd) / sqrt(n_batches)
  centred <- sweep(draws, 2, colMeans(draws))
  sds <- sqrt(colMeans(centred^2))
  data.frame(
    parameter = colnames(draws), mean = colMeans(draws), mean_se = batch_se(draws), sd = sds,
    sd_se = batch_se(centred^2) / (2 * sds)
  )
}

long <- function(problem, source, wide, quantities = c("mean", "sd")) {
  do.call(rbind, lapply(quantities, function(quantity) {
    data.frame(
      problem = problem, source = source, parameter = wide$parameter, quantity = quantity, value = wide[[quantity]],
      se = if (is.null(wide[[paste0(quantity, "_se")]])) 0 else wide[[paste0(quantity, "_se")]]
    )
  }))
}

prior_sd <- 2.5
n_steps <- 2e6

# ---- Pima.tr: logistic regression, predictors scaled ----------------------------------------------------------------

pima <- MASS::Pima.tr
pima[1:7] <- scale(pima[1:7])
pima$type <- as.numeric(pima$type == "Yes")
fit <- glm(type ~ ., binomial(), pima)
x <- model.matrix(fit)
signed <- (2 * pima$type - 1) * x

log_posterior <- function(b) {
  sum(plogis(signed %*% b, log.p = TRUE)) + sum(dnorm(b, 0, prior_sd, log = TRUE))
}
set.seed(101)
path <- mcmc::metrop(
  log_posterior, coef(fit),
  nbatch = n_steps / 10, nspac = 10, scale = 2.4 / sqrt(8) * t(chol(vcov(fit)))
)
draws <- path$batch
colnames(draws) <- colnames(x)
pima_metrop <- long("pima", "mcmc::metrop", summarise_path(draws))

draws <- MCMCpack::MCMClogit(
  type ~ .,
  data = pima, b0 = 0, B0 = 1 / prior_sd^2, burnin = 5000, mcmc = n_steps, thin = 10, tune = 0.85, seed = 102
)
pima_logit <- long("pima", "MCMCpack::MCMClogit", summarise_path(unclass(draws)))

# ---- warpbreaks: Poisson regression ---------------------------------------------------------------------------------

draws <- MCMCpack::MCMCpoisson(
  breaks ~ wool * tension,
  data = warpbreaks, b0 = 0, B0 = 1 / prior_sd^2, burnin = 5000, mcmc = n_steps, thin = 10, tune = 1, seed = 103
)
warpbreaks_poisson <- long("warpbreaks", "MCMCpack::MCMCpoisson", summarise_path(unclass(draws)))

fit <- glm(breaks ~ wool * tension, poisson(), warpbreaks)
x <- model.matrix(fit)

log_posterior <- function(b) {
  sum(dpois(warpbreaks$breaks, exp(x %*% b), log = TRUE)) + sum(dnorm(b, 0, prior_sd, log = TRUE))
}
set.seed(104)
path <- mcmc::metrop(
  log_posterior, coef(fit),
  nbatch = n_steps / 10, nspac = 10, scale = 2.4 / sqrt(6) * t(chol(vcov(fit)))
)
draws <- path$batch
colnames(draws) <- colnames(x)
warpbreaks_metrop <- long("warpbreaks", "mcmc::metrop", summarise_path(draws))

# ---- eight schools: tau integrated out numerically, the rest in closed form -----------------------------------------

y <- c(28, 8, -3, 7, -1, 1, 18, 12)
sigma <- c(15, 10, 16, 11, 9, 11, 10, 18)

# mu ~ normal(0, mu_sd), tau ~ half-Cauchy(0, tau_scale); Inf is a flat prior. Bayesian Data Analysis, section 5.4.
# The trapezoid rule on log tau, whose integrands vanish at both ends, is exact to rounding.
eight_schools <- function(mu_sd, tau_scale) {
  tau <- exp(seq(-20, 12, by = 0.005))
  variance <- outer(tau^2, sigma^2, `+`)
  precision <- rowSums(1 / variance) + 1 / mu_sd^2
  mu <- rowSums(rep(y, each = length(tau)) / variance) / precision
  misfit <- rowSums((rep(y, each = length(tau)) - mu)^2 / variance) + mu^2 / mu_sd^2
  log_weight <- log(tau) - log1p((tau / tau_scale)^2) - 0.5 * (log(precision) + rowSums(log(variance)) + misfit)
  weight <- exp(log_weight - max(log_weight))
  weight <- weight / sum(weight)

  own <- tau^2 / variance # the weight of a school's own estimate
  centre <- cbind(own * rep(y, each = length(tau)) + (1 - own) * mu, mu)
  spread <- sqrt(cbind(own * rep(sigma^2, each = length(tau)) + (1 - own)^2 / precision, 1 / precision))
  mean <- c(colSums(weight * centre), sum(weight * tau))
  square <- c(colSums(weight * (centre^2 + spread^2)), sum(weight * tau^2))
  median_of <- function(j) {
    uniroot(function(q) sum(weight * pnorm(q, centre[, j], spread[, j])) - 0.5, c(-50, 80), tol = 1e-10)$root
  }
  data.frame(
    parameter = c(paste0("theta[", 1:8, "]"), "mu", "tau"), mean = mean, sd = sqrt(square - mean^2),
    median = c(vapply(1:9, median_of, 0), tau[which(cumsum(weight) >= 0.5)[1]])
  )
}
weak <- eight_schools(5, 5)
flat <- eight_schools(Inf, Inf)

# posteriordb (Magnusson et al.), reference posterior eight_schools-eight_schools_noncentered, file
# reference_posteriors/summary_statistics/mean_value: means of 10,000 draws by Stan, and their standard errors.
posteriordb <- data.frame(
  parameter = c(paste0("theta[", 1:8, "]"), "mu", "tau"),
  mean = c(
    6.15050229334425, 4.9395811407422, 3.90590609001582, 4.79601675138494, 3.6144363246799, 4.0511475789675,
    6.31716975886893, 4.88399694353288, 4.41051833695493, 3.60205952364059
  ),
  mean_se = c(
    0.0557375282295219, 0.0462293788624847, 0.0542313705632124, 0.0474935816762281, 0.0461450610244603,
    0.0485195392528031, 0.0498766794075794, 0.0542511606560972, 0.0330374705950917, 0.0318615135640706
  )
)

# Bayesian Data Analysis, table 5.3: medians of 200 simulations, rounded to whole numbers. The standard error of a
# median is taken as that of normal draws.
book <- data.frame(parameter = paste0("theta[", 1:8, "]"), median = c(10, 8, 7, 8, 5, 6, 10, 8))
book$median_se <- sqrt(pi / 2 * flat$sd[1:8]^2 / 200 + 1 / 12)

# ---- the table ------------------------------------------------------------------------------------------------------

reference <- rbind(
  pima_metrop, pima_logit, warpbreaks_metrop, warpbreaks_poisson,
  long("schools_weak", "posteriordb", posteriordb, "mean"), long("schools_weak", "integral", weak),
  long("schools_flat", "BDA table 5.3", book, "median"),
  long("schools_flat", "integral", flat, c("mean", "sd", "median"))
)
reference$value <- signif(reference$value, 8)
reference$se <- signif(reference$se, 4)
write.csv(reference, "inst/extdata/posteriors.csv", row.names = FALSE, quote = 1:4)
print(subset(reference, quantity != "sd"), digits = 5)
