#include "ffi.h"

/* x: matrix of at least one row, or the pointer to one on the GPU; density: nodes. */
SEXP ffi_log_density(SEXP x, SEXP density, SEXP single, SEXP run) {
  fmc_context context;
  fmc_density nodes;
  ffi_context(run, &context);
  const fmc_resident *resident = ffi_resident(x);
  size_t n = resident ? resident->n : (size_t)Rf_nrows(x), n_dim = resident ? resident->n_dim : (size_t)Rf_ncols(x);
  ffi_density(density, n_dim, Rf_asLogical(single), &nodes);
  SEXP out = PROTECT(Rf_allocVector(REALSXP, (R_xlen_t)n));
  fmc_log_density_job job = {
      .n = n,
      .n_dim = n_dim,
      .x = resident ? NULL : REAL_RO(x),
      .resident = resident,
      .density = &nodes,
      .single_precision = Rf_asLogical(single),
      .log_density = REAL(out),
  };
  fmc_status status = ffi_backend(run)->log_density(&job, &context);
  UNPROTECT(1);
  return status == FMC_OK ? out : ffi_failure(status, &context);
}
