/* Draws, weights and sums: the door of R/run_importance.R. Summaries hang on an external pointer while R allocates. */
#include <string.h>

#include "core/core.h"
#include "ffi.h"
#include "weighted.h"

static void finalize_summary(SEXP holder) {
  fmc_is_summary_free((fmc_is_summary *)R_ExternalPtrAddr(holder));
  R_ClearExternalPtr(holder);
}

/* Whoever protects the holder has the summary until it is finalized. */
static SEXP new_summary(size_t n_columns, size_t n_tail, fmc_is_summary **summary) {
  SEXP holder = PROTECT(R_MakeExternalPtr(NULL, R_NilValue, R_NilValue));
  R_RegisterCFinalizer(holder, finalize_summary);
  *summary = fmc_is_summary_new(n_columns, n_tail);
  R_SetExternalPtrAddr(holder, *summary);
  UNPROTECT(1);
  return holder;
}

static SEXP no_memory(size_t bytes) {
  fmc_context context = {.message = "cannot allocate the memory for the sums", .bytes = bytes};
  return ffi_failure(FMC_ERROR_MEMORY, &context);
}

/* plan: list(cumulative, mean, factor, df or NULL, full, groups), as core/draw_point.h has them. */
static void ffi_drawing(SEXP plan, size_t n_dim, fmc_drawing *drawing) {
  SEXP df = VECTOR_ELT(plan, 3), groups = VECTOR_ELT(plan, 5);
  size_t n_bounds = (size_t)XLENGTH(groups), *group = (size_t *)R_alloc(n_bounds, sizeof *group);
  for (size_t g = 0; g < n_bounds; g++)
    group[g] = (size_t)REAL_RO(groups)[g];
  drawing->n_dim = n_dim;
  drawing->count = group[n_bounds - 1];
  drawing->full = Rf_asLogical(VECTOR_ELT(plan, 4));
  drawing->cumulative = REAL_RO(VECTOR_ELT(plan, 0));
  drawing->mean = REAL_RO(VECTOR_ELT(plan, 1));
  drawing->factor = REAL_RO(VECTOR_ELT(plan, 2));
  drawing->df = Rf_isNull(df) ? NULL : REAL_RO(df);
  drawing->n_groups = n_bounds - 1;
  drawing->group = group;
}

/* A matrix with a column per node; R names the rows. */
static SEXP nodes_of(const fmc_is_summary *summary) {
  size_t width = fmc_is_summary_width(summary), n = fmc_is_summary_n_nodes(summary);
  SEXP nodes = Rf_allocMatrix(REALSXP, (int)width, (int)n);
  memcpy(REAL(nodes), fmc_is_summary_nodes(summary), width * n * sizeof(double));
  return nodes;
}

static SEXP tail_of(fmc_is_summary *summary, size_t n_tail) {
  SEXP all = PROTECT(Rf_allocVector(REALSXP, (R_xlen_t)n_tail));
  size_t n = fmc_is_summary_tail(summary, REAL(all));
  SEXP tail = Rf_xlengthgets(all, (R_xlen_t)n);
  UNPROTECT(1);
  return tail;
}

/* size: c(n, n_dim, seed, offset, n_tail). samples (a matrix, or the pointer to one on the GPU), drawing: at most one
 * is not NULL. target, proposal: nodes; or log_weights; or neither, and only draws are made. moments: list(which, as in
 * core/weighted_sums.h; shift). keep: whether draws and log weights are wanted. All checked in R. */
SEXP ffi_importance(SEXP size, SEXP samples, SEXP drawing, SEXP target, SEXP proposal, SEXP log_weights, SEXP moments,
                    SEXP keep, SEXP single, SEXP run) {
  const double *sizes = REAL_RO(size);
  size_t n = (size_t)sizes[0], n_dim = (size_t)sizes[1], n_tail = (size_t)sizes[4];
  int from_densities = !Rf_isNull(target), weighed = from_densities || !Rf_isNull(log_weights);
  int keep_draws = LOGICAL_RO(keep)[0], keep_log_weights = LOGICAL_RO(keep)[1];
  fmc_context context;
  fmc_density densities[2];
  fmc_drawing from;
  fmc_is_job job = {.n = n,
                    .n_dim = n_dim,
                    .seed = (uint64_t)sizes[2],
                    .offset = (uint64_t)sizes[3],
                    .samples = Rf_isNull(samples) || ffi_resident(samples) ? NULL : REAL_RO(samples),
                    .resident = ffi_resident(samples),
                    .given_log_weights = Rf_isNull(log_weights) ? NULL : REAL_RO(log_weights),
                    .single_precision = Rf_asLogical(single),
                    .moments = Rf_asInteger(VECTOR_ELT(moments, 0)),
                    .shift = REAL_RO(VECTOR_ELT(moments, 1))};
  ffi_context(run, &context);
  if (!Rf_isNull(drawing)) {
    ffi_drawing(drawing, n_dim, &from);
    job.drawing = &from;
  }
  if (from_densities) {
    ffi_density(target, n_dim, job.single_precision, &densities[0]);
    ffi_density(proposal, n_dim, job.single_precision, &densities[1]);
    job.target = &densities[0];
    job.proposal = &densities[1];
  }
  SEXP draws = PROTECT(keep_draws ? Rf_allocMatrix(REALSXP, (int)n, (int)n_dim) : R_NilValue);
  SEXP kept = PROTECT(keep_log_weights ? Rf_allocVector(REALSXP, (R_xlen_t)n) : R_NilValue);
  job.draws = keep_draws ? REAL(draws) : NULL;
  job.log_weights = keep_log_weights ? REAL(kept) : NULL;
  size_t n_columns = n_dim + fmc_n_moments(n_dim, job.moments);
  fmc_is_summary *summary;
  SEXP holder = PROTECT(new_summary(n_columns, n_tail, &summary));
  if (!summary) {
    UNPROTECT(3);
    return no_memory(fmc_is_summary_bytes(n_columns, n_tail));
  }
  job.summary = weighed ? summary : NULL;
  fmc_status status = ffi_backend(run)->is_weights(&job, &context);
  if (status != FMC_OK) {
    finalize_summary(holder);
    UNPROTECT(3);
    return ffi_failure(status, &context);
  }
  static const char *const names[] = {"nodes", "tail", "draws", "log_weights", "first_bad"};
  SEXP values[] = {PROTECT(nodes_of(summary)), PROTECT(tail_of(summary, n_tail)), draws, kept,
                   PROTECT(Rf_ScalarReal(job.first_bad == FMC_NO_SAMPLE ? NA_REAL : (double)job.first_bad))};
  finalize_summary(holder);
  SEXP list = ffi_list(5, names, values);
  UNPROTECT(6);
  return list;
}

/* Columns of a matrix of nodes, in rising order of tiles, pushed into a new summary. */
static SEXP pushed(SEXP nodes, fmc_is_summary **summary) {
  size_t width = (size_t)Rf_nrows(nodes), n = (size_t)Rf_ncols(nodes);
  SEXP holder = PROTECT(new_summary(width - FMC_SUMMARY_COLUMNS, 0, summary));
  for (size_t k = 0; *summary && k < n; k++)
    if (!fmc_is_summary_push(*summary, REAL_RO(nodes) + k * width)) {
      finalize_summary(holder);
      *summary = NULL;
    }
  UNPROTECT(1);
  return holder;
}

/* Nodes joined where they can be. */
SEXP ffi_join_nodes(SEXP nodes) {
  fmc_is_summary *summary;
  SEXP holder = PROTECT(pushed(nodes, &summary));
  if (!summary) {
    UNPROTECT(1);
    return no_memory((size_t)XLENGTH(nodes) * sizeof(double));
  }
  SEXP joined = nodes_of(summary);
  finalize_summary(holder);
  UNPROTECT(1);
  return joined;
}

/* All nodes joined, a row of core/weighted_sums.h. */
SEXP ffi_total_nodes(SEXP nodes) {
  SEXP total = PROTECT(Rf_allocVector(REALSXP, Rf_nrows(nodes)));
  fmc_is_summary *summary;
  SEXP holder = PROTECT(pushed(nodes, &summary));
  if (summary)
    fmc_is_summary_total(summary, REAL(total));
  SEXP result = summary ? total : no_memory((size_t)XLENGTH(nodes) * sizeof(double));
  if (summary)
    finalize_summary(holder);
  UNPROTECT(2);
  return result;
}
