# The pieces of the core, for the tests. Words are whole numbers from 0 to 2^32 - 1 held in doubles.

# An n x 4 matrix of Philox words; vectors of one length.
philox_words <- function(seed, purpose, step, block, chain) {
  .Call(C_ffi_philox_words, as.double(seed), as.double(purpose), as.double(step), as.double(block), as.double(chain))
}

standard_normal <- function(words) {
  .Call(C_ffi_standard_normal, as.double(words))
}

core_math <- function(name, x, precision = "double") {
  .Call(C_ffi_core_math, name, as.double(x), precision == "single")
}

# Chooses the CPU's build, "baseline", "avx2" or "avx512"; returns the one before.
set_simd <- function(level) {
  .Call(C_ffi_set_simd, level)
}
