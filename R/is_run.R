# Runs of importance sampling: chunks of samples through run_importance(), joined.
#
# A plan is all that a sample's number does not say. A part is what is known of a range of samples:
#   nodes              sums, see run_importance()
#   tail               the largest log weights, falling
#   draws, log_weights or NULL
#   first_bad          number of the first sample of a log weight that is NaN or +Inf, or NA
#   interrupted        whether Ctrl-C ended the range early

# Samples of a tile of sums; numbers of tiles are canonical.
tile_size <- 4096

new_is_plan <- function(target, proposal, n_dim, seed, settings) {
  weighing <- weighing_density(proposal)
  densities <- c(list(target), as_proposals(proposal))
  names <- names_of_parts(n_dim, densities)
  list(
    target = target, proposal = proposal, weighing = weighing,
    drawing = draw_plan(as_proposals(proposal), n_dim), n_dim = n_dim, seed = seed, settings = settings,
    shift = mean_of_groups(lapply(as_proposals(proposal), draw_parts, n_dim = n_dim)),
    parameters = if (is.null(names)) sprintf("x[%d]", seq_len(n_dim)) else names
  )
}

# What a draw of a deterministic mixture is weighed against.
weighing_density <- function(proposal) {
  if (inherits(proposal, "fusedmc_density")) {
    return(proposal)
  }
  density_mixture(rep(1, length(proposal)), components = unname(proposal))
}

# The mean of a mixture of groups with equal weights, groups being lists of parts: what second moments are relative to.
# Of a t without a mean it is the location.
mean_of_groups <- function(groups) {
  parts <- unlist(groups, recursive = FALSE)
  if (length(parts) == 1) {
    return(parts[[1]]$mean)
  }
  means <- matrix(gather(parts, function(part) part$mean), ncol = length(parts))
  weights <- gather(parts, function(part) part$weight) / length(groups)
  vapply(seq_len(nrow(means)), function(d) core_sum(means[d, ] * weights), 0)
}

moments_of <- function(settings) {
  if (settings$covariance) "products" else "squares"
}

# ---- ranges ----------------------------------------------------------------------------------

# n samples from number `offset` on, over all devices one after the other. `report` is told of progress.
run_ranges <- function(plan, offset, n, runs, nonfinite, report = NULL) {
  ranges <- split_tiles(offset, n, length(runs))
  parts <- list()
  done <- 0
  for (i in seq_along(ranges$n)) {
    at <- if (!is.null(report)) function(n) report$at(done + n)
    part <- run_range(plan, ranges$offset[i], ranges$n[i], runs[[i]], nonfinite, at)
    parts <- c(parts, list(part))
    done <- done + ranges$n[i]
    if (part$interrupted) {
      break
    }
  }
  join_parts(parts, plan$settings$n_tail)
}

# At most n_parts neighbouring ranges that meet at multiples of the tile size; one at least.
split_tiles <- function(offset, n, n_parts) {
  first <- offset %/% tile_size
  n_tiles <- ceiling((offset + n) / tile_size) - first
  ends <- pmin((first + cumsum(split_chains(n_tiles, n_parts))) * tile_size, offset + n)
  starts <- c(offset, ends[-n_parts])
  used <- ends > starts
  used[1] <- TRUE
  list(offset = starts[used], n = (ends - starts)[used])
}

# The namespace of the package is known to the processes by its name, so nothing travels but the plan and the sums.
run_in_parts <- function(plan, offset, n, runs, nonfinite, workers) {
  ranges <- split_tiles(offset, n, workers)
  parts <- future.apply::future_mapply(
    run_ranges,
    offset = ranges$offset, n = ranges$n, MoreArgs = list(plan = plan, runs = runs, nonfinite = nonfinite),
    SIMPLIFY = FALSE, future.globals = FALSE, future.packages = "fusedmc", future.seed = NULL
  )
  join_parts(parts, plan$settings$n_tail)
}

# n samples from number `offset` on, in chunks of some 0.3 seconds. `now` changes only between chunks, so what stands
# there is whole when Ctrl-C comes.
run_range <- function(plan, offset, n, run, nonfinite, at = NULL) {
  ready <- ready_densities(plan, run)
  run[[4]] <- run[[4]] / max(1, n) # of one sample
  now <- list(part = weigh_chunk(plan, offset, 0, ready, run), n_tiles = first_tiles(plan, run), n_done = 0)
  interrupted <- tryCatch(
    {
      while (now$n_done < n) {
        now <- next_chunk(now, plan, offset, n, ready, run)
        check_no_bad(sum(now$part$nodes["n_bad", ]), now$part$first_bad, now$n_done, nonfinite)
        if (!is.null(at)) {
          at(now$n_done)
        }
      }
      FALSE
    },
    interrupt = function(condition) TRUE
  )
  part <- now$part
  part$draws <- if (!is.null(part$draws)) do.call(rbind, part$draws)
  part$log_weights <- unlist(part$log_weights)
  part$interrupted <- interrupted
  part
}

next_chunk <- function(now, plan, offset, n, ready, run) {
  first <- offset + now$n_done
  end <- min((first %/% tile_size + now$n_tiles) * tile_size, offset + n)
  started <- proc.time()[[3]]
  chunk <- weigh_chunk(plan, first, end - first, ready, run)
  seconds <- proc.time()[[3]] - started
  part <- join_sums(list(now$part, chunk), plan$settings$n_tail)
  part$draws <- c(now$part$draws, chunk$draws)
  part$log_weights <- c(now$part$log_weights, chunk$log_weights)
  n_tiles <- floor(now$n_tiles * min(8, max(0.25, 0.3 / max(seconds, 1e-3))))
  list(part = part, n_tiles = max(1, min(n_tiles, most_tiles(plan))), n_done = end - offset)
}

# Tiles of the first chunk: about 0.1 seconds by the estimate, which knows nothing of functions of R.
first_tiles <- function(plan, run) {
  n_tiles <- if (is_in_r(plan$target)) 4 else min(4096, 1e8 %/% (tile_size * run[[4]]))
  max(1, min(n_tiles, most_tiles(plan)))
}

# Draws of a chunk are there at once where the target is a function of R: at most 2^24 numbers.
most_tiles <- function(plan) {
  if (is_in_r(plan$target)) 2^24 %/% (tile_size * plan$n_dim) else 2^18
}

# Target and proposal as run_importance() takes them; NULL where the target is a function of R.
ready_densities <- function(plan, run) {
  if (!is_in_r(plan$target)) {
    nodes <- list(
      target = density_nodes(plan$target, plan$n_dim), proposal = density_nodes(plan$weighing, plan$n_dim)
    )
    lapply(nodes, linked, precision = plan$settings$precision, run = run)
  }
}

# Draws and log weights of a chunk are lists of one matrix and of one vector, to be joined at the end.
weigh_chunk <- function(plan, offset, n, ready, run) {
  settings <- plan$settings
  run[[4]] <- run[[4]] * max(1, n)
  keep <- settings$keep == "draws"
  door <- function(...) {
    run_importance(
      n, plan$n_dim, plan$seed, offset, ...,
      moments = moments_of(settings), shift = plan$shift, n_tail = settings$n_tail, keep_log_weights = keep,
      precision = settings$precision, run = run
    )
  }
  chunk <- if (is.null(ready)) {
    draws <- draw_chunk(plan, offset, n, run)
    log_weights <- if (n == 0) numeric() else log_weights_in_r(plan, draws, run)
    replace(door(samples = draws, log_weights = log_weights), "draws", list(if (keep) unname(draws)))
  } else {
    door(drawing = plan$drawing, target = ready$target, proposal = ready$proposal, keep_draws = keep)
  }
  if (keep && sum(chunk$nodes["n_bad", ]) > 0) {
    bad <- is.nan(chunk$log_weights) | chunk$log_weights == Inf
    chunk$log_weights[bad] <- -Inf
  }
  chunk["draws"] <- list(if (keep) list(chunk$draws))
  chunk["log_weights"] <- list(if (keep) list(chunk$log_weights))
  chunk
}

# Draws alone, with the names of the parameters.
draw_chunk <- function(plan, offset, n, run) {
  draws <- run_importance(
    n, plan$n_dim, plan$seed, offset,
    drawing = plan$drawing, keep_draws = TRUE, precision = plan$settings$precision, run = run
  )$draws
  colnames(draws) <- plan$parameters
  draws
}

log_weights_in_r <- function(plan, draws, run) {
  log_ratio_in_r(plan$target, plan$weighing, draws, plan$settings$precision, run[[1]], run[[2]])
}

# ---- joining ---------------------------------------------------------------------------------

# Sums of neighbouring ranges in their order.
join_sums <- function(parts, n_tail) {
  first <- unlist(lapply(parts, `[[`, "first_bad"))
  list(
    nodes = join_nodes(do.call(cbind, lapply(parts, `[[`, "nodes"))),
    tail = utils::head(sort(unlist(lapply(parts, `[[`, "tail")), decreasing = TRUE), n_tail),
    first_bad = if (all(is.na(first))) NA_real_ else min(first, na.rm = TRUE)
  )
}

# Neighbouring ranges in their order.
join_parts <- function(parts, n_tail) {
  part <- join_sums(parts, n_tail)
  part["draws"] <- list(do.call(rbind, lapply(parts, `[[`, "draws")))
  part["log_weights"] <- list(unlist(lapply(parts, `[[`, "log_weights")))
  part$interrupted <- any(vapply(parts, function(part) isTRUE(part$interrupted), NA))
  part
}
