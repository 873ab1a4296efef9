# The oracle of importance sampling: tiles, lanes, nodes and tails in plain R, from samples and their log weights. The
# exponential is the package's, which has tests of its own; everything else is written here anew.

# The lowest bit of a double.
oracle_is_odd <- function(x) {
  bytes <- matrix(as.integer(writeBin(as.vector(x), raw(), endian = "little")), 8)
  bytes[1, ] %% 2 == 1
}

oracle_two_sum <- function(a, b) {
  s <- a + b
  virtual <- s - a
  list(high = s, low = (a - (s - virtual)) + (b - virtual))
}

# Veltkamp's splitting and Dekker's product: high + low is a * b.
oracle_two_product <- function(a, b) {
  split <- function(x) {
    shifted <- x * (2^27 + 1)
    high <- shifted - (shifted - x)
    list(high = high, low = x - high)
  }
  a_parts <- split(a)
  b_parts <- split(b)
  p <- a * b
  low <- ((a_parts$high * b_parts$high - p) + a_parts$high * b_parts$low + a_parts$low * b_parts$high) +
    a_parts$low * b_parts$low
  list(high = p, low = low)
}

# a + b rounded to the neighbour with an odd last bit, where it is no double.
oracle_odd_sum <- function(a, b) {
  s <- oracle_two_sum(a, b)
  move <- s$low != 0 & !oracle_is_odd(s$high)
  away <- move & (s$low > 0) == (s$high > 0)
  near <- move & !away
  out <- s$high
  out[away] <- s$high[away] + s$high[away] * (2^-53 * (1 + 2^-50))
  out[near] <- s$high[near] - s$high[near] * 2^-53
  out
}

# fma(a, b, c), vectors of one length: Boldo and Melquiond (2008), "Emulation of FMA and correctly rounded sums". Plain
# where it makes no difference.
oracle_fma <- function(a, b, c) {
  out <- a * b + c
  hard <- which(is.finite(out) & b != 1 & a != 0 & c != 0)
  if (length(hard) > 0) {
    u <- oracle_two_product(a[hard], b[hard])
    t <- oracle_two_sum(c[hard], u$low)
    v <- oracle_two_sum(u$high, t$high)
    out[hard] <- v$high + oracle_odd_sum(t$low, v$low)
  }
  out
}

# Terms of the columns of sums: x, then second moments.
oracle_terms <- function(x, moments, shift) {
  d <- ncol(x)
  centred <- x - rep(shift, each = nrow(x))
  pairs <- switch(moments,
    none = NULL,
    squares = cbind(seq_len(d), seq_len(d)),
    products = do.call(rbind, lapply(seq_len(d), function(i) cbind(i, seq_len(i))))
  )
  cbind(x, centred[, pairs[, 1], drop = FALSE] * centred[, pairs[, 2], drop = FALSE], deparse.level = 0)
}

# Sums of samples at `place` (0 to 4095, rising) of tile number `tile`: a node of level 0.
oracle_tile <- function(tile, place, log_weights, terms) {
  top <- rep(-Inf, 256)
  sums <- matrix(0, 256, 2 + ncol(terms))
  bad <- is.nan(log_weights) | log_weights == Inf
  met <- ifelse(bad, -Inf, log_weights)
  for (row in unique(place %/% 256)) {
    i <- which(place %/% 256 == row)
    lane <- place[i] %% 256 + 1
    e <- core_math("exp", -abs(top[lane] - met[i]))
    larger <- met[i] > top[lane]
    scale <- ifelse(larger, e, 1)
    w <- ifelse(met[i] == -Inf, 0, ifelse(met[i] >= top[lane], 1, e))
    top[lane] <- pmax(top[lane], met[i])
    sums[lane, 1] <- oracle_fma(sums[lane, 1], scale, w)
    sums[lane, 2] <- oracle_fma(sums[lane, 2], scale^2, w^2)
    for (column in seq_len(ncol(terms))) {
      so_far <- ifelse(scale > 0, sums[lane, 2 + column], 0)
      sums[lane, 2 + column] <- oracle_fma(so_far, scale, ifelse(w > 0, w * terms[i, column], 0))
    }
  }
  factor <- ifelse(top == max(top), 1, core_math("exp", top - max(top)))
  sums <- oracle_rescaled(sums, cbind(factor, factor^2, matrix(factor, 256, ncol(terms))))
  while (nrow(sums) > 1) {
    sums <- sums[c(TRUE, FALSE), , drop = FALSE] + sums[c(FALSE, TRUE), , drop = FALSE]
  }
  c(tile, 0, length(place), sum(bad), sum(log_weights == -Inf, na.rm = TRUE), max(top), sums)
}

oracle_rescaled <- function(sums, factor) ifelse(factor > 0, sums * factor, 0)

# Two nodes, the earlier first, as one of `level`.
oracle_join <- function(a, b, level) {
  top <- max(a[6], b[6])
  bring <- function(node) {
    f <- if (node[6] == top) 1 else core_math("exp", node[6] - top)
    oracle_rescaled(node[-(1:6)], c(f, f^2, rep(f, length(node) - 8)))
  }
  c(a[1], level, a[3:5] + b[3:5], top, bring(a) + bring(b))
}

# The nodes of a list of tiles: those that fill aligned runs, joined by halves.
oracle_nodes <- function(tiles) {
  numbers <- vapply(tiles, `[`, 0, 1)
  full <- vapply(tiles, `[`, 0, 3) == 4096
  under <- function(first, level) {
    inside <- which(numbers >= first & numbers < first + 2^level)
    if (length(inside) == 0) {
      return(list())
    }
    if (level == 0) {
      return(tiles[inside])
    }
    halves <- c(under(first, level - 1), under(first + 2^(level - 1), level - 1))
    if (length(inside) == 2^level && all(full[inside])) list(oracle_join(halves[[1]], halves[[2]], level)) else halves
  }
  level <- ceiling(log2(max(1, numbers[length(numbers)] - numbers[1] + 1))) + 1
  start <- floor(numbers[1] / 2^level) * 2^level
  c(under(start, level), under(start + 2^level, level))
}

# What run_importance() makes of samples (or NULL) and log weights: list(nodes, tail, first_bad).
oracle_importance <- function(log_weights, samples = NULL, offset = 0, moments = "none", shift = numeric(ncol(samples)),
                              n_tail = 0, precision = "double") {
  n <- length(log_weights)
  x <- if (is.null(samples)) matrix(0, n, 0) else round_to(samples, precision)
  terms <- oracle_terms(x, moments, shift)
  number <- offset + seq_len(n) - 1
  tiles <- lapply(unique(number %/% 4096), function(tile) {
    i <- which(number %/% 4096 == tile)
    oracle_tile(tile, number[i] %% 4096, log_weights[i], terms[i, , drop = FALSE])
  })
  nodes <- if (n > 0) do.call(cbind, oracle_nodes(tiles)) else matrix(0, 8 + ncol(terms), 0)
  rows <- c("first", "level", "n", "n_bad", "n_zero", "max", "sum", "sum_squares")
  dimnames(nodes) <- list(c(rows, rep(c("sum_x", "second"), c(ncol(x), ncol(terms) - ncol(x)))), NULL)
  list(
    nodes = nodes, tail = head(sort(log_weights[is.finite(log_weights)], decreasing = TRUE), n_tail),
    first_bad = c(number[is.nan(log_weights) | log_weights == Inf], NA)[1]
  )
}

# Draws of a list of groups of parts, as oracle_draw() has them: sample number i is drawn from group i mod J.
oracle_draw_groups <- function(groups, n, seed, offset, precision) {
  draws <- lapply(groups, oracle_draw, n = n, seed = seed, offset = offset, precision = precision)
  turn <- (offset + seq_len(n) - 1) %% length(groups) + 1
  x <- draws[[1]]
  for (g in seq_along(groups)) {
    x[turn == g, ] <- draws[[g]][turn == g, ]
  }
  x
}
