#include <pthread.h>
#include <string.h>
#include <sys/time.h>

#include "core/core.h"
#include "ffi.h"

#define MAX_PARTS 64
#define SECONDS_PER_SLAB 0.3 /* of a run in parts, which cannot be interrupted within one */

/* Contiguous chains that one backend runs. */
typedef struct {
  const fmc_backend *backend;
  fmc_density target;
  fmc_context context;
  fmc_mh_run_job job;
  fmc_status status;
} run_part;

static SEXP progress_function = NULL;
static int (*asked)(void); /* R's interrupt, as other calls look for it */
static int failed;         /* the progress function ended early: Ctrl-C fell into it */

static int interrupted(void) { return failed || asked(); }

static void tell_progress(size_t n_done) {
  SEXP call = PROTECT(Rf_lang2(progress_function, PROTECT(Rf_ScalarReal((double)n_done))));
  int ended_early;
  R_tryEvalSilent(call, R_GlobalEnv, &ended_early);
  failed |= ended_early;
  UNPROTECT(2);
}

static int never(void) { return 0; }
static void nothing(void) {}

static void *run_part_in_thread(void *what) {
  run_part *part = (run_part *)what;
  part->status = part->backend->mh_run(&part->job, &part->context);
  return NULL;
}

/* The part's chains, first .. first + n - 1 of the whole. */
static void narrow(fmc_mh_run_job *job, size_t first, size_t n) {
  job->n_chains = n;
  job->chain_offset += first;
  job->x += first;
  job->log_density += first;
  job->n_accepted += first;
  if (job->draws)
    job->draws += job->n_draws * first;
  if (job->sums)
    job->sums += first;
}

/* A slab of steps of all parts, each in a thread of its own. `range` of a part is its own while it runs. */
static fmc_status run_slab(const fmc_mh_run_job *whole, run_part *part, int n_parts, const double *sizes,
                           double *ranges, fmc_context *context) {
  pthread_t thread[MAX_PARTS];
  int started[MAX_PARTS];
  size_t first = 0, n_dim = whole->n_dim;
  for (int p = 0; p < n_parts; p++) {
    part[p].job = *whole;
    part[p].job.target = &part[p].target;
    narrow(&part[p].job, first, (size_t)sizes[p]);
    first += (size_t)sizes[p];
    if (whole->sums) {
      part[p].job.range = ranges + (size_t)p * 2 * n_dim;
      memcpy(part[p].job.range, whole->range, 2 * n_dim * sizeof(double));
    }
    started[p] = pthread_create(&thread[p], NULL, run_part_in_thread, &part[p]) == 0;
    if (!started[p])
      run_part_in_thread(&part[p]);
  }
  fmc_status status = FMC_OK;
  for (int p = 0; p < n_parts; p++) {
    if (started[p])
      pthread_join(thread[p], NULL);
    if (part[p].status != FMC_OK && status == FMC_OK) {
      status = part[p].status;
      memcpy(context->message, part[p].context.message, sizeof context->message);
      context->bytes = part[p].context.bytes;
    }
  }
  return status;
}

static void join_part(fmc_mh_run_job *whole, const fmc_mh_run_job *part, size_t first) {
  fmc_not_finite bad = part->not_finite;
  bad.row += first;
  fmc_join_not_finite(&whole->not_finite, &bad);
  for (size_t d = 0; whole->sums && d < whole->n_dim; d++) {
    double *range = whole->range + 2 * d;
    range[0] = part->range[2 * d] < range[0] ? part->range[2 * d] : range[0];
    range[1] = part->range[2 * d + 1] > range[1] ? part->range[2 * d + 1] : range[1];
  }
}

static double now(void) {
  struct timeval t;
  gettimeofday(&t, NULL);
  return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

/* Slabs grow until one takes SECONDS_PER_SLAB. All parts have done the same steps when a slab ends. */
static fmc_status run_in_parts(fmc_mh_run_job *job, run_part *part, int n_parts, const double *sizes,
                               fmc_context *context) {
  fmc_status status = FMC_OK;
  double *ranges = (double *)R_alloc((size_t)n_parts * 2 * job->n_dim, sizeof(double));
  size_t steps = 1;
  fmc_mh_run_job slab = *job;
  for (job->n_done = 0; job->n_done < job->n_steps && status == FMC_OK;) {
    double start = now();
    if (job->n_done > 0 && context->interrupted())
      return FMC_ERROR_INTERRUPTED;
    slab.n_steps = steps < job->n_steps - job->n_done ? steps : job->n_steps - job->n_done;
    slab.first_step = job->first_step + (uint32_t)job->n_done;
    slab.n_before = job->n_before + (job->since + job->n_done) / job->thin;
    slab.since = (job->since + job->n_done) % job->thin;
    if (job->draws)
      slab.draws = job->draws + slab.n_before / job->store - job->n_before / job->store;
    status = run_slab(&slab, part, n_parts, sizes, ranges, context);
    size_t first = 0;
    for (int p = 0; p < n_parts && status == FMC_OK; p++) {
      join_part(job, &part[p].job, first);
      first += (size_t)sizes[p];
    }
    job->n_done += slab.n_steps;
    if (now() - start < SECONDS_PER_SLAB / 2)
      steps *= 2;
    if (context->progress)
      context->progress(job->n_done);
  }
  return status;
}

static SEXP copy_of(SEXP x) { return Rf_isNull(x) ? R_NilValue : Rf_duplicate(x); }

/* x, log_density: the state; targets: nodes for each part; plan: c(seed, first step, chain offset, n_steps, thin,
 * store, n_before, since); sums: NULL or list(sums, shift, range, batch); progress: a function or NULL; parts:
 * list(runs, sizes), a run and a number of chains for each part. All checked in R; there is at least one chain and one
 * step. */
SEXP ffi_mh_run(SEXP x, SEXP log_density, SEXP targets, SEXP step_size, SEXP plan, SEXP sums, SEXP single,
                SEXP progress, SEXP parts) {
  SEXP runs = VECTOR_ELT(parts, 0);
  const double *sizes = REAL_RO(VECTOR_ELT(parts, 1)), *number = REAL_RO(plan);
  int n_parts = (int)XLENGTH(runs), n_chains = Rf_nrows(x), n_dim = Rf_ncols(x), has_sums = !Rf_isNull(sums);
  int cholesky = Rf_isMatrix(step_size);
  size_t thin = (size_t)number[4], store = (size_t)number[5], n_before = (size_t)number[6], since = (size_t)number[7];
  size_t n_kept = n_before + (since + (size_t)number[3]) / thin;
  size_t n_draws = store ? n_kept / store - n_before / store : 0;
  fmc_context context;
  run_part part[MAX_PARTS];
  memset(part, 0, sizeof part);
  if (n_parts > MAX_PARTS)
    Rf_error("a run has %d parts, at most %d are possible", n_parts, MAX_PARTS);
  ffi_context(VECTOR_ELT(runs, 0), &context);
  for (int p = 0; p < n_parts; p++) {
    ffi_density(VECTOR_ELT(targets, p), (size_t)n_dim, Rf_asLogical(single), &part[p].target);
    ffi_context(VECTOR_ELT(runs, p), &part[p].context);
    part[p].backend = ffi_backend(VECTOR_ELT(runs, p));
    part[p].context.interrupted = never; /* R's functions are for R's thread */
    part[p].context.reclaim = nothing;
  }
  if (!Rf_isNull(progress)) {
    progress_function = progress;
    context.progress = tell_progress;
    asked = context.interrupted;
    context.interrupted = interrupted;
    failed = 0;
  }

  SEXP dims = PROTECT(Rf_allocVector(INTSXP, 3));
  INTEGER(dims)[0] = (int)n_draws;
  INTEGER(dims)[1] = n_chains;
  INTEGER(dims)[2] = n_dim;
  SEXP draws = PROTECT(store ? Rf_allocArray(REALSXP, dims) : R_NilValue);
  SEXP x_new = PROTECT(Rf_duplicate(x)), log_density_new = PROTECT(Rf_duplicate(log_density));
  SEXP n_accepted = PROTECT(Rf_allocVector(REALSXP, n_chains));
  SEXP sums_new = PROTECT(has_sums ? copy_of(VECTOR_ELT(sums, 0)) : R_NilValue);
  SEXP range = PROTECT(has_sums ? copy_of(VECTOR_ELT(sums, 2)) : R_NilValue);
  memset(REAL(n_accepted), 0, (size_t)n_chains * sizeof(double));
  fmc_mh_run_job job = {
      .n_chains = (size_t)n_chains,
      .n_dim = (size_t)n_dim,
      .stride = (size_t)n_chains,
      .step_size = cholesky ? ffi_factor_rows(REAL_RO(step_size), (size_t)n_dim) : REAL_RO(step_size),
      .cholesky = cholesky,
      .seed = (uint64_t)number[0],
      .chain_offset = (uint64_t)number[2],
      .first_step = (uint32_t)number[1],
      .n_steps = (size_t)number[3],
      .thin = thin,
      .n_before = n_before,
      .since = since,
      .single_precision = Rf_asLogical(single),
      .target = &part[0].target,
      .x = REAL(x_new),
      .log_density = REAL(log_density_new),
      .n_accepted = REAL(n_accepted),
      .draws = store && n_draws > 0 ? REAL(draws) : NULL,
      .store = store ? store : 1,
      .n_draws = n_draws,
      .sums = has_sums ? REAL(sums_new) : NULL,
      .shift = has_sums ? REAL_RO(VECTOR_ELT(sums, 1)) : NULL,
      .range = has_sums ? REAL(range) : NULL,
      .batch = has_sums ? (size_t)Rf_asReal(VECTOR_ELT(sums, 3)) : 1,
  };
  fmc_status status =
      n_parts == 1 ? part[0].backend->mh_run(&job, &context) : run_in_parts(&job, part, n_parts, sizes, &context);
  if (status != FMC_OK && status != FMC_ERROR_INTERRUPTED) {
    UNPROTECT(7);
    return ffi_failure(status, &context);
  }
  SEXP bad = PROTECT(Rf_allocVector(REALSXP, 3));
  REAL(bad)[0] = job.not_finite.n;
  REAL(bad)[1] = job.not_finite.n > 0 ? job.not_finite.step : NA_REAL;
  REAL(bad)[2] = job.not_finite.n > 0 ? (double)job.not_finite.row + 1 : NA_REAL;
  static const char *const names[] = {"x",    "log_density", "n_accepted", "not_finite", "draws",
                                      "sums", "range",       "n_done",     "interrupted"};
  SEXP values[] = {x_new,
                   log_density_new,
                   n_accepted,
                   bad,
                   draws,
                   sums_new,
                   range,
                   PROTECT(Rf_ScalarReal((double)job.n_done)),
                   PROTECT(Rf_ScalarLogical(status == FMC_ERROR_INTERRUPTED))};
  SEXP list = ffi_list(9, names, values);
  UNPROTECT(10);
  return list;
}
