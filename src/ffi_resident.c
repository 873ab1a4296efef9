/* Matrices that stay on a GPU hang on an external pointer. Its address is NULL before there is one, after it has been
 * freed, and where the pointer comes from a file. */
#include <stdlib.h>

#include "ffi.h"

static fmc_resident *address_of(SEXP pointer) { return (fmc_resident *)R_ExternalPtrAddr(pointer); }

static void finalize_resident(SEXP pointer) {
  fmc_resident *resident = address_of(pointer);
  if (!resident)
    return;
  R_ClearExternalPtr(pointer);
  fmc_cuda_free_resident(resident);
  free(resident);
}

/* Samples that are no matrix of R's, or NULL. */
const fmc_resident *ffi_resident(SEXP samples) { return TYPEOF(samples) == EXTPTRSXP ? address_of(samples) : NULL; }

/* x: matrix of at least one row. The pointer. */
SEXP ffi_to_device(SEXP x, SEXP single, SEXP run) {
  fmc_context context;
  ffi_context(run, &context);
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, R_NilValue, R_NilValue));
  R_RegisterCFinalizer(pointer, finalize_resident);
  fmc_resident *resident = calloc(1, sizeof *resident);
  fmc_status status = FMC_ERROR_MEMORY;
  context.bytes = sizeof *resident;
  R_SetExternalPtrAddr(pointer, resident);
  if (resident) {
    resident->n = (size_t)Rf_nrows(x);
    resident->n_dim = (size_t)Rf_ncols(x);
    resident->single_precision = Rf_asLogical(single);
    status = fmc_cuda_upload(REAL_RO(x), resident, &context);
  }
  if (status != FMC_OK)
    finalize_resident(pointer);
  UNPROTECT(1);
  return status == FMC_OK ? pointer : ffi_failure(status, &context);
}

/* The matrix. The pointer's address is not NULL. */
SEXP ffi_from_device(SEXP pointer, SEXP run) {
  fmc_context context;
  const fmc_resident *resident = address_of(pointer);
  ffi_context(run, &context);
  SEXP x = PROTECT(Rf_allocMatrix(REALSXP, (int)resident->n, (int)resident->n_dim));
  fmc_status status = fmc_cuda_download(resident, REAL(x), &context);
  UNPROTECT(1);
  return status == FMC_OK ? x : ffi_failure(status, &context);
}

SEXP ffi_release_matrix(SEXP pointer) {
  finalize_resident(pointer);
  return R_NilValue;
}

/* Whether there is a matrix; all are gone once the backend has been released. */
SEXP ffi_on_device(SEXP pointer) {
  const fmc_resident *resident = address_of(pointer);
  return Rf_ScalarLogical(resident && resident->values);
}
