#include <limits.h>

#include "core/resample.h"
#include "ffi.h"

#define N_NAMED 5 /* indices named in an error message */

/* The first weights, from 1, that are none. */
static SEXP bad_indices(const fmc_resample_job *job) {
  SEXP indices = Rf_allocVector(REALSXP, job->n_bad < N_NAMED ? (R_xlen_t)job->n_bad : N_NAMED);
  R_xlen_t found = 0;
  for (size_t i = 0; i < job->n_weights && found < XLENGTH(indices); i++)
    if (fmc_weight_bad(job->weights[i], job->is_log))
      REAL(indices)[found++] = (double)i + 1;
  return indices;
}

/* A 64-bit whole number as c(high, low) 32 bits. */
static uint64_t from_pair(const double *pair) { return (uint64_t)pair[0] << 32 | (uint64_t)pair[1]; }

static SEXP to_pair(uint64_t x) {
  SEXP pair = Rf_allocVector(REALSXP, 2);
  REAL(pair)[0] = (double)(x >> 32);
  REAL(pair)[1] = (double)(x & 0xffffffffu);
  return pair;
}

/* rng: c(seed, step, offset). piece: NULL, or list(n_all, max, base, total) with the last two as pairs. All checked in
 * R. */
SEXP ffi_resample(SEXP weights, SEXP is_log, SEXP n, SEXP method, SEXP rng, SEXP piece, SEXP run) {
  fmc_context context;
  fmc_resample_job job = {
      .n_weights = (size_t)XLENGTH(weights),
      .n = (size_t)Rf_asReal(n),
      .weights = REAL_RO(weights),
      .is_log = Rf_asLogical(is_log),
      .method = Rf_asInteger(method),
      .seed = (uint64_t)REAL_RO(rng)[0],
      .step = (uint32_t)REAL_RO(rng)[1],
      .offset = (uint64_t)REAL_RO(rng)[2],
      .is_piece = !Rf_isNull(piece),
  };
  ffi_context(run, &context);
  if (job.is_piece) {
    job.n_all = (size_t)Rf_asReal(VECTOR_ELT(piece, 0));
    job.max = Rf_asReal(VECTOR_ELT(piece, 1));
    job.base = from_pair(REAL_RO(VECTOR_ELT(piece, 2)));
    job.total = from_pair(REAL_RO(VECTOR_ELT(piece, 3)));
  }
  int is_wide = job.n_weights > INT_MAX;
  SEXP indices = PROTECT(Rf_allocVector(is_wide ? REALSXP : INTSXP, (R_xlen_t)job.n));
  if (is_wide)
    job.wide_indices = REAL(indices);
  else
    job.indices = INTEGER(indices);
  fmc_status status = ffi_backend(run)->resample(&job, &context);
  if (status != FMC_OK) {
    UNPROTECT(1);
    return ffi_failure(status, &context);
  }
  static const char *const names[] = {"indices", "sum", "n_bad", "bad"};
  SEXP values[] = {indices, PROTECT(to_pair(job.sum)), PROTECT(Rf_ScalarReal((double)job.n_bad)),
                   PROTECT(bad_indices(&job))};
  SEXP list = ffi_list(4, names, values);
  UNPROTECT(4);
  return list;
}
