#include "ffi.h"

/* x: matrix of at least one row; density: nodes. */
SEXP ffi_log_density(SEXP x, SEXP density, SEXP single, SEXP run) {
  fmc_context context;
  fmc_density nodes;
  ffi_context(run, &context);
  ffi_density(density, (size_t)Rf_ncols(x), Rf_asLogical(single), &nodes);
  SEXP out = PROTECT(Rf_allocVector(REALSXP, Rf_nrows(x)));
  fmc_log_density_job job = {
      .n = (size_t)Rf_nrows(x),
      .n_dim = (size_t)Rf_ncols(x),
      .x = REAL_RO(x),
      .density = &nodes,
      .single_precision = Rf_asLogical(single),
      .log_density = REAL(out),
  };
  fmc_status status = ffi_backend(run)->log_density(&job, &context);
  UNPROTECT(1);
  return status == FMC_OK ? out : ffi_failure(status, &context);
}
