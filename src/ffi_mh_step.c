#include "core/core.h"
#include "ffi.h"

#define N_NAMED 5 /* rows named in an error message */

const double *ffi_factor_rows(const double *factor, size_t n_dim) {
  double *rows = (double *)R_alloc(n_dim * n_dim, sizeof(double));
  for (size_t i = 0; i < n_dim; i++)
    for (size_t j = 0; j < n_dim; j++)
      rows[i * n_dim + j] = factor[j * n_dim + i];
  return rows;
}

/* Turns the kernel's codes into logicals; returns list(count of starts that are not finite, the first of their rows,
 * count of proposals that are not finite, the first of their chains). Rows and chains count from 1. */
static SEXP read_codes(int *accepted, size_t n_chains) {
  double n_start = 0, n_proposal = 0, first_proposal = NA_REAL, rows[N_NAMED];
  int n_rows = 0;
  for (size_t i = 0; i < n_chains; i++) {
    if (accepted[i] <= FMC_ACCEPTED)
      continue;
    if (accepted[i] == FMC_START_NOT_FINITE) {
      n_start++;
      if (n_rows < N_NAMED)
        rows[n_rows++] = (double)i + 1;
    } else if (n_proposal++ == 0) {
      first_proposal = (double)i + 1;
    }
    accepted[i] = 0;
  }
  static const char *const names[] = {"n_start", "start_rows", "n_proposal", "first_proposal"};
  SEXP start_rows = PROTECT(Rf_allocVector(REALSXP, n_rows));
  for (int i = 0; i < n_rows; i++)
    REAL(start_rows)[i] = rows[i];
  SEXP values[] = {PROTECT(Rf_ScalarReal(n_start)), start_rows, PROTECT(Rf_ScalarReal(n_proposal)),
                   PROTECT(Rf_ScalarReal(first_proposal))};
  SEXP list = ffi_list(4, names, values);
  UNPROTECT(4);
  return list;
}

/* x: matrix; target: nodes or NULL; step_size: n_dim numbers or an n_dim x n_dim matrix; noise: matrix or NULL; u:
 * vector or NULL; rng: c(seed, step, chain_offset); given: in place of a target, list(log density at x, at the
 * proposals), or NULL to get the proposals as x and nothing else. All checked in R. */
SEXP ffi_mh_step(SEXP x, SEXP target, SEXP step_size, SEXP noise, SEXP u, SEXP rng, SEXP single, SEXP given, SEXP run) {
  int n_chains = Rf_nrows(x), n_dim = Rf_ncols(x);
  fmc_context context;
  fmc_density density;
  int has_target = !Rf_isNull(target), has_given = !Rf_isNull(given);
  ffi_context(run, &context);
  if (has_target)
    ffi_density(target, (size_t)n_dim, Rf_asLogical(single), &density);

  SEXP x_new = PROTECT(Rf_allocMatrix(REALSXP, n_chains, n_dim));
  Rf_setAttrib(x_new, R_DimNamesSymbol, Rf_getAttrib(x, R_DimNamesSymbol)); /* in R this would copy x_new */
  SEXP accepted = PROTECT(Rf_allocVector(LGLSXP, n_chains));
  SEXP log_density = PROTECT(Rf_allocVector(REALSXP, n_chains));
  SEXP log_alpha = PROTECT(Rf_allocVector(REALSXP, n_chains));
  int cholesky = Rf_isMatrix(step_size);
  fmc_mh_step_job job = {
      .n_chains = (size_t)n_chains,
      .n_dim = (size_t)n_dim,
      .x = REAL_RO(x),
      .step_size = cholesky ? ffi_factor_rows(REAL_RO(step_size), (size_t)n_dim) : REAL_RO(step_size),
      .cholesky = cholesky,
      .noise = Rf_isNull(noise) ? NULL : REAL_RO(noise),
      .u = Rf_isNull(u) ? NULL : REAL_RO(u),
      .seed = (uint64_t)REAL_RO(rng)[0],
      .step = (uint32_t)REAL_RO(rng)[1],
      .chain_offset = (uint64_t)REAL_RO(rng)[2],
      .single_precision = Rf_asLogical(single),
      .target = has_target ? &density : NULL,
      .given_old = has_given ? REAL_RO(VECTOR_ELT(given, 0)) : NULL,
      .given_new = has_given ? REAL_RO(VECTOR_ELT(given, 1)) : NULL,
      .x_new = REAL(x_new),
      .log_density = REAL(log_density),
      .log_alpha = REAL(log_alpha),
      .accepted = LOGICAL(accepted),
  };
  fmc_status status = ffi_backend(run)->mh_step(&job, &context);
  if (status != FMC_OK) {
    UNPROTECT(4);
    return ffi_failure(status, &context);
  }
  if (!has_target && !has_given) {
    UNPROTECT(4);
    return x_new;
  }
  SEXP codes = PROTECT(read_codes(job.accepted, job.n_chains));
  static const char *const names[] = {"x", "accepted", "log_density", "log_alpha", "not_finite"};
  SEXP values[] = {x_new, accepted, log_density, log_alpha, codes};
  SEXP list = ffi_list(5, names, values);
  UNPROTECT(5);
  return list;
}
