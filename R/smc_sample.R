#' Sample by tempered sequential Monte Carlo
#'
#' Moves particles from a density that can be drawn from to the target, through tempered densities between them, and
#' estimates the target's evidence on the way. It finds modes that lie apart, where chains of [mh_sample()] stay in
#' theirs.
#'
#' @param target Density to sample from, such as [density_glm()]; it need not be normalised.
#' @param initial Density to start from, normalised, and one that [draw()] can draw from: [density_normal()],
#'   [density_mvnormal()], [density_student_t()] or a mixture of these. It must cover the target, so rather too wide
#'   than too narrow; for a posterior the prior is a good choice.
#' @param n_particles Number of particles: a whole number from 1 on.
#' @param n_islands Number of islands, groups of particles that are resampled apart: a whole number that divides
#'   `n_particles`. `NULL`: the largest of 16, 8, 4, 2 and 1 that does and leaves 64 particles or more in each.
#' @param ess_threshold Next temperatures are chosen so that the effective sample size is this share of the particles:
#'   a number between 0 and 1. The higher, the more stages.
#' @param n_moves Random-walk steps of every particle in a stage: a whole number; or `"auto"`, as many as make the
#'   particles nearly independent of where they started, see below.
#' @param covariance Shape of the proposal: `"diagonal"`, a standard deviation per dim; `"full"`, the particles'
#'   covariance; or `"auto"`, which is full up to 50 dims where there are 10 particles per dim.
#' @param max_stages Number of stages after which to stop: a whole number from 1 to 4000.
#' @param nonfinite What to do with an initial particle at which the target's log density is `NaN` or `+Inf`:
#'   `"error"`, or `"drop"`, which gives it weight zero with a warning. It still counts in `n_particles`.
#' @param n_dim Number of dims, where both densities fit any number; else `NULL`.
#' @param progress Whether a line is shown for each stage, on the standard error. `NULL`: in interactive sessions, but
#'   not while knitting.
#' @inheritParams mh_sample
#'
#' @details
#' With \eqn{p_0} the initial density and \eqn{p} the target, stage t leads from inverse temperature
#' \eqn{\beta_{t-1}} to \eqn{\beta_t} along
#' \deqn{\pi_\beta(x) \propto p_0(x)^{1 - \beta} p(x)^\beta, \quad 0 = \beta_0 < \beta_1 < \dots < \beta_T = 1.}
#'
#' 1. Weights: \eqn{w_i = (p(x_i) / p_0(x_i))^{\beta_t - \beta_{t-1}}}, where \eqn{\beta_t} is found by bisection so
#'   that Kish's effective sample size of all particles is `ess_threshold` times the number of those with a positive
#'   weight; 1 where it is no less there.
#' 2. Resampling: systematic, within each island.
#' 3. Moves: random-walk steps by the kernels of [mh_sample()] that leave \eqn{\pi_{\beta_t}} invariant. The shape of
#'   the proposal comes from the particles: that of each half of them from the other half, so that none learns from
#'   itself. Moves come in rounds of 2, 2, 2, 3, 4, ... steps, each half as long as all before it. After a round the
#'   scale is adapted to the acceptance rate (0.441 in one dim, falling to 0.234 in more than five). With
#'   `n_moves = "auto"` the stage ends when the mean squared move since its start is 0.8 of what it would be between
#'   independent particles, averaged over dims (`jump`); or when a round has added less than a tenth to it, as where
#'   particles cannot change between modes; or after max(100, 10 n_dim) steps.
#'
#' The evidence of the target, \eqn{Z = \int p(x) dx}, is estimated in each island k by the product over stages of the
#' mean weights of its particles, \eqn{\hat Z_k}, then
#' \deqn{\log \hat Z = \log \frac{1}{K} \sum_k \hat Z_k, \quad
#'   \mathrm{se} = \frac{\mathrm{sd}(\hat Z_k)}{\sqrt{K} \hat Z}.}
#' The standard error is that of \eqn{\hat Z} relative to it, which is that of its logarithm where it is small. It has
#' K - 1 degrees of freedom. Above some 0.5 it means little: then more particles, more moves or a higher
#' `ess_threshold` are needed. Islands share temperatures and proposals, which come from all particles, so they are
#' only nearly independent: what that and adapting at all change is of the order of 1 / `n_particles`.
#'
#' Draws have equal weights. Within an island they are correlated, since particles have ancestors in common, so standard
#' errors of means also come from the islands: see [summary.smc_draws()]. Islands count equally, whatever their
#' evidence, so means have a bias of the order of 1 / (particles of an island).
#'
#' The result is a function of the seed and the arguments: the same for any number of threads, on CPU and GPU, and for a
#' run that was interrupted and resumed. Weights and resampling are computed on the CPU, log densities and moves where
#' `backend` or `devices` say.
#'
#' Ctrl-C ends the run early: what has been done comes back, at a temperature `beta` below 1, with a warning of class
#' `fusedmc_warning_interrupted`, and [smc_resume()] goes on from there. So does a run that reaches `max_stages`, with a
#' warning of class `fusedmc_warning_unfinished`.
#'
#' Timings and where the run took place are in `fit$run` and nowhere else. To compare two results to the bit, take that
#' part away: `fit$run <- NULL`.
#'
#' @return A list of class `smc_draws`, a plain R object that can be saved:
#'   * `draws`: matrix n_particles x n_dim, one particle per row, islands one after the other; columns have the names of
#'     the target's parameters, else of the initial density's, else `x[1]`, ...;
#'   * `log_evidence`, `log_evidence_se`: see above; the standard error is `NA` with one island. For a run that has not
#'     reached the target they are of the tempered density at `beta`;
#'   * `beta`: the inverse temperature that was reached, 1 at the end;
#'   * `temperatures`: inverse temperatures from 0 to `beta`;
#'   * `stages`: a data frame with a row per stage: `stage`, `beta`, `ess` (before resampling), `log_increment` (log
#'     mean weight of all particles), `unique` (share of the particles that were chosen), `n_moves`, `acceptance`,
#'     `scale` (of the proposal, relative to 2.38 / sqrt(n_dim) times its shape, after the stage), `moved` (share of
#'     the particles that moved at all), `jump` (of some thousand particles);
#'   * `islands`: log evidence of each island;
#'   * `not_finite`: number of proposals with a log density of `NaN` or `+Inf`, which were rejected, with step and row
#'     of the first; `n_dropped`: number of initial particles that `nonfinite = "drop"` gave weight zero;
#'   * `settings`: `n_particles`, `n_islands`, `ess_threshold`, `n_moves`, `covariance`, `target_acceptance`,
#'     `precision`;
#'   * `seed`, `target`, `initial`, `parameters`, `state` (what the next stage needs, `log_target` among it: the
#'     target's log densities at the draws of a finished run);
#'   * `run`: backend, devices and seconds; `version`: of the package.
#'
#'   It has methods for `print()`, `summary()`, `plot()`, `vcov()`, `as.matrix()`, and for \pkg{posterior}, where that
#'   is installed.
#' @section Errors:
#' `fusedmc_error_input` for arguments of the wrong type, shape or range, and where `initial` is not normalised or
#' cannot be drawn from; `fusedmc_error_nonfinite` where the target's log density is `NaN` or `+Inf` at an initial
#' particle, or is `-Inf` at all particles of an island; `fusedmc_error_memory` where the result would take more than
#' half of the free memory (`options(fusedmc.max_gb = )` sets another limit) or memory runs out; `fusedmc_error_cuda`
#' where a GPU that is asked for cannot be had.
#' @references
#' Neal (2001), Annealed importance sampling, *Statistics and Computing* 11, 125-139.
#'
#' Del Moral, Doucet and Jasra (2006), Sequential Monte Carlo samplers, *Journal of the Royal Statistical Society B* 68,
#' 411-436.
#'
#' Jasra, Stephens, Doucet and Tsagaris (2011), Inference for Levy-driven stochastic volatility models via adaptive
#' sequential Monte Carlo, *Scandinavian Journal of Statistics* 38, 1-22.
#'
#' Buchholz, Chopin and Jacob (2021), Adaptive tuning of Hamiltonian Monte Carlo within sequential Monte Carlo,
#' *Bayesian Analysis* 16, 745-771.
#' @seealso [smc_resume()], [summary.smc_draws()], [mh_sample()], which takes the draws as starts
#' @export
#' @examples
#' # two modes that a chain would not find from one another
#' target <- density_mixture(c(0.2, 0.8), means = rbind(c(-4, -4), c(4, 4)), sds = 0.5)
#' fit <- smc_sample(target, density_normal(c(0, 0), 5), n_particles = 1024, seed = 1)
#' fit
#' fit$stages
#' mean(fit$draws[, 1] > 0) # 0.8 is expected
#'
#' # the evidence of a regression, from the prior
#' post <- density_glm(am ~ wt, mtcars, family = binomial())
#' prior <- density_normal(0, 2.5)
#' smc_sample(post, prior, n_particles = 1024, seed = 1)$log_evidence
smc_sample <- function(target, initial, n_particles = 4096, n_islands = NULL, ess_threshold = 0.5, n_moves = "auto",
                       covariance = c("auto", "diagonal", "full"), max_stages = 1000, nonfinite = c("error", "drop"),
                       n_dim = NULL, seed = NULL, precision = c("double", "single"),
                       backend = getOption("fusedmc.backend", "auto"), devices = NULL, progress = NULL) {
  n_dim <- check_path(target, initial, n_dim)
  n_particles <- check_positive_whole(n_particles, "n_particles")
  n_islands <- check_n_islands(n_islands, n_particles)
  check_share(ess_threshold, "ess_threshold")
  n_moves <- check_n_moves(n_moves)
  shape <- check_choice(if (missing(covariance)) "auto" else covariance, c("auto", "diagonal", "full"), "covariance")
  max_stages <- check_max_stages(max_stages)
  nonfinite <- check_choice(if (missing(nonfinite)) "error" else nonfinite, c("error", "drop"), "nonfinite")
  precision <- check_precision(if (missing(precision)) "double" else precision)
  report <- stage_report(progress)
  seed <- check_seed(seed)
  check_particles_fit(n_particles, n_dim)
  settings <- list(
    n_particles = n_particles, n_islands = n_islands, ess_threshold = as.double(ess_threshold), n_moves = n_moves,
    covariance = choose_covariance(shape, n_particles, n_dim),
    target_acceptance = check_target_acceptance(NULL, n_dim, TRUE), precision = precision
  )
  fit <- list(
    target = target, initial = initial, settings = settings, seed = seed,
    parameters = parameter_names(if (is.null(target$parameters)) initial$parameters, target, n_dim), n_dropped = 0
  )
  x <- draw_rows(initial, n_particles, n_dim, start_seed(seed), 0)
  devices <- path_devices(fit, x, backend, devices)

  started <- proc.time()[[3]]
  now <- first_particles(fit, x, devices)
  dropped <- if (nonfinite == "drop") which(is.na(now$log_target) | now$log_target == Inf) else integer()
  now$log_target[dropped] <- -Inf
  fit$n_dropped <- length(dropped)
  warn_dropped(dropped)
  now <- run_stages(now, fit, max_stages, devices, report)
  finish_smc(fit, now, devices, proc.time()[[3]] - started)
}

# Particles at inverse temperature 0, of log densities that are computed but not checked: start_stage() does that.
first_particles <- function(fit, x, devices) {
  precision <- fit$settings$precision
  if (precision == "single") {
    x[] <- round_to_float(x)
  }
  check_finite_rows(x, "initial")
  n_dim <- ncol(x)
  list(
    x = x, log_target = evaluate_on(fit$target, x, precision, devices, fit$parameters),
    log_initial = evaluate_on(fit$initial, x, precision, devices, fit$parameters), beta = 0, stage = 0, step = 0,
    proposals = lapply(halves_of(fit$settings), function(at) new_proposal(rep(2.38 / sqrt(n_dim), n_dim))),
    log_evidence = numeric(fit$settings$n_islands), not_finite = no_bad_proposals, rows = list(), moving = NULL
  )
}

# A run takes some hundred steps, of the density of every stage.
path_devices <- function(fit, x, backend, devices) {
  check_devices(devices, backend, path_density(fit, 0.5), x, 200, fit$settings$precision)
}

# The result; `before` are the non-finite proposals that were told of already.
finish_smc <- function(fit, now, devices, seconds, before = 0) {
  fit <- new_smc_draws(fit, now, devices, seconds)
  bad <- fit$not_finite
  if (bad[["n"]] > before) {
    message <- sprintf(
      "Rejected %s with a log density of NaN or +Inf; the first: particle %s at step %s.",
      counted(bad[["n"]], "proposal"), format(bad[["row"]], scientific = FALSE),
      format(bad[["step"]], scientific = FALSE)
    )
    warn("nonfinite", message, n = bad[["n"]])
  }
  if (fit$beta < 1 || !is.null(fit$state$moving)) {
    kind <- if (now$interrupted) "interrupted" else "unfinished"
    what <- if (now$interrupted) "Interrupted" else "Stopped by `max_stages`"
    message <- sprintf(
      "%s in stage %s, at inverse temperature %.3g, before the end; smc_resume() goes on from there.", what,
      format(now$stage), fit$beta
    )
    warn(kind, message, beta = fit$beta)
  }
  fit
}

# ---- checks ----------------------------------------------------------------------------------

# The number of dims of target and initial density.
check_path <- function(target, initial, n_dim) {
  known <- check_parts(list(target, initial), c("target", "initial"))
  n_dim <- check_n_dim(n_dim, known, "`target` and `initial`")
  if (length(elliptical_parts(initial, n_dim)) == 0) {
    rule <- "a normalised density that can be drawn from: normal, multivariate normal, Student t or a mixture of these"
    abort("input", sprintf("`initial` must be %s; it is %s.", rule, format(initial)), argument = "initial")
  }
  n_dim
}

check_n_islands <- function(n_islands, n_particles) {
  if (is.null(n_islands)) {
    choices <- c(16, 8, 4, 2, 1)
    return(choices[n_particles %% choices == 0 & (n_particles >= 64 * choices | choices == 1)][1])
  }
  n_islands <- check_positive_whole(n_islands, "n_islands")
  if (n_islands > n_particles || n_particles %% n_islands != 0) {
    rule <- sprintf("a whole number that divides the %s particles", format(n_particles, scientific = FALSE))
    abort_input("n_islands", rule, n_islands)
  }
  n_islands
}

check_share <- function(x, arg) {
  if (!qtest(x, "N1(0,1)") || is.object(x)) {
    abort_input(arg, "a number between 0 and 1", x)
  }
}

# Together with the limit on stages, steps stay below 2^32.
check_n_moves <- function(n_moves) {
  if (identical(n_moves, "auto")) {
    return(n_moves)
  }
  if (!is.numeric(n_moves)) {
    abort_input("n_moves", "\"auto\" or a whole number from 1 to 1e6", n_moves)
  }
  check_positive_whole(n_moves, "n_moves", 1e6, "1e6")
}

check_max_stages <- function(max_stages) {
  check_positive_whole(max_stages, "max_stages", 4000, "4000")
}

choose_covariance <- function(shape, n_particles, n_dim) {
  if (shape != "auto") {
    return(shape)
  }
  if (n_dim > 1 && n_dim <= 50 && n_particles >= 10 * n_dim) "full" else "diagonal"
}

# Particles before and after moves and resampling, in R and on their way through the backend.
check_particles_fit <- function(n_particles, n_dim) {
  bytes <- 8 * 8 * n_particles * (n_dim + 4)
  limit <- memory_limit()
  if (bytes > limit) {
    message <- sprintf(
      "%s in %s would take %.3g GB; the limit is %.3g GB. Use fewer particles or options(fusedmc.max_gb = ).",
      counted(n_particles, "particle"), counted(n_dim, "dim"), bytes / 1e9, limit / 1e9
    )
    abort("memory", message, bytes = bytes)
  }
}

warn_dropped <- function(dropped) {
  if (length(dropped) > 0) {
    message <- sprintf(
      "The target's log density is NaN or +Inf at %s, which got weight zero: %s.",
      counted(length(dropped), "initial particle"), enumerate(utils::head(dropped, 5), length(dropped))
    )
    warn("nonfinite", message, indices = utils::head(dropped, 5), n = length(dropped))
  }
}

# NULL, or a function that says in a line how a stage went, at most one in half a second.
stage_report <- function(progress) {
  if (!wants_progress(progress)) {
    return(NULL)
  }
  last <- -Inf
  function(row) {
    if (row$beta == 1 || proc.time()[[3]] - last > 0.5) {
      last <<- proc.time()[[3]]
      message(sprintf(
        "stage %d: inverse temperature %.3g, ESS %.0f, %s, accepted %.3g", as.integer(row$stage), row$beta, row$ess,
        counted(row$n_moves, "move"), row$acceptance
      ))
    }
  }
}
