# Resampling in plain R, by long arithmetic: a vector of whole numbers is a matrix with a row for each and a column for
# each digit of base 2^16, lowest first. Random words come from the oracle of random numbers.

oracle_big <- function(x, digits = 10) {
  out <- matrix(0, length(x), digits)
  for (k in seq_len(digits)) {
    out[, k] <- x %% two_16
    x <- x %/% two_16
  }
  out
}

# From low and high 32-bit words.
oracle_big_words <- function(low, high, digits = 10) {
  cbind(oracle_big(low, 2), oracle_big(high, digits - 2), deparse.level = 0)
}

oracle_big_carry <- function(x) {
  for (k in seq_len(ncol(x) - 1)) {
    carry <- floor(x[, k] / two_16)
    x[, k] <- x[, k] - carry * two_16
    x[, k + 1] <- x[, k + 1] + carry
  }
  x
}

oracle_big_rows <- function(x, n) x[rep_len(seq_len(nrow(x)), n), , drop = FALSE]

oracle_big_multiply <- function(a, b) {
  n <- max(nrow(a), nrow(b))
  a <- oracle_big_rows(a, n)
  b <- oracle_big_rows(b, n)
  out <- matrix(0, n, ncol(a))
  for (i in seq_len(ncol(a))) {
    for (k in seq_len(ncol(a) - i + 1)) {
      out[, i + k - 1] <- out[, i + k - 1] + a[, i] * b[, k]
    }
  }
  oracle_big_carry(out)
}

oracle_big_divide <- function(a, by) {
  rest <- 0
  for (k in rev(seq_len(ncol(a)))) {
    now <- rest * two_16 + a[, k]
    a[, k] <- now %/% by
    rest <- now %% by
  }
  a
}

# Without the lowest 64 bits.
oracle_big_high <- function(a) cbind(a[, -(1:4), drop = FALSE], matrix(0, nrow(a), 4), deparse.level = 0)

# a > b, row by row.
oracle_big_above <- function(a, b) {
  n <- max(nrow(a), nrow(b))
  a <- oracle_big_rows(a, n)
  b <- oracle_big_rows(b, n)
  above <- rep(FALSE, n)
  for (k in seq_len(ncol(a))) {
    above <- a[, k] > b[, k] | (a[, k] == b[, k] & above)
  }
  above
}

# floor(a / b) below 2^12 and the remainder, by shifting and subtracting.
oracle_big_quotient <- function(a, b) {
  quotient <- numeric(nrow(a))
  for (bit in 2^(11:0)) {
    shifted <- oracle_big_rows(oracle_big_multiply(b, oracle_big(bit)), nrow(a))
    fits <- !oracle_big_above(shifted, a)
    quotient <- quotient + bit * fits
    a <- oracle_big_carry(a - shifted * fits)
  }
  list(quotient = quotient, remainder = a)
}

# Sums of the rows up to each.
oracle_big_cumulate <- function(a) {
  for (k in seq_len(ncol(a))) {
    a[, k] <- cumsum(a[, k])
  }
  oracle_big_carry(a)
}

oracle_whole_weights <- function(weights, is_log) {
  bits <- min(52, 61 - ceiling(log2(length(weights))))
  if (is_log) {
    return(floor(exp(weights - max(weights)) * 2^bits))
  }
  floor(weights * 2^(bits - 1 - floor(log2(max(weights)))))
}

# First number whose cumulated weight is above each position.
oracle_find <- function(cumulated, positions) {
  vapply(seq_len(nrow(positions)), function(j) {
    which(oracle_big_above(cumulated, positions[j, , drop = FALSE]))[1]
  }, 1L)
}

oracle_positions <- function(total, n, method, seed, step, offset) {
  words <- oracle_words(seed, 3, step, 0, seq_len(n) - 1, offset)
  random <- oracle_big_high(oracle_big_multiply(oracle_big_words(words[, 2], words[, 1]), total))
  if (method == "multinomial") {
    return(random)
  }
  random <- if (method == "systematic") oracle_big_rows(random[1, , drop = FALSE], n) else random
  oracle_big_divide(oracle_big_carry(oracle_big_multiply(oracle_big(seq_len(n) - 1), total) + random), n)
}

oracle_resample <- function(weights, n, method, seed, step = 0, offset = 0, is_log = TRUE) {
  whole <- oracle_big(oracle_whole_weights(weights, is_log))
  cumulated <- oracle_big_cumulate(whole)
  total <- cumulated[length(weights), , drop = FALSE]
  if (method != "residual") {
    return(oracle_find(cumulated, oracle_positions(total, n, method, seed, step, offset)))
  }
  parts <- oracle_big_quotient(oracle_big_multiply(whole, oracle_big(n)), total)
  copies <- rep(seq_along(weights), parts$quotient)
  n_left <- n - length(copies)
  bits <- function(x) max(which(rep(x, each = 16) %/% 2^(0:15) %% 2 == 1), 0)
  shift <- max(0, bits(oracle_big(n_left)) + bits(total) - 62)
  stopifnot(shift <= 24)
  left <- oracle_big_divide(parts$remainder, 2^shift)
  cumulated <- oracle_big_cumulate(left)
  total <- cumulated[length(weights), , drop = FALSE]
  if (n_left == 0) {
    return(copies)
  }
  c(copies, oracle_find(cumulated, oracle_positions(total, n_left, "multinomial", seed, step, offset + length(copies))))
}
