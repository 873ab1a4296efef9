# Warm-up. The proposal is exp(log_scale) times a base: n_dim numbers or a lower Cholesky factor. Every number on the
# way to it is computed in an order of its own and without libm, so that two machines agree to the bit.

# Steps of the windows: 25, doubling up to 200, or to a twentieth of warm-up where that is more. What is left over and
# less than half of the last joins it. Without adapting there is one.
warmup_windows <- function(n_warmup, adapt = TRUE) {
  if (n_warmup == 0 || !adapt) {
    return(if (n_warmup == 0) numeric() else n_warmup)
  }
  longest <- max(200, n_warmup %/% 20)
  growing <- 25 * 2^(0:31)
  growing <- growing[growing < longest]
  ends <- cumsum(c(growing, rep(longest, n_warmup %/% longest)))
  sizes <- diff(c(0, ends[ends < n_warmup], n_warmup))
  n <- length(sizes)
  if (n > 1 && sizes[n] < sizes[n - 1] / 2) {
    sizes <- c(sizes[seq_len(n - 2)], sizes[n - 1] + sizes[n])
  }
  sizes
}

# The fit with state, step_size and warmup after settings$n_warmup steps. `now` changes only between windows, so what
# stands there is whole when Ctrl-C comes.
warm_up <- function(fit, adapt, devices, report) {
  started <- proc.time()[[3]]
  n_warmup <- fit$settings$n_warmup
  adapt <- adapt && nrow(fit$state$x) > 0
  shape <- if (adapt) fit$settings$adapt_shape else "none"
  now <- list(
    state = fit$state, proposal = new_proposal(fit$step_size), history = new_history(fit, shape), done = 0,
    interrupted = FALSE, rows = list()
  )
  tryCatch(
    {
      while (adapt && !now$interrupted && is_lost(now, fit$settings)) {
        now <- take_window(fit, now, search_steps, adapt, NULL, devices, report)
      }
      now$proposal$n <- 0
      sizes <- warmup_windows(n_warmup - now$done, adapt)
      for (window in seq_along(sizes)) {
        if (now$interrupted) {
          break
        }
        learn <- shape != "none" && window >= min(2, length(sizes) - 1) && window < length(sizes)
        now <- take_window(fit, now, sizes[window], adapt, if (learn) shape, devices, report)
      }
    },
    interrupt = function(condition) now$interrupted <<- TRUE
  )
  fit$state <- now$state
  fit$settings$n_warmup <- now$done
  fit$step_size <- proposal_step(now$proposal)
  fit$warmup <- do.call(rbind, c(list(no_windows), now$rows))
  fit$run$interrupted <- now$interrupted
  fit$run$seconds[["warmup"]] <- proc.time()[[3]] - started
  fit
}

# At first, windows of a few steps look for a scale at which some proposals are accepted and some are not. That takes a
# fifth of warm-up at most.
search_steps <- 10

is_lost <- function(now, settings) {
  last <- length(now$rows)
  enough <- now$done + search_steps > settings$n_warmup / 5
  !enough && (last == 0 || !is_telling(now$rows[[last]]$acceptance, settings$target_acceptance))
}

is_telling <- function(rate, goal) {
  rate >= goal / 10 && 1 - rate >= (1 - goal) / 10
}

no_windows <- data.frame(
  first_step = numeric(), n_steps = numeric(), scale = numeric(), acceptance = numeric(), shape_updated = logical()
)

# One window and what is learnt from it; `shape` is NULL where the shape stays.
take_window <- function(fit, now, size, adapt, shape, devices, report) {
  state <- count_anew(now$state)
  step_size <- proposal_step(now$proposal)
  result <- advance(fit, state, step_size, size, 1, now$history$store, devices, report, now$done)
  if (result$n_done == 0) {
    now$interrupted <- result$interrupted
    return(now)
  }
  state <- result$state
  rate <- acceptance_rate(state)
  # states say little where hardly a proposal was accepted
  update <- !is.null(shape) && !result$interrupted && rate >= fit$settings$target_acceptance / 10
  row <- data.frame(
    first_step = state$step - result$n_done, n_steps = result$n_done,
    scale = core_math("exp", now$proposal$log_scale), acceptance = rate, shape_updated = update
  )
  proposal <- now$proposal
  if (adapt) {
    proposal <- adapt_scale(proposal, rate, fit$settings$target_acceptance, dim(state$x), result$n_done)
  }
  history <- remember(now$history, result$draws)
  if (update) {
    proposal <- adapt_base(proposal, history, state$x, shape)
  }
  list(
    state = state, proposal = proposal, history = history, done = now$done + result$n_done,
    interrupted = result$interrupted, rows = c(now$rows, list(row))
  )
}

acceptance_rate <- function(state) {
  core_sum(state$n_accepted) / (nrow(state$x) * state$n_steps)
}

# sd: scale of each dim, what is known of it; n: moves of the scale since the base came from states.
new_proposal <- function(step_size) {
  n_dim <- NROW(step_size)
  own <- step_size
  if (is.matrix(step_size)) {
    own <- sqrt(Reduce(`+`, lapply(seq_len(n_dim), function(j) step_size[, j]^2)))
  }
  list(base = step_size, log_scale = 0, sd = own * sqrt(n_dim) / 2.38, n = 0, learnt = FALSE)
}

proposal_step <- function(proposal) {
  if (proposal$log_scale == 0) proposal$base else proposal$base * core_math("exp", proposal$log_scale)
}

# Robbins-Monro on the log scale. Near the best scale the logit of the rate falls by 1.3 (1 dim) to 2.6 (many) for each
# unit of it; far away the move is bounded, to a factor of 10. After four moves they get smaller, as 4 / n.
adapt_scale <- function(proposal, rate, goal, shape, n_steps) {
  n_proposals <- shape[1] * n_steps
  rate <- (rate * n_proposals + 0.5) / (n_proposals + 1)
  logits <- core_math("log", c(rate / (1 - rate), goal / (1 - goal)))
  n <- proposal$n + 1
  gain <- (0.4 + 0.4 / shape[2]) * min(1, 4 / n)
  move <- max(-2.3, min(2.3, gain * (logits[1] - logits[2])))
  # beyond these the step would leave the range of numbers
  sizes <- core_math("log", range(if (is.matrix(proposal$base)) diag_of(proposal$base) else proposal$base))
  proposal$log_scale <- max(-690 - sizes[1], min(600 - sizes[2], proposal$log_scale + move))
  proposal$n <- n
  proposal
}

# ---- shape -----------------------------------------------------------------------------------

# Where chains are few, the states of windows at a stride that keeps them below 1e6 numbers.
new_history <- function(fit, shape) {
  n_chains <- nrow(fit$state$x)
  n_dim <- ncol(fit$state$x)
  enough <- if (shape == "full") max(100, 5 * n_dim) else 100
  few <- shape != "none" && n_chains < enough
  numbers <- fit$settings$n_warmup * n_chains * n_dim
  list(store = if (few) max(1, ceiling(numbers / 1e6)) else 0, states = list())
}

remember <- function(history, draws) {
  if (length(draws) > 0) {
    history$states <- c(history$states, list(draws))
  }
  history
}

# The states to learn from, a matrix with a row per state, and about how many independent ones they count for.
states_to_learn <- function(history, x, shape) {
  n_dim <- ncol(x)
  if (length(history$states) > 0) {
    stored <- Reduce(bind_states, history$states)
    n <- dim(stored)[1]
    stored <- stored[seq.int(n %/% 2 + 1, n), , , drop = FALSE]
    x <- matrix(stored, ncol = n_dim)
  }
  few <- length(history$states) > 0
  most <- max(1000, 10 * n_dim)
  if (shape == "full" && nrow(x) > most) {
    x <- x[1 + ((seq_len(most) - 1) * nrow(x)) %/% most, , drop = FALSE]
  }
  list(x = x, n = if (few) nrow(x) / 10 else nrow(x))
}

# A base from states. A dim in which they do not differ keeps its scale.
adapt_base <- function(proposal, history, x, shape) {
  learnt <- states_to_learn(history, x, shape)
  x <- learnt$x
  n_dim <- ncol(x)
  if (nrow(x) < 2) {
    return(proposal)
  }
  centred <- vapply(seq_len(n_dim), function(d) x[, d] - core_sum(x[, d]) / nrow(x), numeric(nrow(x)))
  variance <- vapply(seq_len(n_dim), function(d) core_sum(centred[, d]^2) / (nrow(x) - 1), 0)
  known <- variance >= 1e-200 & variance <= 1e200 & !is.na(variance)
  old <- proposal$sd
  proposal$sd[known] <- sqrt(variance[known])
  scale <- 2.38 / sqrt(n_dim)
  factor <- if (shape == "full" && n_dim > 1) shrunk_factor(centred, proposal$sd, known, learnt$n)
  proposal$base <- scale * (if (is.null(factor)) proposal$sd else factor)
  # where states spread or close in, the scale that was to make up for it goes back towards 1, never past it
  growth <- core_sum(core_math("log", proposal$sd / old)) / n_dim
  left <- proposal$log_scale - growth
  grew <- growth > 0
  proposal$log_scale <- if (!proposal$learnt) {
    0
  } else if (grew == (proposal$log_scale > 0)) {
    if (grew) max(0, left) else min(0, left)
  } else {
    proposal$log_scale
  }
  proposal$n <- 0
  proposal$learnt <- TRUE
  proposal
}

# The Cholesky factor of the covariance with its correlations shrunk, the more the fewer states there are per dim; NULL
# where there is none. Correlations are factored, so scales cannot spoil the pivots.
shrunk_factor <- function(centred, sd, known, n) {
  n_dim <- ncol(centred)
  shrink <- 1 - (n_dim + 5) / (n + n_dim + 5)
  standard <- centred / rep(sd * sqrt(nrow(centred) - 1), each = nrow(centred))
  standard[, !known] <- 0
  correlation <- diag(n_dim)
  for (j in seq_len(n_dim - 1)) {
    below <- seq.int(j + 1, n_dim)
    products <- standard[, j] * standard[, below, drop = FALSE]
    correlation[below, j] <- shrink * vapply(seq_along(below), function(i) core_sum(products[, i]), 0)
  }
  result <- core_cholesky(correlation)
  if (result$pivot > 0 || !all(is.finite(result$factor))) NULL else result$factor * sd
}
