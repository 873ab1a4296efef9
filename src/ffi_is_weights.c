#include <string.h>

#include "core/weighted_sums.h"
#include "cpu_dispatch.h"
#include "ffi.h"

#define N_NAMED 5 /* indices named in an error message */

/* The first samples, from 1, whose log weight is NaN or +Inf. */
static SEXP bad_indices(const double *log_weights, size_t n, size_t n_bad) {
  SEXP indices = Rf_allocVector(REALSXP, n_bad < N_NAMED ? (R_xlen_t)n_bad : N_NAMED);
  R_xlen_t found = 0;
  for (size_t i = 0; i < n && found < XLENGTH(indices); i++)
    if (fmc_log_weight_bad(log_weights[i]))
      REAL(indices)[found++] = (double)i + 1;
  return indices;
}

static SEXP mean_of(const fmc_weighted_sums *sums, size_t n_dim) {
  SEXP mean = Rf_allocVector(REALSXP, (R_xlen_t)n_dim);
  for (size_t d = 0; d < n_dim; d++)
    REAL(mean)[d] = sums->sum > 0 ? sums->sum_x[d] / sums->sum : NA_REAL;
  return mean;
}

/* Kish's effective sample size; rounding may not take it out of [1, n]. */
static double ess_of(const fmc_weighted_sums *sums, double n) {
  if (!(sums->sum > 0))
    return 0;
  double ess = sums->sum * sums->sum / sums->sum_squares;
  return ess < 1 ? 1 : ess > n ? n : ess;
}

/* samples: matrix or NULL; target, proposal: nodes, or NULL where log_weights are given; keep:
 * whether log weights and weights are wanted. All checked in R; there is at least one sample. */
SEXP ffi_is_weights(SEXP samples, SEXP target, SEXP proposal, SEXP log_weights, SEXP keep, SEXP single, SEXP run) {
  int from_densities = Rf_isNull(log_weights), has_samples = !Rf_isNull(samples), kept = Rf_asLogical(keep);
  size_t n_dim = has_samples ? (size_t)Rf_ncols(samples) : 0;
  size_t n = from_densities ? (size_t)Rf_nrows(samples) : (size_t)XLENGTH(log_weights);
  fmc_context context;
  fmc_density target_density, proposal_density;
  fmc_weighted_sums sums = {.sum_x = (double *)R_alloc(n_dim ? n_dim : 1, sizeof(double))};
  ffi_context(run, &context);
  if (from_densities) {
    ffi_density(target, n_dim, Rf_asLogical(single), &target_density);
    ffi_density(proposal, n_dim, Rf_asLogical(single), &proposal_density);
  }

  SEXP out = PROTECT(kept ? Rf_allocVector(REALSXP, (R_xlen_t)n) : R_NilValue);
  SEXP weights = PROTECT(kept ? Rf_allocVector(REALSXP, (R_xlen_t)n) : R_NilValue);
  fmc_is_job job = {
      .n = n,
      .n_dim = n_dim,
      .samples = has_samples ? REAL_RO(samples) : NULL,
      .target = from_densities ? &target_density : NULL,
      .proposal = from_densities ? &proposal_density : NULL,
      .given_log_weights = from_densities ? NULL : REAL_RO(log_weights),
      .single_precision = Rf_asLogical(single),
      .log_weights = kept ? REAL(out) : NULL,
      .sums = &sums,
  };
  fmc_status status = ffi_backend(run)->is_weights(&job, &context);
  if (status == FMC_OK && sums.n_bad > 0 && from_densities && !kept) {
    /* The bad ones must be named, so their log weights are needed after all. */
    UNPROTECT(1);
    out = PROTECT(Rf_allocVector(REALSXP, (R_xlen_t)n));
    job.log_weights = REAL(out);
    status = ffi_backend(run)->is_weights(&job, &context);
  }
  if (status != FMC_OK) {
    UNPROTECT(2);
    return ffi_failure(status, &context);
  }
  const double *all = job.log_weights ? job.log_weights : job.given_log_weights;
  SEXP bad = PROTECT(bad_indices(all, n, sums.n_bad));
  if (kept) {
    for (size_t i = 0; sums.n_bad > 0 && i < n; i++)
      if (fmc_log_weight_bad(job.log_weights[i]))
        job.log_weights[i] = -FMC_INF;
    if (sums.sum > 0)
      fmc_cpu_normalise(job.log_weights, n, &sums, REAL(weights), context.n_threads);
    else
      for (size_t i = 0; i < n; i++)
        REAL(weights)[i] = NA_REAL;
  }
  double log_mean_weight = sums.sum > 0 ? sums.max + (fmc_log(sums.sum) - fmc_log((double)n)) : -FMC_INF;
  static const char *const names[] = {"log_weights", "weights", "mean", "ess", "log_mean_weight", "n_bad", "bad"};
  SEXP values[] = {kept ? out : R_NilValue,
                   weights,
                   PROTECT(has_samples ? mean_of(&sums, n_dim) : R_NilValue),
                   PROTECT(Rf_ScalarReal(ess_of(&sums, (double)n))),
                   PROTECT(Rf_ScalarReal(log_mean_weight)),
                   PROTECT(Rf_ScalarReal((double)sums.n_bad)),
                   bad};
  SEXP list = ffi_list(7, names, values);
  UNPROTECT(7);
  return list;
}
