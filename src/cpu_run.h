/* Many steps of a strip on the CPU, whose states stay in the cache meanwhile. Template over REAL. */

/* A strip's part of the job while its steps are taken. Columns of FMC_STRIP numbers, one after the other. */
typedef struct {
  size_t first, n;
  REAL *x, *proposal, log_density[FMC_STRIP];
  double *sums;  /* [FMC_N_SUMS][n_dim][FMC_STRIP] */
  double *draws; /* [FMC_WAITING_DRAWS][n_dim][FMC_STRIP] */
  size_t n_waiting, first_waiting;
  int n_accepted[FMC_STRIP];
} T(run_state);

static inline void T(copy_sums)(const fmc_mh_run_job *job, T(run_state) * s, int back) {
  size_t n_all = job->stride * job->n_dim;
  for (size_t which = 0; which < FMC_N_SUMS; which++)
    for (size_t d = 0; d < job->n_dim; d++) {
      double *there = job->sums + which * n_all + d * job->stride + s->first;
      double *here = s->sums + (which * job->n_dim + d) * FMC_STRIP;
      if (back)
        memcpy(there, here, s->n * sizeof(double));
      else
        for (size_t i = 0; i < FMC_STRIP; i++)
          here[i] = i < s->n ? there[i] : 0;
    }
}

static inline void T(add_to_sums)(const fmc_mh_run_job *job, T(run_state) * s, int batch_ends, double *range) {
  size_t column = job->n_dim * FMC_STRIP;
  for (size_t d = 0; d < job->n_dim; d++) {
    const REAL *x = s->x + d * FMC_STRIP;
    double *batch = s->sums + d * FMC_STRIP, *total = batch + column, *squares = total + column;
    double *batch_squares = squares + column, shift = job->shift[d];
    FMC_SIMD
    for (int i = 0; i < FMC_STRIP; i++)
      fmc_chain_add((double)x[i], shift, &batch[i], &squares[i]);
    if (batch_ends) {
      FMC_SIMD
      for (int i = 0; i < FMC_STRIP; i++)
        fmc_chain_end_batch(&batch[i], &total[i], &batch_squares[i]);
    }
    double least = range[2 * d], most = range[2 * d + 1];
    for (size_t i = 0; i < s->n; i++) {
      least = x[i] < least ? x[i] : least;
      most = x[i] > most ? x[i] : most;
    }
    range[2 * d] = least;
    range[2 * d + 1] = most;
  }
}

static inline void T(store_waiting)(const fmc_mh_run_job *job, T(run_state) * s) {
  for (size_t d = 0; d < job->n_dim; d++)
    for (size_t i = 0; i < s->n; i++) {
      double *to = job->draws + s->first_waiting + job->n_draws * (s->first + i + job->stride * d);
      for (size_t k = 0; k < s->n_waiting; k++)
        to[k] = s->draws[(k * job->n_dim + d) * FMC_STRIP + i];
    }
  s->first_waiting += s->n_waiting;
  s->n_waiting = 0;
}

static inline void T(keep_state)(const fmc_mh_run_job *job, T(run_state) * s, size_t kept, double *range) {
  if (job->sums)
    T(add_to_sums)(job, s, kept % job->batch == 0, range);
  if (!job->draws || kept % job->store != 0)
    return;
  double *to = s->draws + s->n_waiting * job->n_dim * FMC_STRIP;
  FMC_SIMD
  for (size_t k = 0; k < job->n_dim * FMC_STRIP; k++)
    to[k] = s->x[k];
  if (++s->n_waiting == FMC_WAITING_DRAWS)
    T(store_waiting)(job, s);
}

/* One step. */
static inline void T(advance)(const fmc_mh_step_job *step, const void *target, T(run_state) * s, fmc_not_finite *bad) {
  REAL log_new[FMC_STRIP], log_u[FMC_STRIP];
  int accepted[FMC_STRIP];
  T(propose_strip)(step, s->first, s->n, s->x, s->proposal);
  T(log_density_strip)(target, s->proposal, log_new);
  FMC_SIMD
  for (int i = 0; i < FMC_STRIP; i++)
    log_u[i] = T(fmc_log_uniform)(step->seed, step->step, step->chain_offset + s->first + (uint64_t)i);
  FMC_SIMD
  for (int i = 0; i < FMC_STRIP; i++) {
    accepted[i] = T(fmc_accept)(s->log_density[i], log_new[i], log_u[i]);
    s->log_density[i] = accepted[i] == FMC_ACCEPTED ? log_new[i] : s->log_density[i];
    s->n_accepted[i] += accepted[i] == FMC_ACCEPTED;
  }
  for (size_t d = 0; d < step->n_dim; d++) {
    REAL *x = s->x + d * FMC_STRIP;
    const REAL *proposal = s->proposal + d * FMC_STRIP;
    FMC_SIMD
    for (int i = 0; i < FMC_STRIP; i++)
      x[i] = accepted[i] == FMC_ACCEPTED ? proposal[i] : x[i];
  }
  for (size_t i = 0; i < s->n; i++)
    if (accepted[i] == FMC_PROPOSAL_NOT_FINITE) {
      fmc_not_finite this = {1, step->step, s->first + i};
      fmc_join_not_finite(bad, &this);
    }
}

/* Steps from .. to - 1 of the job for chains first .. first + n - 1. */
static void T(run_strip)(const fmc_mh_run_job *job, const void *target, size_t first, size_t n, size_t from, size_t to,
                         fmc_not_finite *bad, double *range, void *scratch) {
  size_t column = job->n_dim * FMC_STRIP, n_kept = job->n_before + (job->since + from) / job->thin;
  T(run_state) s;
  fmc_mh_step_job step = {.n_chains = job->n_chains,
                          .n_dim = job->n_dim,
                          .step_size = job->step_size,
                          .cholesky = job->cholesky,
                          .seed = job->seed,
                          .chain_offset = job->chain_offset};
  memset(&s, 0, sizeof s);
  s.first = first;
  s.n = n;
  s.sums = (double *)scratch;
  s.draws = s.sums + (job->sums ? FMC_N_SUMS * column : 0);
  s.x = (REAL *)(s.draws + (job->draws ? FMC_WAITING_DRAWS * column : 0));
  s.proposal = s.x + column;
  s.first_waiting = job->draws ? n_kept / job->store - job->n_before / job->store : 0;
  T(gather)(job->x, job->stride, job->n_dim, first, n, s.x);
  for (size_t i = 0; i < FMC_STRIP; i++)
    s.log_density[i] = (REAL)job->log_density[first + (i < n ? i : n - 1)];
  if (job->sums)
    T(copy_sums)(job, &s, 0);

  for (size_t t = from; t < to; t++) {
    step.step = job->first_step + (uint32_t)t;
    T(advance)(&step, target, &s, bad);
    if ((job->since + t + 1) % job->thin == 0)
      T(keep_state)(job, &s, ++n_kept, range);
  }

  if (s.n_waiting > 0)
    T(store_waiting)(job, &s);
  if (job->sums)
    T(copy_sums)(job, &s, 1);
  for (size_t i = 0; i < n; i++) {
    job->log_density[first + i] = s.log_density[i];
    job->n_accepted[first + i] += s.n_accepted[i];
  }
  for (size_t d = 0; d < job->n_dim; d++)
    for (size_t i = 0; i < n; i++)
      job->x[d * job->stride + first + i] = s.x[d * FMC_STRIP + i];
}
