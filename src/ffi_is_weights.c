#include <stdio.h>

#include "core/weighted_sums.h"
#include "cpu_dispatch.h"
#include "ffi.h"
#include "weighted.h"

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

static SEXP mean_of(const double *total, size_t n_dim) {
  SEXP mean = Rf_allocVector(REALSXP, (R_xlen_t)n_dim);
  double sum = total[FMC_SUMMARY_SUM];
  for (size_t d = 0; d < n_dim; d++)
    REAL(mean)[d] = sum > 0 ? total[FMC_SUMMARY_COLUMNS + d] / sum : NA_REAL;
  return mean;
}

/* Kish's effective sample size; rounding may not take it out of [1, n]. */
static double ess_of(const double *total, double n) {
  double sum = total[FMC_SUMMARY_SUM];
  if (!(sum > 0))
    return 0;
  double ess = sum * sum / total[FMC_SUMMARY_SUM_SQUARES];
  return ess < 1 ? 1 : ess > n ? n : ess;
}

/* Runs the job and puts the sums over all samples into a row. */
static fmc_status run_job(SEXP run, fmc_is_job *job, double *total, fmc_context *context) {
  job->summary = fmc_is_summary_new(job->n_dim, 0);
  if (!job->summary) {
    context->bytes = fmc_is_summary_bytes(job->n_dim, 0);
    snprintf(context->message, sizeof context->message, "cannot allocate the sums of %zu dims", job->n_dim);
    return FMC_ERROR_MEMORY;
  }
  fmc_status status = ffi_backend(run)->is_weights(job, context);
  fmc_is_summary_total(job->summary, total);
  fmc_is_summary_free(job->summary);
  return status;
}

/* samples: matrix, pointer to one on the GPU, or NULL; target, proposal: nodes, or NULL where log_weights are given;
 * keep: whether log weights and weights are wanted. All checked in R; there is at least one sample. */
SEXP ffi_is_weights(SEXP samples, SEXP target, SEXP proposal, SEXP log_weights, SEXP keep, SEXP single, SEXP run) {
  int from_densities = Rf_isNull(log_weights), has_samples = !Rf_isNull(samples), kept = Rf_asLogical(keep);
  const fmc_resident *resident = ffi_resident(samples);
  size_t n_dim = resident ? resident->n_dim : has_samples ? (size_t)Rf_ncols(samples) : 0;
  size_t n = !from_densities ? (size_t)XLENGTH(log_weights) : resident ? resident->n : (size_t)Rf_nrows(samples);
  fmc_context context;
  fmc_density target_density, proposal_density;
  double *total = (double *)R_alloc(FMC_SUMMARY_COLUMNS + n_dim, sizeof(double));
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
      .samples = has_samples && !resident ? REAL_RO(samples) : NULL,
      .resident = resident,
      .target = from_densities ? &target_density : NULL,
      .proposal = from_densities ? &proposal_density : NULL,
      .given_log_weights = from_densities ? NULL : REAL_RO(log_weights),
      .single_precision = Rf_asLogical(single),
      .log_weights = kept ? REAL(out) : NULL,
  };
  fmc_status status = run_job(run, &job, total, &context);
  if (status == FMC_OK && total[FMC_SUMMARY_N_BAD] > 0 && from_densities && !kept) {
    /* The bad ones must be named, so their log weights are needed after all. */
    UNPROTECT(1);
    out = PROTECT(Rf_allocVector(REALSXP, (R_xlen_t)n));
    job.log_weights = REAL(out);
    status = run_job(run, &job, total, &context);
  }
  if (status != FMC_OK) {
    UNPROTECT(2);
    return ffi_failure(status, &context);
  }
  double max = total[FMC_SUMMARY_MAX], sum = total[FMC_SUMMARY_SUM], n_bad = total[FMC_SUMMARY_N_BAD];
  const double *all = job.log_weights ? job.log_weights : job.given_log_weights;
  SEXP bad = PROTECT(bad_indices(all, n, (size_t)n_bad));
  if (kept) {
    for (size_t i = 0; n_bad > 0 && i < n; i++)
      if (fmc_log_weight_bad(job.log_weights[i]))
        job.log_weights[i] = -FMC_INF;
    if (sum > 0)
      fmc_cpu_normalise(job.log_weights, n, max, sum, REAL(weights), context.n_threads);
    else
      for (size_t i = 0; i < n; i++)
        REAL(weights)[i] = NA_REAL;
  }
  double log_mean_weight = sum > 0 ? max + (fmc_log(sum) - fmc_log((double)n)) : -FMC_INF;
  static const char *const names[] = {"log_weights", "weights", "mean", "ess", "log_mean_weight", "n_bad", "bad"};
  SEXP values[] = {kept ? out : R_NilValue,
                   weights,
                   PROTECT(has_samples ? mean_of(total, n_dim) : R_NilValue),
                   PROTECT(Rf_ScalarReal(ess_of(total, (double)n))),
                   PROTECT(Rf_ScalarReal(log_mean_weight)),
                   PROTECT(Rf_ScalarReal(n_bad)),
                   bad};
  SEXP list = ffi_list(7, names, values);
  UNPROTECT(7);
  return list;
}
