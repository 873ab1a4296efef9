# Inputs for the tests. grid_values() needs no random numbers and no libm: the same doubles on
# every machine, so recorded hashes of what comes out can be compared anywhere.

# n multiples of 2^-24 in [-2, 2): squares of the index modulo the largest prime below 2^26, so that
# every product stays below 2^53 and is exact. Most of them are no floats.
grid_values <- function(n, salt = 1) {
  prime <- 67108859
  h <- ((seq_len(n) + 1000 * salt) * 40014) %% prime
  h <- (h * h + 12345 * salt) %% prime
  h <- (h * h + 52845) %% prime
  h / 2^24 - 2
}

grid_matrix <- function(n_row, n_col, salt = 1) {
  matrix(grid_values(n_row * n_col, salt), n_row, n_col)
}

# Uniforms in (0, 1) by the same means.
grid_uniform <- function(n, salt = 2) (grid_values(n, salt) + 2 + 2^-25) / 4

# Means in [-1, 1), sds in [1/2, 3/2): every term of a log density is then negative, so the size
# of a log density is the size of the sums behind it, and relative tolerances mean what they say.
case_means <- function(k, d, salt = 3) grid_matrix(k, d, salt) / 2
case_sds <- function(k, d, salt = 4) grid_matrix(k, d, salt) / 4 + 1

# Densities by name: list(density = the package's, oracle = the oracle's).
case_target <- function(kind, d) {
  k <- suppressWarnings(as.integer(sub("mixture", "", kind)))
  if (kind == "standard") {
    return(list(density = density_normal(0, 1), oracle = oracle_mixture(1, matrix(0, 1, d), matrix(1, 1, d))))
  }
  if (kind == "normal") {
    means <- case_means(1, d)
    sds <- case_sds(1, d)
    return(list(density = density_normal(as.vector(means), as.vector(sds)), oracle = oracle_mixture(1, means, sds)))
  }
  means <- case_means(k, d)
  sds <- case_sds(k, d)
  weights <- (seq_len(k) %% 3 + 1) / 8
  list(density = density_mixture(weights, means, sds), oracle = oracle_mixture(weights, means, sds))
}

# Step sizes by name.
case_step <- function(kind, d) {
  lower <- function() {
    m <- grid_matrix(d, d, 5) / 8
    m[upper.tri(m)] <- 0
    diag(m) <- 1 / 4 + abs(diag(m))
    m / sqrt(d)
  }
  switch(kind,
    scalar = 0.3,
    vector = (grid_values(d, 6) + 2.5) / 8,
    lower = lower(),
    upper = t(lower())
  )
}

case_precisions <- c("double", "single")
case_step_kinds <- c("scalar", "vector", "lower", "upper")
case_target_kinds <- c("standard", "normal", "mixture1", "mixture2", "mixture3", "mixture7")
