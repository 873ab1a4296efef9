# The stages of smc_sample(). What is under way is a list, `now`, that changes by three actions only, each a function of
# it alone: a stage starts (temperature, resampling, shape of the proposal), moves are taken, a round of moves ends. So
# it is whole whenever Ctrl-C comes, and to go on from it repeats every bit. Its entries:
#   x                    n_particles x n_dim
#   log_target, log_initial  of x, where no stage is under way; log_initial is NULL at the end
#   beta, stage, step    inverse temperature of x, stages so far, index of the next step
#   proposals            of the two halves, see halves_of(); each as in mh_adapt.R
#   log_evidence         one per island, of the density at the last temperature relative to the initial one
#   not_finite           as in run_steps.R
#   rows                 what is told of the stages that have ended
#   moving               the stage under way, or NULL: see start_stage()
# Every number here comes from IEEE operations and the core's sums, so two machines agree to the bit.

# The density at inverse temperature beta, from 0 (initial) to 1 (target).
path_density <- function(fit, beta) {
  if (beta == 1) {
    return(fit$target)
  }
  density_product(density_tempered(fit$target, beta), density_tempered(fit$initial, 1 - beta))
}

# Its log density from those of the two ends, rounded as the kernels do.
path_log_density <- function(log_target, log_initial, beta, precision) {
  if (beta == 1) {
    return(log_target)
  }
  tempered <- function(log_density, power) rounded_to(rounded_to(power, precision) * log_density, precision)
  rounded_to(tempered(log_target, beta) + tempered(log_initial, 1 - beta), precision)
}

run_stages <- function(now, fit, max_stages, devices, report) {
  now$interrupted <- FALSE
  tryCatch(
    while (!now$interrupted && is_under_way(now, max_stages)) {
      n_rows <- length(now$rows)
      now <- if (is.null(now$moving)) {
        start_stage(now, fit)
      } else if (any(lefts(now$moving) > 0)) {
        take_moves(now, fit, devices)
      } else {
        end_round(now, fit, devices)
      }
      if (!is.null(report) && length(now$rows) > n_rows) {
        report(now$rows[[length(now$rows)]])
      }
    },
    interrupt = function(condition) now$interrupted <<- TRUE
  )
  now
}

is_under_way <- function(now, max_stages) {
  !is.null(now$moving) || (now$beta < 1 && now$stage < max_stages)
}

# ---- temperature and resampling --------------------------------------------------------------

# `moving` then has
#   beta, ess, log_increment, unique   what the stage began with
#   parts    by half: start, the particles before their moves; run, a run's state (run_steps.R), whose counts are those
#            of the stage; left, steps of the round under way that are left
#   size     steps of the round under way
#   accepted, jump   accepted steps and mean jump at the end of the round before
start_stage <- function(now, fit) {
  settings <- fit$settings
  gap <- now$log_target - now$log_initial
  places <- island_places(settings)
  check_gap(gap)
  check_islands_alive(gap, places)
  beta <- next_temperature(gap, now$beta, settings$ess_threshold)
  log_weights <- (beta - now$beta) * gap
  pooled <- weight_sums_of(log_weights)
  increments <- vapply(places, function(at) weight_sums_of(log_weights[at])$log_mean_weight, 0)
  now$stage <- now$stage + 1
  index <- unlist(lapply(places, function(at) at[resample_island(log_weights[at], fit$seed, now$stage, at[1] - 1)]))
  x <- now$x[index, , drop = FALSE]
  log_density <- path_log_density(now$log_target[index], now$log_initial[index], beta, settings$precision)
  now$log_evidence <- now$log_evidence + increments
  size <- next_round(0, 0, 0, settings$n_moves, ncol(x))
  halves <- halves_of(settings)
  parts <- lapply(halves, function(at) {
    start <- x[at, , drop = FALSE]
    run <- list(x = start, log_density = log_density[at], step = now$step, not_finite = no_bad_proposals)
    list(start = start, run = count_anew(run), left = size)
  })
  learnt <- lapply(rev(parts), function(part) part$start)
  now$proposals <- Map(reshape_proposal, now$proposals, learnt, settings$covariance)
  now$moving <- list(
    beta = beta, ess = pooled$ess, log_increment = pooled$log_mean_weight,
    unique = length(unique(index)) / length(index), parts = parts, size = size, accepted = 0, jump = 0
  )
  now
}

no_bad_proposals <- c(n = 0, step = NA, row = NA)

# The particles' numbers in two halves, each of whole islands where there are several. Each half learns the shape of its
# proposal from the other: particles that learn from themselves move least along directions in which they happen to be
# close together, and stay so from stage to stage, which makes the evidence too large.
halves_of <- function(settings) {
  n <- settings$n_particles
  n_islands <- settings$n_islands
  first <- if (n_islands > 1) n_islands %/% 2 * (n / n_islands) else n %/% 2
  if (first == 0) list(seq_len(n)) else list(seq_len(first), seq.int(first + 1, n))
}

lefts <- function(moving) {
  vapply(moving$parts, function(part) part$left, 0)
}

# Numbers of the particles of each island.
island_places <- function(settings) {
  size <- settings$n_particles / settings$n_islands
  lapply(seq_len(settings$n_islands), function(island) (island - 1) * size + seq_len(size))
}

# Effective sample size and log mean weight, by the kernel of is_weights().
weight_sums_of <- function(log_weights) {
  is_weights(log_weights = log_weights, weights = FALSE, backend = "cpu")[c("ess", "log_mean_weight")]
}

# The words are those of resampling at this stage: see inst/design/random-numbers.md.
resample_island <- function(log_weights, seed, stage, first) {
  n <- length(log_weights)
  resample_indices(log_weights, n, "systematic", seed, stage, first, resample_run(n, n, "cpu"))
}

# The next inverse temperature: the weights' effective sample size is `threshold` times the number of particles with a
# positive weight, or more where that leads to 1. It falls as beta rises, so it is bracketed by halving the way to 1,
# then bisected.
next_temperature <- function(gap, beta, threshold) {
  goal <- threshold * sum(gap > -Inf)
  enough <- function(rise) weight_sums_of(rise * gap)$ess >= goal
  rise <- 1 - beta
  if (enough(rise)) {
    return(1)
  }
  smallest <- 2^-1000
  while (rise > smallest && !enough(rise / 2)) {
    rise <- rise / 2
  }
  above <- rise
  below <- rise / 2
  for (i in seq_len(20)) {
    middle <- (below + above) / 2
    if (enough(middle)) below <- middle else above <- middle
  }
  # where weights are so uneven that the number would not change, it still rises
  min(1, max(beta + below, beta * (1 + 2^-50)))
}

check_gap <- function(gap) {
  bad <- which(is.na(gap) | gap == Inf)
  if (length(bad) > 0) {
    message <- sprintf(
      "The log weights of %s are NaN or +Inf: %s. nonfinite = \"drop\" gives them weight zero at the start.",
      counted(length(bad), "particle"), enumerate(utils::head(bad, 5), length(bad))
    )
    abort("nonfinite", message, indices = utils::head(bad, 5), n = length(bad))
  }
  if (all(gap == -Inf)) {
    message <- sprintf(
      "`initial` must cover `target`, but the target's density is zero at all %s; a wider one may do.",
      counted(length(gap), "particle")
    )
    abort("nonfinite", message, n = 0)
  }
}

check_islands_alive <- function(gap, places) {
  dead <- which(vapply(places, function(at) all(gap[at] == -Inf), NA))
  if (length(dead) > 0) {
    message <- sprintf(
      "The target's density is zero at all %s of island %s. %s", counted(length(places[[1]]), "particle"),
      enumerate(utils::head(dead, 5), length(dead)), "More particles, fewer islands or a better `initial` are needed."
    )
    abort("nonfinite", message, islands = dead)
  }
}

# ---- moves -----------------------------------------------------------------------------------

# The shape from the particles; the scale that made the acceptance rate right for the shape before is kept.
reshape_proposal <- function(proposal, x, covariance) {
  new <- adapt_base(proposal, list(states = list()), x, covariance)
  new$log_scale <- proposal$log_scale
  new
}

# The round of one half, or what is left of it.
take_moves <- function(now, fit, devices) {
  half <- which(lefts(now$moving) > 0)[1]
  part <- now$moving$parts[[half]]
  result <- run_steps(
    path_density(fit, now$moving$beta), part$run, proposal_step(now$proposals[[half]]), part$left,
    seed = fit$seed, chain_offset = halves_of(fit$settings)[[half]][1] - 1, precision = fit$settings$precision,
    devices = devices, parameters = fit$parameters
  )
  part$run <- result$state
  part$left <- part$left - result$n_done
  now$moving$parts[[half]] <- part
  now$interrupted <- result$interrupted
  now
}

# Adapts the scale, then another round or the end of the stage.
end_round <- function(now, fit, devices) {
  moving <- now$moving
  settings <- fit$settings
  n_dim <- ncol(moving$parts[[1]]$start)
  accepted <- core_sum(n_accepted(moving))
  rate <- (accepted - moving$accepted) / (settings$n_particles * moving$size)
  shape <- c(settings$n_particles, n_dim)
  now$proposals <- lapply(now$proposals, adapt_scale, rate, settings$target_acceptance, shape, moving$size)
  jumps <- mapply(function(part, proposal) mean_jump(part$run$x, part$start, proposal$sd), moving$parts, now$proposals)
  jump <- core_sum(jumps) / length(jumps)
  moving$size <- next_round(moving$parts[[1]]$run$n_steps, jump, moving$jump, settings$n_moves, n_dim)
  moving$parts <- lapply(moving$parts, function(part) utils::modifyList(part, list(left = moving$size)))
  moving$accepted <- accepted
  moving$jump <- jump
  now$moving <- moving
  if (moving$size > 0) now else end_stage(now, fit, devices)
}

# Accepted steps of each particle in the stage under way.
n_accepted <- function(moving) {
  unlist(lapply(moving$parts, function(part) part$run$n_accepted))
}

# Mean squared move since the stage's start over what independent particles would show, averaged over dims: 1 minus the
# correlation. Some thousand particles say it well enough.
mean_jump <- function(x, start, sd) {
  at <- spread_places(nrow(x), 4096)
  squares <- vapply(seq_len(ncol(x)), function(d) core_sum(((x[at, d] - start[at, d]) / sd[d])^2), 0)
  core_sum(squares) / (2 * length(at) * ncol(x))
}

# Steps of the next round after n_done, 0 where it is enough. Rounds grow by half of what is done. "auto" ends where
# particles are nearly independent of where they started, or a round has hardly led further, as where modes lie apart.
next_round <- function(n_done, jump, jump_before, n_moves, n_dim) {
  size <- max(2, n_done %/% 2)
  if (!identical(n_moves, "auto")) {
    return(min(size, n_moves - n_done))
  }
  mixed <- jump >= enough_jump || (n_done >= 9 && jump > 0 && jump < 1.1 * jump_before)
  if (n_done >= 4 && mixed) 0 else min(size, most_moves(n_dim) - n_done)
}

enough_jump <- 0.8

most_moves <- function(n_dim) {
  max(100, 10 * n_dim)
}

end_stage <- function(now, fit, devices) {
  moving <- now$moving
  precision <- fit$settings$precision
  now$rows <- c(now$rows, list(stage_row(now)))
  now$x <- moved_particles(moving)
  now$not_finite <- count_bad_proposals(now, fit$settings)
  now$beta <- moving$beta
  now$step <- moving$parts[[1]]$run$step
  if (now$beta == 1) {
    now$log_target <- unlist(lapply(moving$parts, function(part) part$run$log_density))
    now["log_initial"] <- list(NULL)
  } else {
    now$log_target <- evaluate_on(fit$target, now$x, precision, devices, fit$parameters)
    now$log_initial <- evaluate_on(fit$initial, now$x, precision, devices, fit$parameters)
  }
  now["moving"] <- list(NULL)
  now
}

moved_particles <- function(moving) {
  do.call(rbind, lapply(moving$parts, function(part) part$run$x))
}

# Those of the stages before and of the one under way.
count_bad_proposals <- function(now, settings) {
  if (is.null(now$moving)) {
    return(now$not_finite)
  }
  before <- vapply(halves_of(settings), function(at) at[1] - 1, 0)
  counts <- c(list(now$not_finite), lapply(now$moving$parts, function(part) part$run$not_finite))
  bind_not_finite(counts, c(0, before))
}

# The stage under way as a row of the table of stages.
stage_row <- function(now) {
  moving <- now$moving
  n_steps <- vapply(moving$parts, function(part) part$run$n_steps, 0)
  accepted <- n_accepted(moving)
  proposals <- sum(n_steps * vapply(moving$parts, function(part) nrow(part$start), 0))
  data.frame(
    stage = now$stage, beta = moving$beta, ess = moving$ess, log_increment = moving$log_increment,
    unique = moving$unique, n_moves = min(n_steps), acceptance = sum(accepted) / proposals,
    scale = core_math("exp", now$proposals[[1]]$log_scale), moved = sum(accepted > 0) / length(accepted),
    jump = moving$jump
  )
}

no_stages <- data.frame(
  stage = numeric(), beta = numeric(), ess = numeric(), log_increment = numeric(), unique = numeric(),
  n_moves = numeric(), acceptance = numeric(), scale = numeric(), moved = numeric(), jump = numeric()
)

# ---- evidence --------------------------------------------------------------------------------

# c(log_evidence, log_evidence_se): the log of the islands' mean, and the standard error of that mean relative to it.
pool_evidence <- function(log_evidence) {
  total <- weight_sums_of(log_evidence)$log_mean_weight
  n <- length(log_evidence)
  ratio <- core_math("exp", log_evidence - total)
  se <- if (n > 1) sqrt(core_sum((ratio - core_sum(ratio) / n)^2) / ((n - 1) * n)) else NA_real_
  list(log_evidence = total, log_evidence_se = se)
}
