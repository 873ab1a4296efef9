/* Many steps on the CPU: threads over strips, in slabs of steps between two looks for an interrupt. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_call.h"
#include "cpu_dispatch.h"

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num(void) { return 0; }
#endif

#define NS_PER_SLAB 5e7 /* for all threads together */

static size_t steps_per_slab(const fmc_mh_run_job *job, int n_threads, const fmc_context *context) {
  double slabs = context->cpu_ns / (NS_PER_SLAB * n_threads);
  size_t steps = slabs > 1 ? (size_t)((double)job->n_steps / slabs) : job->n_steps;
  return steps ? steps : 1;
}

fmc_status fmc_cpu_mh_run(fmc_mh_run_job *job, fmc_context *context) {
  const fmc_cpu_kernels *kernels = fmc_cpu_kernels_now();
  fmc_status status = FMC_OK;
  fmc_cpu_density target = {.owned = NULL};
  size_t n_strips = (job->n_chains + FMC_STRIP - 1) / FMC_STRIP;
  int n_threads = fmc_cpu_threads(n_strips, context);
  size_t bytes = fmc_cpu_padded(fmc_cpu_run_scratch(job)), per_slab = steps_per_slab(job, n_threads, context);
  fmc_not_finite *bad = calloc((size_t)n_threads, sizeof *bad);
  double *range = malloc((size_t)n_threads * job->n_dim * 2 * sizeof(double));
  char *scratch = malloc(bytes * (size_t)n_threads + FMC_CPU_LINE);

  job->n_done = 0;
  if (!bad || !range || !scratch || !fmc_cpu_density_new(job->target, job->single_precision, &target)) {
    status = fmc_cpu_out_of_memory(context, bytes * (size_t)n_threads);
    goto done;
  }
  for (size_t i = 0; i < (size_t)n_threads * job->n_dim; i++) {
    range[2 * i] = FMC_INF;
    range[2 * i + 1] = -FMC_INF;
  }
  for (size_t from = 0; from < job->n_steps; from += per_slab) {
    size_t to = from + per_slab < job->n_steps ? from + per_slab : job->n_steps;
    if (from > 0 && context->interrupted()) {
      status = fmc_cpu_interrupted(context);
      break;
    }
#ifdef _OPENMP
#pragma omp parallel for num_threads(n_threads) schedule(dynamic) if (n_threads > 1)
#endif
    for (size_t strip = 0; strip < n_strips; strip++) {
      size_t first = strip * FMC_STRIP, thread = (size_t)omp_get_thread_num();
      size_t n = job->n_chains - first < FMC_STRIP ? job->n_chains - first : FMC_STRIP;
      kernels->run_strip(job, &target, first, n, from, to, &bad[thread], range + thread * 2 * job->n_dim,
                         fmc_cpu_aligned(scratch) + bytes * thread);
    }
    job->n_done = to;
    if (context->progress)
      context->progress(to);
  }
  for (size_t t = 0; t < (size_t)n_threads; t++) {
    fmc_join_not_finite(&job->not_finite, &bad[t]);
    for (size_t d = 0; job->sums && d < job->n_dim; d++) {
      const double *r = range + (t * job->n_dim + d) * 2;
      job->range[2 * d] = r[0] < job->range[2 * d] ? r[0] : job->range[2 * d];
      job->range[2 * d + 1] = r[1] > job->range[2 * d + 1] ? r[1] : job->range[2 * d + 1];
    }
  }
done:
  free(target.owned);
  free(scratch);
  free(range);
  free(bad);
  return status;
}
