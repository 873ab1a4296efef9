# The cases run by test-same-bits.R, test-cuda.R, test-golden.R and tools/golden.R. Inputs are
# multiples of powers of two made by integer arithmetic, so they are the same doubles everywhere.

golden_shapes <- list(c(1, 1), c(1, 64), c(7, 3), c(4096, 64), c(65537, 5), c(3, 10000))
golden_long_shapes <- list(c(1048576, 16))

# Cases: shape x target x precision, each with a step kind. Cholesky factors up to 130 dims.
bit_cases <- function(shapes, targets = c("normal", "mixture3")) {
  cases <- list()
  for (shape in shapes) {
    steps <- if (shape[2] <= 130) case_step_kinds else c("scalar", "vector")
    for (target in targets) {
      for (precision in case_precisions) {
        step <- steps[length(cases) %% length(steps) + 1]
        cases <- c(cases, list(list(
          n = shape[1], d = shape[2], target = target, precision = precision, step = step,
          label = paste(paste(shape, collapse = "x"), target, step, precision)
        )))
      }
    }
  }
  cases
}

# Two steps of mh_step, with the generator and with given noise and u, and is_weights by both
# routes. log_alpha of a given run is left in: nothing is left out.
run_bit_case <- function(case, backend, device = 0L) {
  x <- grid_matrix(case$n, case$d, 801)
  target <- case_target(case$target, case$d)$density
  step_size <- case_step(case$step, case$d)
  step <- function(...) {
    unclass(mh_step(..., target = target, precision = case$precision, backend = backend, device = device))
  }
  weigh <- function(...) {
    unclass(is_weights(..., precision = case$precision, backend = backend, device = device))
  }
  first <- step(x, step_size = step_size, seed = 2^33 + 12345, step = 6, chain_offset = 2^32 - 5)
  second <- step(first$x, step_size = step_size, seed = 2^33 + 12345, step = 7, chain_offset = 2^32 - 5)
  given <- step(x,
    step_size = step_size, noise = grid_matrix(case$n, case$d, 802), u = grid_uniform(case$n, 803)
  )
  weights <- weigh(x, target)
  list(
    first = first, second = second, given = given, weights = weights,
    lean = weigh(x, target, weights = FALSE),
    log_weights = weigh(x, log_weights = grid_values(case$n, 804)),
    log_weights_alone = weigh(log_weights = grid_values(case$n, 804))
  )
}

# One row per output: the hash of its bytes, doubles and integers little-endian.
hash_of <- function(x) {
  raw <- if (is.double(x)) {
    writeBin(as.vector(x), raw(), size = 8, endian = "little")
  } else {
    writeBin(as.integer(x), raw(), size = 4, endian = "little")
  }
  digest::digest(raw, algo = "sha256", serialize = FALSE)
}

golden_rows <- function(case, backend) {
  result <- unlist(run_bit_case(case, backend), recursive = FALSE)
  result <- Filter(function(part) length(part) > 0, result)
  data.frame(
    case = case$label, output = names(result), hash = vapply(result, hash_of, ""),
    row.names = NULL, stringsAsFactors = FALSE
  )
}

golden_hashes <- function(shapes, backend) {
  do.call(rbind, lapply(bit_cases(shapes), golden_rows, backend = backend))
}

# Hashes of the inputs alone: if these differ the machine's R is at fault, not the package.
golden_inputs <- function() {
  inputs <- list(
    x = grid_matrix(4096, 64, 801), noise = grid_matrix(4096, 64, 802), u = grid_uniform(4096, 803),
    means = case_means(3, 64), sds = case_sds(3, 64), vector = case_step("vector", 64), lower = case_step("lower", 64)
  )
  data.frame(
    input = names(inputs), hash = vapply(inputs, hash_of, ""), row.names = NULL, stringsAsFactors = FALSE
  )
}
