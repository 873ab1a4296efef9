# Densities written in C beside the same in plain R, and what their tests share.

skip_without_compiler <- function() {
  skip_if(!nzchar(Sys.which("make")) || !nzchar(Sys.which("sh")), "no tools to compile with")
}

# What a session knows of compiled code; without it the next use goes to the cache.
forget_compiled <- function() {
  env <- getFromNamespace("session", "fusedmc")
  rm(list = ls(env), envir = env)
}

nvrtc_missing <- function() {
  is.character(.Call(getFromNamespace("C_ffi_nvrtc_version", "fusedmc"), nvrtc_path()))
}

# list(code, data, log_density = function(x), scale = function(x)): independent normals up to a constant. Only portable
# operations, so the same bits everywhere.
source_normal <- function(d, real = "double") {
  mean <- as.vector(case_means(1, d))
  inv_sd <- 1 / as.vector(case_sds(1, d))
  code <- gsub("REAL", real, "
    static REAL square(REAL z) { return z * z; }
    REAL log_density(const REAL *x, int n_dim) {
      REAL sum = 0;
      for (int d = 0; d < n_dim; d++)
        sum += square((x[d] - mean[d]) * inv_sd[d]);
      return sum * half;
    }", fixed = TRUE)
  list(
    code = code, data = list(mean = array(mean, c(d, 1)), inv_sd = array(inv_sd, c(1, d)), half = -0.5),
    log_density = function(x) -0.5 * colSums(((t(x) - mean) * inv_sd)^2)
  )
}

# Every portable function, and data of every kind.
source_portable <- function(d, real = "double") {
  y <- grid_values(37, 77)
  counts <- as.integer(abs(grid_values(37, 78)) * 10)
  design <- grid_matrix(37, d, 79) / d
  code <- gsub("REAL", real, "
    static REAL rate(const REAL *x, int n_dim, int i) {
      REAL eta = shift;
      for (int j = 0; j < n_dim; j++)
        eta = fmc_fma(design[i + j * nrow_design], x[j], eta);
      return eta;
    }
    REAL log_density(const REAL *x, int n_dim) {
      REAL sum = 0;
      for (int i = 0; i < n_y; i++) {
        REAL eta = rate(x, n_dim, i), step = fmc_exp(eta) - fmc_expm1(y[i]);
        sum += (REAL)counts[i] * eta - fmc_log1pexp(eta) - fmc_lgamma((REAL)counts[i] + 1);
        sum += fmc_log1p(eta * eta) - fmc_log(fmc_sqrt(step * step + 1));
      }
      return flag ? sum / n_y : FMC_NAN;
    }", fixed = TRUE)
  list(
    code = code, data = list(y = y, counts = counts, design = design, shift = 0.25, flag = TRUE),
    log_density = function(x) {
      apply(x, 1, function(point) {
        eta <- 0.25 + as.vector(design %*% point)
        step <- exp(eta) - expm1(y)
        sum(counts * eta - log1p(exp(eta)) - lgamma(counts + 1) + log1p(eta^2) - log(sqrt(step^2 + 1))) / 37
      })
    },
    # the size of the terms, for a relative tolerance
    scale = function(x) {
      apply(x, 1, function(point) {
        eta <- 0.25 + as.vector(design %*% point)
        step <- exp(eta) - expm1(y)
        sum(abs(counts * eta) + log1p(exp(eta)) + lgamma(counts + 1) + log1p(eta^2) + log(sqrt(step^2 + 1))) / 37
      })
    }
  )
}

make_source <- function(case, d) {
  density_source(case$code, case$data, d)
}

# A C function that returns one expression, read off at one point.
evaluate_c <- function(expression, data = list(), x = 0, precision = "double", real = "double", backend = "cpu") {
  code <- sprintf("%s log_density(const %s *x, int n_dim) { return %s; }", real, real, expression)
  log_density(density_source(code, data, length(x)), matrix(x, 1), precision = precision, backend = backend)
}
