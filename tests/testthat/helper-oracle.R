# The oracle: plain R that follows the contracts and shares nothing with src/.
# This file: 32-bit words in doubles, Philox4x32-10, float arithmetic, normals and uniforms.
# helper-oracle-model.R: densities, mh_step and is_weights.

# ---- 32-bit words held in doubles ----------------------------------------------------------

two_16 <- 2^16
two_32 <- 2^32

# bitwXor() works on signed integers and has no -2^31, so each word goes through as two halves.
oracle_xor <- function(a, b) {
  a_high <- a %/% two_16
  b_high <- b %/% two_16
  high <- bitwXor(as.integer(a_high), as.integer(b_high))
  low <- bitwXor(as.integer(a - a_high * two_16), as.integer(b - b_high * two_16))
  high * two_16 + low
}

# The 64-bit product of two words as its high and low word. Both partial products are below
# 2^48 and the sum below 2^49, so every step is exact in a double.
oracle_mulhilo <- function(a, b) {
  b_high <- b %/% two_16
  p_high <- a * b_high
  p_low <- a * (b - b_high * two_16)
  carry <- p_high %/% two_16
  rest <- (p_high - carry * two_16) * two_16 + p_low
  rest_high <- rest %/% two_32
  list(high = carry + rest_high, low = rest - rest_high * two_32)
}

# Low and high word of base + i, for whole numbers up to 2^53 each. The sum is carried by hand, for
# it may be no double.
oracle_words_of <- function(base, i = 0) {
  high <- base %/% two_32
  low <- base - high * two_32 + i
  carry <- low %/% two_32
  cbind(low - carry * two_32, high + carry, deparse.level = 0)
}

hex_words <- function(...) {
  hex <- unlist(strsplit(c(...), " ", fixed = TRUE))
  strtoi(substr(hex, 1, 4), 16L) * two_16 + strtoi(substr(hex, 5, 8), 16L)
}

# ---- Philox4x32-10 (Salmon et al. 2011) ----------------------------------------------------

# counter: n x 4 words, key: 2 words; returns n x 4 words.
oracle_philox <- function(counter, key) {
  c0 <- counter[, 1]
  c1 <- counter[, 2]
  c2 <- counter[, 3]
  c3 <- counter[, 4]
  k0 <- key[1]
  k1 <- key[2]
  multiplier <- hex_words("d2511f53 cd9e8d57")
  weyl <- hex_words("9e3779b9 bb67ae85")
  for (round in 1:10) {
    p0 <- oracle_mulhilo(multiplier[1], c0)
    p1 <- oracle_mulhilo(multiplier[2], c2)
    c0 <- oracle_xor(oracle_xor(p1$high, c1), k0)
    c1 <- p1$low
    c2 <- oracle_xor(oracle_xor(p0$high, c3), k1)
    c3 <- p0$low
    k0 <- (k0 + weyl[1]) %% two_32
    k1 <- (k1 + weyl[2]) %% two_32
  }
  cbind(c0, c1, c2, c3, deparse.level = 0)
}

# The words at (seed, purpose, step, block, chain_offset + chain); purpose to chain may be vectors.
oracle_words <- function(seed, purpose, step, block, chain, chain_offset = 0) {
  n <- max(length(purpose), length(step), length(block), length(chain))
  counter <- cbind(
    rep_len(step, n), rep_len(purpose * 2^28 + block, n), oracle_words_of(chain_offset, rep_len(chain, n)),
    deparse.level = 0
  )
  oracle_philox(counter, as.vector(oracle_words_of(seed)))
}

# ---- float arithmetic ----------------------------------------------------------------------

# Round to float, to nearest even. One float operation is f32() of the same operation on doubles:
# for + - * / of floats the double rounding is innocuous, because 53 >= 2 * 24 + 2.
f32 <- function(x) {
  storage.mode(x) <- "double"
  x[] <- readBin(writeBin(as.vector(x), raw(), size = 4), "double", length(x), size = 4)
  x
}

round_to <- function(x, precision) if (precision == "single") f32(x) else x

# fmaf(a, b, c) for floats. The product a * b is exact in a double, the sum s = p + c is not, and
# rounding s to float would round twice. That errs only where s lies half way between two floats
# while p + c does not: then the residual of s (Knuth's two-sum, exact) says which side is right.
oracle_fmaf <- function(a, b, c) {
  p <- a * b
  s <- p + c
  virtual <- s - p
  residual <- (p - (s - virtual)) + (c - virtual)
  near <- f32(s)
  other <- 2 * s - near
  halfway <- near != s & f32(other) == other
  ifelse(halfway & residual != 0 & (residual > 0) == (other > near), other, near)
}

# ---- normals -------------------------------------------------------------------------------

# The table: for float f = 2^e (1 + (j + t) / 16), a cubic in t through -qnorm(f / 2^33) at four
# Chebyshev nodes. 33 octaves of 16 segments, 528 x 4, in double. Octave 32 is reached at f = 2^32
# only, where the quantile is 0.
oracle_normal_table <- function() {
  node <- (1 - cos((2 * (1:4) - 1) * pi / 8)) / 2
  segment <- 0:527
  low <- 2^(segment %/% 16) * (1 + (segment %% 16) / 16)
  width <- 2^(segment %/% 16) / 16
  f <- lapply(node, function(t) -qnorm((low + width * t) / 2^33))
  d01 <- (f[[2]] - f[[1]]) / (node[2] - node[1])
  d12 <- (f[[3]] - f[[2]]) / (node[3] - node[2])
  d23 <- (f[[4]] - f[[3]]) / (node[4] - node[3])
  d012 <- (d12 - d01) / (node[3] - node[1])
  d123 <- (d23 - d12) / (node[4] - node[2])
  d0123 <- (d123 - d012) / (node[4] - node[1])
  a <- node
  table <- cbind(
    c0 = f[[1]] - a[1] * d01 + a[1] * a[2] * d012 - a[1] * a[2] * a[3] * d0123,
    c1 = d01 - (a[1] + a[2]) * d012 + (a[1] * a[2] + a[1] * a[3] + a[2] * a[3]) * d0123,
    c2 = d012 - (a[1] + a[2] + a[3]) * d0123,
    c3 = d0123
  )
  table[segment >= 512, ] <- 0
  table
}

oracle_cache <- new.env(parent = emptyenv())
oracle_cache$home <- getwd()

# The float coefficients as recorded by tools/golden.R from oracle_normal_table(): another libm may
# move the last bit of a qnorm() and with it a coefficient, and must not move the expected normals.
oracle_float_table <- function() {
  if (is.null(oracle_cache$table)) {
    text <- scan(file.path(oracle_cache$home, "fixtures", "normal_table.txt"), "", quiet = TRUE, comment.char = "#")
    oracle_cache$table <- matrix(as.numeric(text), ncol = 4, byrow = TRUE)
  }
  oracle_cache$table
}

# Q(word), vectorised. Keeps the dim of `word`.
oracle_normal <- function(word) {
  v <- (word * 2) %% two_32 + 1
  f <- f32(as.vector(v))
  e <- findInterval(f, 2^(0:32)) - 1
  mantissa <- (f / 2^e - 1) * 2^23
  top <- mantissa %/% 2^19
  t <- (mantissa - top * 2^19) * 2^-19
  coef <- oracle_float_table()[e * 16 + top + 1, , drop = FALSE]
  z <- oracle_fmaf(oracle_fmaf(oracle_fmaf(coef[, 4], t, coef[, 3]), t, coef[, 2]), t, coef[, 1])
  word[] <- ifelse(word >= 2^31, -z, z)
  word
}

# The proposal noise of mh_step: n_chains x n_dim normals.
oracle_noise <- function(n_chains, n_dim, seed, step = 0, chain_offset = 0) {
  n_blocks <- (n_dim + 3) %/% 4
  words <- oracle_words(
    seed, 0, step,
    block = rep(seq_len(n_blocks) - 1, each = n_chains),
    chain = rep(seq_len(n_chains) - 1, n_blocks), chain_offset
  )
  z <- array(oracle_normal(words), c(n_chains, n_blocks, 4))
  matrix(aperm(z, c(1, 3, 2)), n_chains)[, seq_len(n_dim), drop = FALSE]
}

# The acceptance uniform of each chain.
oracle_uniform <- function(n_chains, seed, step = 0, chain_offset = 0, precision = "double") {
  chain <- seq_len(n_chains) - 1
  if (precision == "single") {
    words <- oracle_words(seed, 1, step %/% 4, 0, chain, chain_offset)
    return((words[, step %% 4 + 1] %/% 2^9 + 0.5) * 2^-23)
  }
  words <- oracle_words(seed, 1, step %/% 2, 0, chain, chain_offset)
  first <- if (step %% 2 == 0) 1 else 3
  (words[, first] * 2^20 + words[, first + 1] %/% 2^12 + 0.5) * 2^-52
}
