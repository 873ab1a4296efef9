# The pieces of the core, for the tests. Words are whole numbers from 0 to 2^32 - 1 held in doubles.

# An n x 4 matrix of Philox words; vectors of one length.
philox_words <- function(seed, purpose, step, block, chain) {
  .Call(C_ffi_philox_words, as.double(seed), as.double(purpose), as.double(step), as.double(block), as.double(chain))
}

# A seed of its own for a purpose: the top 53 bits of two words under a run's seed, whose other words are not touched.
derived_seed <- function(seed, purpose, block) {
  words <- philox_words(seed, purpose, 0, block, 0)
  words[1] * 2^21 + words[2] %/% 2^11
}

standard_normal <- function(words) {
  .Call(C_ffi_standard_normal, as.double(words))
}

core_math <- function(name, x, precision = "double") {
  .Call(C_ffi_core_math, name, as.double(x), precision == "single")
}

# lgamma(x + h) - lgamma(x) - h log(x) without cancellation; vectors of one length.
core_lgamma_ratio <- function(x, h) {
  .Call(C_ffi_lgamma_ratio, as.double(x), as.double(h))
}

# Chooses the CPU's build, "baseline", "avx2" or "avx512"; returns the one before.
set_simd <- function(level) {
  .Call(C_ffi_set_simd, level)
}

# Compensated sums of x and of log(x), terms in their order.
core_sum <- function(x) {
  .Call(C_ffi_core_sum, as.double(x))
}

core_sum_log <- function(x) {
  .Call(C_ffi_core_sum_log, as.double(x))
}

# list(factor, pivot): the lower Cholesky factor of a symmetric matrix, whose lower triangle is read, and 0; or the
# index of the first pivot that is not positive.
core_cholesky <- function(x) {
  storage.mode(x) <- "double"
  .Call(C_ffi_core_cholesky, x)
}

# The rows of the inverse of a lower triangular matrix, one after the other: row i, from 0, has i + 1 numbers from
# place i (i + 1) / 2 on, counted from 0.
core_inverse_factor <- function(factor) {
  storage.mode(factor) <- "double"
  .Call(C_ffi_core_inverse_factor, factor)
}
