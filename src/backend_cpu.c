/* The CPU backend: threads over strips of chains or points. Each strip is computed whole by one thread, so the number
 * of threads changes nothing.
 *
 * Threads take work as it comes: one that wakes late, as they do after a pause, finds less left. Strips are taken in
 * runs that shrink, since a column's page holds 16 strips and threads that write to one page for the first time get in
 * each other's way: short runs throughout take 1.4 times as long. */
#include <stdlib.h>

#include "backend.h"
#include "core/core.h"
#include "cpu_call.h"
#include "cpu_dispatch.h"

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num(void) { return 0; }
#endif

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* What is done with rows first .. first + n - 1, n at most FMC_STRIP; `density` is NULL where the call has none. */
typedef void (*strip_function)(const void *job, const fmc_cpu_density *density, size_t first, size_t n, void *scratch);

/* All strips of n rows, each with `bytes` of scratch of its thread. */
static fmc_status over_strips(strip_function strip, const void *job, const fmc_density *density, int single_precision,
                              size_t n, size_t bytes, fmc_context *context) {
  fmc_status status = FMC_OK;
  fmc_cpu_density own = {.owned = NULL};
  size_t n_strips = (n + FMC_STRIP - 1) / FMC_STRIP;
  int n_threads = fmc_cpu_threads(n_strips, context);
  size_t per_look = fmc_cpu_parts_per_look(n_strips, n_threads, context);
  char *scratch = NULL;

  bytes = fmc_cpu_padded(bytes);
  scratch = malloc(bytes * (size_t)n_threads + FMC_CPU_LINE);
  if (!scratch || (density && !fmc_cpu_density_new(density, single_precision, &own))) {
    status = fmc_cpu_out_of_memory(context, bytes * (size_t)n_threads);
    goto done;
  }
  for (size_t start = 0; start < n_strips; start += per_look) {
    if (start > 0 && context->interrupted()) {
      status = fmc_cpu_interrupted(context);
      goto done;
    }
    size_t end = smaller(n_strips, start + per_look);
#ifdef _OPENMP
#pragma omp parallel for num_threads(n_threads) schedule(guided, 2) if (n_threads > 1)
#endif
    for (size_t s = start; s < end; s++)
      strip(job, density ? &own : NULL, s * FMC_STRIP, smaller(FMC_STRIP, n - s * FMC_STRIP),
            fmc_cpu_aligned(scratch) + bytes * (size_t)omp_get_thread_num());
  }
done:
  free(own.owned);
  free(scratch);
  return status;
}

static void mh_strip(const void *job, const fmc_cpu_density *target, size_t first, size_t n, void *scratch) {
  fmc_cpu_kernels_now()->mh_strip((const fmc_mh_step_job *)job, target, first, n, scratch);
}

static fmc_status mh_step(const fmc_mh_step_job *job, fmc_context *context) {
  fmc_cpu_kernels_now(); /* chosen before there are threads */
  return over_strips(mh_strip, job, job->target, job->single_precision, job->n_chains, fmc_cpu_mh_scratch(job),
                     context);
}

static void log_density_strip(const void *job, const fmc_cpu_density *density, size_t first, size_t n, void *scratch) {
  fmc_cpu_kernels_now()->log_density((const fmc_log_density_job *)job, density, first, n, scratch);
}

static fmc_status log_density(const fmc_log_density_job *job, fmc_context *context) {
  fmc_cpu_kernels_now();
  return over_strips(log_density_strip, job, job->density, job->single_precision, job->n,
                     fmc_cpu_log_density_scratch(job), context);
}

const fmc_backend fmc_backend_cpu = {"cpu", mh_step, fmc_cpu_is_weights, log_density, fmc_cpu_mh_run, fmc_cpu_resample};
