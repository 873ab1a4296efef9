/* A strip of chains or samples on the CPU. Template over REAL.
 *
 * A strip's columns are gathered into scratch first: R's columns lie n_chains apart, and many of them would fight for
 * the same few cache sets. */

/* Columns of a strip, converted. A strip that is not full is filled up with its last row. */
static inline void T(gather)(const double *matrix, size_t n_rows, size_t n_dim, size_t first, size_t n, REAL *strip) {
  for (size_t d = 0; d < n_dim; d++) {
    const double *from = matrix + d * n_rows + first;
    REAL *to = strip + d * FMC_STRIP;
    prefetch_strip(from + FMC_STRIP);
    if (n == FMC_STRIP) { /* a loop of known length needs no counting */
      FMC_SIMD
      for (int i = 0; i < FMC_STRIP; i++)
        to[i] = (REAL)from[i];
      continue;
    }
    for (size_t i = 0; i < FMC_STRIP; i++)
      to[i] = (REAL)from[i < n ? i : n - 1];
  }
}

static inline void T(propose_dim)(REAL step_size, const REAL *x, const REAL *z, REAL *proposal) {
  FMC_SIMD
  for (int i = 0; i < FMC_STRIP; i++)
    proposal[i] = T(fmc_propose)(x[i], step_size, z[i]);
}

/* From the generator, always FMC_STRIP chains wide: proposals, or with a Cholesky factor the noise. */
static inline void T(draw_strip)(const fmc_mh_step_job *job, size_t first, const REAL *x, REAL *out) {
  uint64_t word[FMC_BLOCK][FMC_STRIP];
  float z[FMC_BLOCK][FMC_STRIP];
  REAL noise[FMC_STRIP];
  for (size_t d = 0; d < job->n_dim; d++) {
    if (d % FMC_BLOCK == 0) {
      noise_words(job->seed, FMC_PURPOSE_NOISE, job->step, (uint32_t)(d / FMC_BLOCK), job->chain_offset + first, word);
      noise_normals(word, z);
    }
    FMC_SIMD
    for (int i = 0; i < FMC_STRIP; i++)
      noise[i] = z[d % FMC_BLOCK][i];
    if (job->cholesky)
      memcpy(out + d * FMC_STRIP, noise, sizeof noise);
    else
      T(propose_dim)((REAL)job->step_size[d], x + d * FMC_STRIP, noise, out + d * FMC_STRIP);
  }
}

/* From noise to proposals by a Cholesky factor, in place: (L z)_i needs z_0 .. z_i only, so i falls. */
static inline void T(move_by_factor)(const fmc_mh_step_job *job, const REAL *x, REAL *z) {
  size_t n_dim = job->n_dim;
  for (size_t d = n_dim; d-- > 0;) {
    const double *row = job->step_size + d * n_dim;
    const REAL *xd = x + d * FMC_STRIP;
    REAL *zd = z + d * FMC_STRIP;
    REAL move[FMC_STRIP];
    FMC_SIMD
    for (int i = 0; i < FMC_STRIP; i++)
      move[i] = (REAL)row[0] * z[i];
    for (size_t j = 1; j <= d; j++) {
      REAL factor = (REAL)row[j];
      const REAL *zj = z + j * FMC_STRIP;
      FMC_SIMD
      for (int i = 0; i < FMC_STRIP; i++)
        move[i] = move[i] + factor * zj[i];
    }
    FMC_SIMD
    for (int i = 0; i < FMC_STRIP; i++)
      zd[i] = xd[i] + move[i];
  }
}

/* Proposals of a strip, from the generator or from given noise. */
static inline void T(propose_strip)(const fmc_mh_step_job *job, size_t first, size_t n, const REAL *x, REAL *proposal) {
  if (job->noise) {
    T(gather)(job->noise, job->n_chains, job->n_dim, first, n, proposal);
    for (size_t d = 0; d < job->n_dim && !job->cholesky; d++)
      T(propose_dim)
    ((REAL)job->step_size[d], x + d * FMC_STRIP, proposal + d * FMC_STRIP, proposal + d * FMC_STRIP);
  } else {
    T(draw_strip)(job, first, x, proposal);
  }
  if (job->cholesky)
    T(move_by_factor)(job, x, proposal);
}

/* The new state of one dim: the proposal where it was accepted. */
static inline void T(select_dim)(const int *accepted, const REAL *x, const REAL *proposal, size_t n, double *out) {
  if (n == FMC_STRIP) {
    FMC_SIMD
    for (int i = 0; i < FMC_STRIP; i++)
      out[i] = accepted[i] == FMC_ACCEPTED ? proposal[i] : x[i];
  } else {
    for (size_t i = 0; i < n; i++)
      out[i] = accepted[i] == FMC_ACCEPTED ? proposal[i] : x[i];
  }
}

/* One copy of all leaves. Whole strips even at the end: what is computed past their last point is dropped. */
static __attribute__((noinline)) void T(log_density_strip)(const void *density, const REAL *x, REAL *out) {
  T(fmc_log_density)((const T(fmc_density) *)density, x, FMC_STRIP, FMC_STRIP, out);
}

/* Log densities of x and of the proposals, computed or given. */
static inline void T(target_strip)(const fmc_mh_step_job *job, const void *target, size_t first, size_t n,
                                   const REAL *x, const REAL *proposal, REAL *log_density_old, REAL *log_density_new) {
  if (target) {
    T(log_density_strip)(target, x, log_density_old);
    T(log_density_strip)(target, proposal, log_density_new);
    return;
  }
  for (size_t i = 0; i < n; i++) {
    log_density_old[i] = (REAL)job->given_old[first + i];
    log_density_new[i] = (REAL)job->given_new[first + i];
  }
}

static void T(mh_strip)(const fmc_mh_step_job *job, const void *target, size_t first, size_t n, void *scratch) {
  size_t n_chains = job->n_chains, n_dim = job->n_dim;
  REAL *x = (REAL *)scratch, *proposal = x + n_dim * FMC_STRIP;
  REAL log_density_old[FMC_STRIP], log_density_new[FMC_STRIP], log_u[FMC_STRIP];
  int accepted[FMC_STRIP];

  T(gather)(job->x, n_chains, n_dim, first, n, x);
  T(propose_strip)(job, first, n, x, proposal);

  if (!target && !job->given_old) {
    for (size_t d = 0; d < n_dim; d++)
      for (size_t i = 0; i < n; i++)
        job->x_new[d * n_chains + first + i] = proposal[d * FMC_STRIP + i];
    return;
  }
  T(target_strip)(job, target, first, n, x, proposal, log_density_old, log_density_new);

  if (job->u) {
    for (size_t i = 0; i < n; i++)
      log_u[i] = T(fmc_log_given_uniform)(job->u[first + i]);
  } else {
    FMC_SIMD
    for (int i = 0; i < FMC_STRIP; i++)
      log_u[i] = T(fmc_log_uniform)(job->seed, job->step, job->chain_offset + first + (uint64_t)i);
  }
  for (size_t i = 0; i < n; i++) {
    accepted[i] = T(fmc_accept)(log_density_old[i], log_density_new[i], log_u[i]);
    job->accepted[first + i] = accepted[i];
    job->log_alpha[first + i] = log_density_new[i] - log_density_old[i];
    job->log_density[first + i] = accepted[i] == FMC_ACCEPTED ? log_density_new[i] : log_density_old[i];
  }
  for (size_t d = 0; d < n_dim; d++) {
    double *to = job->x_new + d * n_chains + first;
    prefetch_strip_to_write(to + FMC_STRIP);
    T(select_dim)(accepted, x + d * FMC_STRIP, proposal + d * FMC_STRIP, n, to);
  }
}

static void T(log_density)(const fmc_log_density_job *job, const void *density, size_t first, size_t n, void *scratch) {
  REAL *x = (REAL *)scratch, out[FMC_STRIP];
  T(gather)(job->x, job->n, job->n_dim, first, n, x);
  T(log_density_strip)(density, x, out);
  for (size_t i = 0; i < n; i++)
    job->log_density[first + i] = out[i];
}
