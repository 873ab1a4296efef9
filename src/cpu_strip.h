/* A strip of chains or samples on the CPU. Template over REAL.
 *
 * A strip's columns are gathered into scratch first: R's columns lie n_chains apart, and many of them would fight for
 * the same few cache sets. */

/* Columns of a strip, converted. A strip that is not full is filled up with its last row. */
static inline void T(gather)(const double *matrix, size_t n_rows, size_t n_dim, size_t first, size_t n, REAL *strip) {
  for (size_t d = 0; d < n_dim; d++) {
    const double *from = matrix + d * n_rows + first;
    REAL *to = strip + d * FMC_STRIP;
    PREFETCH_STRIP(from + FMC_STRIP, 0);
    FMC_SIMD
    for (size_t i = 0; i < n; i++)
      to[i] = (REAL)from[i];
    for (size_t i = n; i < FMC_STRIP; i++)
      to[i] = to[n - 1];
  }
}

/* Noise of a whole strip from the generator, always FMC_STRIP chains wide. */
static inline void T(draw_noise)(const fmc_mh_step_job *job, size_t first, REAL *noise) {
  uint64_t word[FMC_BLOCK][FMC_STRIP];
  float z[FMC_STRIP];
  for (size_t d = 0; d < job->n_dim; d++) {
    if (d % FMC_BLOCK == 0)
      noise_words(job->seed, job->step, (uint32_t)(d / FMC_BLOCK), job->chain_offset + first, word);
    noise_normals(word[d % FMC_BLOCK], z);
    FMC_SIMD
    for (int i = 0; i < FMC_STRIP; i++)
      noise[d * FMC_STRIP + i] = z[i];
  }
}

/* From noise to proposals, in place. For a Cholesky factor (L z)_i needs z_0 .. z_i only, so i falls. */
static inline void T(propose_strip)(const fmc_mh_step_job *job, const REAL *x, REAL *z) {
  size_t n_dim = job->n_dim;
  for (size_t d = n_dim; d-- > 0;) {
    const REAL *xd = x + d * FMC_STRIP;
    REAL *zd = z + d * FMC_STRIP;
    if (!job->cholesky) {
      REAL step_size = (REAL)job->step_size[d];
      FMC_SIMD
      for (int i = 0; i < FMC_STRIP; i++)
        zd[i] = T(fmc_propose)(xd[i], step_size, zd[i]);
      continue;
    }
    const double *row = job->step_size + d * n_dim;
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

static void T(mh_strip)(const fmc_mh_step_job *job, const void *target, size_t first, size_t n, void *scratch) {
  const T(fmc_density) *density = (const T(fmc_density) *)target;
  size_t n_chains = job->n_chains, n_dim = job->n_dim;
  REAL *x = (REAL *)scratch, *proposal = x + n_dim * FMC_STRIP;
  REAL log_density_old[FMC_STRIP], log_density_new[FMC_STRIP], log_u[FMC_STRIP];
  int accepted[FMC_STRIP];

  T(gather)(job->x, n_chains, n_dim, first, n, x);
  if (job->noise)
    T(gather)(job->noise, n_chains, n_dim, first, n, proposal);
  else
    T(draw_noise)(job, first, proposal);
  T(propose_strip)(job, x, proposal);

  /* Whole strips even at the end: what is computed past n is dropped. */
  T(fmc_log_density)(density, x, FMC_STRIP, FMC_STRIP, log_density_old);
  T(fmc_log_density)(density, proposal, FMC_STRIP, FMC_STRIP, log_density_new);

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
    const REAL *xd = x + d * FMC_STRIP, *pd = proposal + d * FMC_STRIP;
    double *to = job->x_new + d * n_chains + first;
    PREFETCH_STRIP(to + FMC_STRIP, 1);
    FMC_SIMD
    for (size_t i = 0; i < n; i++) {
      double stay = xd[i], go = pd[i];
      to[i] = accepted[i] == FMC_ACCEPTED ? go : stay;
    }
  }
}

static void T(log_weights)(const fmc_is_job *job, const void *target, const void *proposal, size_t first, size_t n,
                           double *log_weights, void *scratch) {
  REAL *x = (REAL *)scratch, log_p[FMC_STRIP], log_q[FMC_STRIP];
  for (size_t done = 0; done < n; done += FMC_STRIP) {
    size_t width = n - done < FMC_STRIP ? n - done : FMC_STRIP;
    T(gather)(job->samples, job->n, job->n_dim, first + done, width, x);
    T(fmc_log_density)((const T(fmc_density) *)target, x, FMC_STRIP, FMC_STRIP, log_p);
    T(fmc_log_density)((const T(fmc_density) *)proposal, x, FMC_STRIP, FMC_STRIP, log_q);
    for (size_t i = 0; i < width; i++)
      log_weights[done + i] = log_p[i] - log_q[i];
  }
}
