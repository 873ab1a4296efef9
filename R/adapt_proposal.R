#' Adapt a proposal
#'
#' Fits a normal, a Student t or a mixture of these to weighted draws, round by round: population Monte Carlo. The
#' result is a proposal for [importance_sample()].
#'
#' @param target Density to come near to; it need not be normalised.
#' @param proposal Density, or list of densities, that the first round draws from, as in [importance_sample()]. It must
#'   reach where the target is, and rather be too wide than too narrow. A result that has not arrived may be given
#'   again, with another seed.
#' @param n Number of draws of a round: a whole number from 1 to 2^31 - 1.
#' @param n_rounds Number of rounds: a whole number from 1 to 1000.
#' @param df Degrees of freedom of what is fitted: one number > 0, `Inf` for normals.
#' @param n_components Number of components of what is fitted: a whole number from 1 to 100.
#' @inheritParams importance_sample
#' @inheritParams is_weights
#'
#' @details
#' A round draws n times from the proposal so far, weighs the draws towards the target and fits the new proposal to the
#' weighted draws:
#'
#' * One normal gets their mean and covariance.
#' * One Student t gets location and scale by up to 20 steps of the EM algorithm, from there.
#' * A mixture takes up to 20 steps of EM from that of the round before (Cappe and others 2008): with responsibilities
#'   \eqn{\rho_{ik}} of component k for draw i, component k is fitted to weights \eqn{w_i \rho_{ik}} and gets their sum
#'   as its weight, of which 5% are shared out evenly. The first round starts components at different draws, chosen
#'   by weight.
#'
#' Where the proposal is still far from the target a few draws carry all the weight, and nothing can be learnt from
#' those. So with d dims and K components weights are first taken to a power between 0 and 1, the largest that leaves
#' them an ESS of 10 (d + 1) K, or of half the draws where that is less. The draws then stand for a density on the way
#' to the target, and each round leads further. Near the target the power is 1. A prior that is wide for a posterior of
#' ten or twenty dims serves as a start in this way; `rounds` in the result shows whether the last round had arrived.
#'
#' Weights and responsibilities are logarithms until they are summed, so nothing underflows. A covariance S is taken for
#' (m S + (d + 1) B) / (m + d + 1), with m the ESS of the weights that S is from, and B the covariance of the round
#' before. So it stays positive definite with few draws, too.
#'
#' Round r takes the seed that the words of purpose 5 under `seed` give, so it shares no random number with a run of the
#' same seed. All sums are those of [importance_sample()] and everything else is exact or the package's own arithmetic:
#' the result is the same to the bit on every machine, where the target is.
#'
#' A proposal with lighter tails than the target has weights of infinite variance, hence the default of `df`. A list of
#' the result and a wide density, `importance_sample(target, list(adapted, wide), n)`, is a safeguard against what the
#' rounds have missed.
#' @return A density: [density_mvnormal()], [density_student_t()] or a mixture of these, with an attribute `rounds`: a
#'   data frame with a row per round of `round`, `ess`, `relative_efficiency` and `log_mean_weight`, those of the
#'   proposal that the round drew from and of its weights themselves, and `power`, what they were taken to.
#' @section Errors:
#' `fusedmc_error_input` for arguments of the wrong type, shape or range; `fusedmc_error_nonfinite` where a log weight
#' is `NaN` or `+Inf` and `nonfinite = "error"`, or all draws of a round have weight zero; others as in
#' [importance_sample()].
#' @references
#' Cappe, Guillin, Marin and Robert (2004), Population Monte Carlo, *Journal of Computational and Graphical Statistics*
#' 13, 907-929.
#'
#' Cappe, Douc, Guillin, Marin and Robert (2008), Adaptive importance sampling in general mixture classes, *Statistics
#' and Computing* 18, 447-459.
#' @seealso [importance_sample()]
#' @export
#' @examples
#' target <- density_mvnormal(c(3, -2), matrix(c(1, 0.8, 0.8, 1), 2))
#' adapted <- adapt_proposal(target, density_student_t(3, scale = 3), n = 2000, seed = 1)
#' attr(adapted, "rounds")
#' importance_sample(target, adapted, 1e4, seed = 1)
adapt_proposal <- function(target, proposal, n = 10000, n_rounds = 10, df = 5, n_components = 1, seed = NULL,
                           n_dim = NULL, nonfinite = c("error", "drop"), precision = c("double", "single"),
                           backend = getOption("fusedmc.backend", "auto"), device = 0L) {
  n <- check_positive_whole(n, "n")
  n_rounds <- check_positive_whole(n_rounds, "n_rounds", 1000, "1000")
  if (!qtest(df, "N1(0,]") || is.object(df) || df < 2^-126) {
    abort_input("df", "one number > 0 (from 1.2e-38), Inf allowed", df)
  }
  n_components <- check_positive_whole(n_components, "n_components", 100, "100")
  precision <- check_precision(if (missing(precision)) "double" else precision)
  nonfinite <- check_choice(if (missing(nonfinite)) "error" else nonfinite, c("error", "drop"), "nonfinite")
  n_dim <- check_is_densities(target, proposal, n_dim)
  settings <- is_settings(TRUE, precision, TRUE, 0)
  check_draws_fit(n, n_dim)
  runs <- check_is_devices(NULL, backend, target, proposal, n_dim, n, settings, device)
  plan <- new_is_plan(target, proposal, n_dim, check_seed(seed), settings)
  adapt_rounds(plan, n, nonfinite, runs[[1]], n_rounds, as.double(df), n_components)
}

# `plan` is that of a run, whose proposal is where the rounds begin and whose seed theirs are made from.
adapt_rounds <- function(plan, n, nonfinite, run, n_rounds = 10, df = 5, n_components = 1) {
  plan$settings <- is_settings(TRUE, plan$settings$precision, TRUE, 0)
  names <- names_of_parts(plan$n_dim, c(list(plan$target), as_proposals(plan$proposal)))
  parts <- unlist(lapply(as_proposals(plan$proposal), draw_parts, plan$n_dim), recursive = FALSE)
  fit <- list(cov = covariance_of_parts(parts))
  rounds <- list()
  for (r in seq_len(n_rounds)) {
    now <- new_is_plan(plan$target, plan$proposal, plan$n_dim, derived_seed(plan$seed, 5, r), plan$settings)
    draws <- new_is_draws(now, 0, uninterrupted(run_range(now, 0, n, run, nonfinite)))
    if (draws$ess == 0) {
      message <- sprintf("All %s weights of round %d are zero: the proposal does not reach the target.", whole(n), r)
      abort("nonfinite", message, argument = "proposal")
    }
    weighted <- as_weighted(draws, n_components)
    fit <- fit_round(fit, weighted, df, n_components, derived_seed(plan$seed, 5, 0), run)
    plan$proposal <- density_of_parts(fit$parts, names)
    rounds[[r]] <- c(unclass(draws)[c("ess", "relative_efficiency", "log_mean_weight")], power = weighted$power)
  }
  structure(
    plan$proposal,
    rounds = data.frame(round = seq_len(n_rounds), do.call(rbind, lapply(rounds, as.data.frame)))
  )
}

# Half a round is of no use.
uninterrupted <- function(part) {
  if (part$interrupted) {
    raise_interrupt()
  }
  part
}

# ---- fitting ---------------------------------------------------------------------------------

# `fit` is list(cov, parts): covariance of all, and components as elliptical.R has them; without parts at first.
fit_round <- function(fit, draws, df, n_components, seed, run) {
  all <- shrunk_moments(draws, draws$log_weights, numeric(ncol(draws$x)), fit$cov, run)
  if (n_components == 1) {
    part <- full_component(1, all$mean, all$cov, df)
    parts <- if (df < Inf) em_steps(list(part), draws, all$cov, run) else list(part)
  } else {
    # components share the room of the whole
    base <- all$cov * core_math("exp", -2 / ncol(draws$x) * core_math("log", n_components))
    parts <- if (is.null(fit$parts)) first_components(draws, base, df, n_components, seed) else fit$parts
    parts <- em_steps(parts, draws, base, run)
  }
  list(cov = all$cov, parts = parts)
}

# What carries weight, its weights taken to a power that lets enough of it count.
as_weighted <- function(draws, n_components) {
  used <- draws$log_weights > -Inf
  x <- unname(draws$draws[used, , drop = FALSE])
  log_weights <- draws$log_weights[used]
  power <- next_temperature(log_weights, 0, min(0.5, 10 * (ncol(x) + 1) * n_components / nrow(x)))
  list(x = x, log_weights = power * log_weights, power = power)
}

em_steps <- function(parts, draws, base, run, n_steps = 20) {
  for (step in seq_len(n_steps)) {
    before <- parts
    parts <- em_step(parts, draws, base, run)
    if (little_changed(before, parts)) {
      break
    }
  }
  parts
}

# Whether means have moved by less than a hundredth of an sd, and sds by less than a hundredth.
little_changed <- function(before, after) {
  all(mapply(function(old, new) {
    sds <- root_of_diagonal(old)
    all(abs(new$mean - old$mean) < sds / 100, abs(root_of_diagonal(new) - sds) < sds / 100) &&
      abs(new$weight - old$weight) < 1e-3
  }, before, after))
}

root_of_diagonal <- function(part) {
  sqrt(Reduce(`+`, lapply(seq_along(part$mean), function(j) part$factor[, j]^2)))
}

# One step of EM for a mixture of t, or of normals where df is Inf, each component shrunk towards `base`. A component
# whose responsibilities carry no weight at all stays as it is.
em_step <- function(parts, draws, base, run) {
  logs <- vapply(parts, function(part) log_density_of(part, draws$x, run), numeric(nrow(draws$x)))
  logs <- matrix(logs, nrow(draws$x))
  weights <- vapply(parts, `[[`, 0, "weight")
  owned <- log_responsibilities(logs, weights) + draws$log_weights
  shares <- vapply(seq_along(parts), function(k) log_sum(owned[, k], run), 0)
  shares <- if (length(parts) == 1) 1 else core_math("exp", shares - max(shares))
  shares <- 0.95 * shares / Reduce(`+`, shares) + 0.05 / length(parts)
  lapply(seq_along(parts), function(k) {
    part <- parts[[k]]
    if (all(owned[, k] == -Inf)) {
      return(replace(part, "weight", list(shares[k])))
    }
    log_weights <- owned[, k] + log_latent_scale(part, logs[, k], run)
    moments <- shrunk_moments(draws, log_weights, part$mean, base, run)
    full_component(shares[k], moments$mean, moments$cov, part$df)
  })
}

# Log responsibilities from log densities, both n x K.
log_responsibilities <- function(logs, weights) {
  if (ncol(logs) == 1) {
    return(logs * 0)
  }
  logs <- logs + rep(core_math("log", weights), each = nrow(logs))
  top <- do.call(pmax, lapply(seq_len(ncol(logs)), function(k) logs[, k]))
  sums <- Reduce(`+`, lapply(seq_len(ncol(logs)), function(k) core_math("exp", logs[, k] - top)))
  out <- logs - (top + core_math("log", sums))
  out[is.nan(out)] <- -Inf
  out
}

# Log of the expected precision (df + d) / (df + q) that a draw has as one of a t. From its log density, which is
# - (df + d) / 2 log(1 + q / df) more than the one in the middle.
log_latent_scale <- function(part, logs, run) {
  if (part$df == Inf) {
    return(0)
  }
  n_dim <- length(part$mean)
  middle <- log_density_of(part, matrix(part$mean, 1), run)
  core_math("log", (part$df + n_dim) / part$df) + 2 / (part$df + n_dim) * (logs - middle)
}

# The log density of a part without its weight.
log_density_of <- function(part, x, run) {
  density <- density_of_parts(list(replace(part, "weight", list(1))), NULL)
  evaluate_nodes(density, x, "double", run[[1]], run[[2]])
}

log_sum <- function(log_weights, run) {
  total <- total_nodes(run_importance(length(log_weights), 0, log_weights = log_weights, run = run)$nodes)
  if (total$sum > 0) total$max + core_math("log", total$sum) else -Inf
}

# Weighted mean and covariance, the latter shrunk towards `base` in so far as few draws carry the weight.
shrunk_moments <- function(draws, log_weights, shift, base, run) {
  n_dim <- ncol(draws$x)
  result <- run_importance(
    nrow(draws$x), n_dim,
    samples = draws$x, log_weights = log_weights, moments = "products", shift = shift, run = run
  )
  total <- total_of(result$nodes, n_dim)
  plan <- list(n_dim = n_dim, shift = shift, settings = list(covariance = TRUE))
  moments <- moments_of_total(total, plan)
  ess <- total$sum^2 / total$sum_squares
  cov <- (ess * moments$cov + (n_dim + 1) * base) / (ess + n_dim + 1)
  # what rounding or overflow has spoilt
  if (!all(is.finite(cov)) || core_cholesky(cov)$pivot > 0) {
    cov <- base
  }
  list(mean = unname(moments$mean), cov = unname(cov))
}

# Components of the same covariance around different draws, chosen by weight: those of the largest log weight plus a
# Gumbel variable, which is drawing without replacement.
first_components <- function(draws, cov, df, n_components, seed) {
  n <- length(draws$log_weights)
  words <- philox_words(rep(seed, n), rep(5, n), rep(0, n), rep(0, n), seq_len(n) - 1)
  uniform <- (words[, 1] + 0.5) / 2^32
  keys <- draws$log_weights - core_math("log", -core_math("log", uniform))
  chosen <- utils::head(order(keys, decreasing = TRUE), n_components)
  lapply(chosen, function(i) full_component(1 / length(chosen), draws$x[i, ], cov, df))
}

# ---- parts -----------------------------------------------------------------------------------

full_component <- function(weight, mean, cov, df) {
  list(weight = weight, mean = mean, df = df, factor = core_cholesky(cov)$factor)
}

# The covariance of a mixture of parts, with scale matrices in the place of covariances where df is finite: those need
# not exist. Sums and products are R's elementwise ones, which are the same on every machine.
covariance_of_parts <- function(parts) {
  weights <- gather(parts, function(part) part$weight)
  weights <- weights / Reduce(`+`, weights)
  centre <- Reduce(`+`, Map(function(part, weight) weight * part$mean, parts, weights))
  Reduce(`+`, Map(function(part, weight) {
    away <- part$mean - centre
    weight * (scale_matrix(part) + away %o% away)
  }, parts, weights))
}

scale_matrix <- function(part) {
  n_dim <- length(part$mean)
  if (is_diagonal(part)) {
    return(diag(part$sd^2, n_dim))
  }
  Reduce(`+`, lapply(seq_len(n_dim), function(j) part$factor[, j] %o% part$factor[, j]))
}

# A density of one part, or the mixture of several.
density_of_parts <- function(parts, parameters) {
  if (length(parts) > 1) {
    weights <- vapply(parts, `[[`, 0, "weight")
    return(density_mixture(weights, components = lapply(parts, function(part) density_of_part(part, parameters))))
  }
  density_of_part(parts[[1]], parameters)
}

density_of_part <- function(part, parameters) {
  class <- if (part$df == Inf) "fusedmc_density_mvnormal" else "fusedmc_density_student_t"
  fields <- list(mean = part$mean, factor = part$factor, inverse = core_inverse_factor(part$factor))
  fields <- c(if (part$df < Inf) list(df = part$df), fields, list(parameters = parameters))
  with_nodes(do.call(new_density, c(list(class, length(part$mean)), fields)))
}
