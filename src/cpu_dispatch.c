#include "cpu_dispatch.h"

#include <string.h>

#include "core/core.h"

/* By falling width. */
static const fmc_cpu_kernels *const builds[] = {
#ifdef FMC_HAVE_AVX512
    &fmc_cpu_kernels_avx512,
#endif
#ifdef FMC_HAVE_AVX2
    &fmc_cpu_kernels_avx2,
#endif
    &fmc_cpu_kernels_baseline,
};

static int processor_has(const char *level) {
#ifdef FMC_HAVE_AVX512
  if (!strcmp(level, "avx512"))
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
#endif
#ifdef FMC_HAVE_AVX2
  if (!strcmp(level, "avx2"))
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
  return !strcmp(level, "baseline");
}

static const fmc_cpu_kernels *chosen = NULL; /* written by R's thread alone */

const fmc_cpu_kernels *fmc_cpu_kernels_now(void) {
  for (size_t k = 0; !chosen && k < sizeof builds / sizeof *builds; k++)
    if (processor_has(builds[k]->level))
      chosen = builds[k];
  return chosen;
}

int fmc_cpu_use(const char *level) {
  for (size_t k = 0; k < sizeof builds / sizeof *builds; k++)
    if (!strcmp(builds[k]->level, level) && processor_has(level)) {
      chosen = builds[k];
      return 1;
    }
  return 0;
}

static size_t real_size(int single_precision) { return single_precision ? sizeof(float) : sizeof(double); }

size_t fmc_cpu_mh_scratch(const fmc_mh_step_job *job) {
  return 2 * job->n_dim * FMC_STRIP * real_size(job->single_precision); /* the strip and its proposals */
}

size_t fmc_cpu_run_scratch(const fmc_mh_run_job *job) {
  size_t column = job->n_dim * FMC_STRIP;
  size_t doubles = (job->sums ? FMC_N_SUMS * column : 0) + (job->draws ? FMC_WAITING_DRAWS * column : 0);
  return doubles * sizeof(double) + 2 * column * real_size(job->single_precision);
}

size_t fmc_cpu_is_scratch(const fmc_is_job *job) {
  size_t strip = job->n_dim * FMC_STRIP * real_size(job->single_precision);
  size_t tile = (2 * FMC_TILE + FMC_TILE_LANES) * sizeof(double); /* weights, scales and factors */
  return strip > tile ? strip : tile;
}

size_t fmc_cpu_log_density_scratch(const fmc_log_density_job *job) {
  return job->n_dim * FMC_STRIP * real_size(job->single_precision);
}
