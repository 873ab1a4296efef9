/* The CPU backend: threads over strips of chains and tiles of samples. Each strip or tile is computed whole by one
 * thread, so the number of threads changes nothing.
 *
 * Threads take work as it comes: one that wakes late, as they do after a pause, finds less left. Strips are taken in
 * runs that shrink, since a column's page holds 16 strips and threads that write to one page for the first time get in
 * each other's way: short runs throughout take 1.4 times as long. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "core/core.h"
#include "cpu_call.h"
#include "cpu_dispatch.h"
#include "weighted.h"

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num(void) { return 0; }
#endif

/* Work of a thread, in nanoseconds, between two looks for an interrupt. */
#define NS_PER_LOOK 5e7
/* Samples whose log weights a thread computes at a time. */
#define SAMPLES_PER_PART (8 * FMC_STRIP)

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Parts between two looks, for all threads together, where the call falls into n_parts. */
static size_t parts_per_look(size_t n_parts, int n_threads, const fmc_context *context) {
  double looks = context->cpu_ns / ((double)n_threads * NS_PER_LOOK) + 1;
  return (size_t)((double)n_parts / looks) + (size_t)n_threads;
}

/* What is done with rows first .. first + n - 1, n at most FMC_STRIP; `density` is NULL where the call has none. */
typedef void (*strip_function)(const void *job, const fmc_cpu_density *density, size_t first, size_t n, void *scratch);

/* All strips of n rows, each with `bytes` of scratch of its thread. */
static fmc_status over_strips(strip_function strip, const void *job, const fmc_density *density, int single_precision,
                              size_t n, size_t bytes, fmc_context *context) {
  fmc_status status = FMC_OK;
  fmc_cpu_density own = {.owned = NULL};
  size_t n_strips = (n + FMC_STRIP - 1) / FMC_STRIP;
  int n_threads = fmc_cpu_threads(n_strips, context);
  size_t per_look = parts_per_look(n_strips, n_threads, context);
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

/* Log weights of samples first .. first + n - 1. */
static fmc_status weigh(const fmc_is_job *job, const fmc_cpu_density *target, const fmc_cpu_density *proposal,
                        size_t first, size_t n, double *log_weights, char *scratch, size_t scratch_bytes, int n_threads,
                        fmc_context *context) {
  const fmc_cpu_kernels *kernels = fmc_cpu_kernels_now();
  size_t n_parts = (n + SAMPLES_PER_PART - 1) / SAMPLES_PER_PART;
  size_t per_look = parts_per_look((job->n + SAMPLES_PER_PART - 1) / SAMPLES_PER_PART, n_threads, context);
  for (size_t start = 0; start < n_parts; start += per_look) {
    if (start > 0 && context->interrupted())
      return fmc_cpu_interrupted(context);
    size_t end = smaller(n_parts, start + per_look);
#ifdef _OPENMP
#pragma omp parallel for num_threads(n_threads) schedule(dynamic) if (n_threads > 1)
#endif
    for (size_t part = start; part < end; part++) {
      size_t at = part * SAMPLES_PER_PART;
      kernels->log_weights(job, target, proposal, first + at, smaller(SAMPLES_PER_PART, n - at), log_weights + at,
                           fmc_cpu_aligned(scratch) + scratch_bytes * (size_t)omp_get_thread_num());
    }
  }
  return FMC_OK;
}

static fmc_status is_weights(const fmc_is_job *job, fmc_context *context) {
  const fmc_cpu_kernels *kernels = fmc_cpu_kernels_now();
  fmc_status status = FMC_OK;
  fmc_cpu_density target = {.owned = NULL}, proposal = {.owned = NULL};
  char *scratch = NULL;
  double *sum_x = NULL, *room = NULL;
  fmc_weighted_sums *sums = NULL;
  fmc_tile_tree *tree = NULL;
  size_t n_dim = job->samples ? job->n_dim : 0;
  size_t n_tiles = (job->n + FMC_TILE - 1) / FMC_TILE;
  int n_threads = fmc_cpu_threads((job->n + SAMPLES_PER_PART - 1) / SAMPLES_PER_PART, context);
  size_t bytes = fmc_cpu_padded(fmc_cpu_is_scratch(job));
  /* Tiles in a piece: some for each thread. Its log weights, where nobody wants them, take 32 KB a tile. */
  size_t per_piece = smaller(n_tiles, smaller(16 * (size_t)n_threads, parts_per_look(n_tiles, n_threads, context)));

  scratch = malloc(bytes * (size_t)n_threads + FMC_CPU_LINE);
  sum_x = malloc(per_piece * (n_dim ? n_dim : 1) * sizeof(double));
  sums = malloc(per_piece * sizeof *sums);
  room = malloc(per_piece * FMC_TILE * sizeof(double));
  tree = fmc_tile_tree_new(n_dim);
  if (!scratch || !sum_x || !sums || !room || !tree ||
      (job->target && !fmc_cpu_density_new(job->target, job->single_precision, &target)) ||
      (job->proposal && !fmc_cpu_density_new(job->proposal, job->single_precision, &proposal))) {
    status =
        fmc_cpu_out_of_memory(context, bytes * (size_t)n_threads + per_piece * (n_dim + FMC_TILE) * sizeof(double));
    goto done;
  }
  for (size_t i = 0; i < per_piece; i++)
    sums[i].sum_x = sum_x + i * n_dim;
  for (size_t piece = 0; piece < n_tiles; piece += per_piece) {
    size_t first = piece * FMC_TILE, n = smaller(per_piece * FMC_TILE, job->n - first);
    size_t n_here = smaller(per_piece, n_tiles - piece);
    double *computed = job->log_weights ? job->log_weights + first : room;
    const double *log_weights = job->given_log_weights ? job->given_log_weights + first : computed;
    if (piece > 0 && context->interrupted()) {
      status = fmc_cpu_interrupted(context);
      goto done;
    }
    if (!job->given_log_weights)
      status = weigh(job, &target, &proposal, first, n, computed, scratch, bytes, n_threads, context);
    else if (job->log_weights)
      memcpy(computed, log_weights, n * sizeof(double));
    if (status != FMC_OK)
      goto done;
#ifdef _OPENMP
#pragma omp parallel for num_threads(n_threads) schedule(dynamic) if (n_threads > 1 && n_here > 1)
#endif
    for (size_t i = 0; i < n_here; i++)
      kernels->tile_sums(job, first + i * FMC_TILE, smaller(FMC_TILE, n - i * FMC_TILE), log_weights + i * FMC_TILE,
                         &sums[i], fmc_cpu_aligned(scratch) + bytes * (size_t)omp_get_thread_num());
    for (size_t i = 0; i < n_here; i++)
      fmc_tile_tree_push(tree, &sums[i]);
  }
  fmc_tile_tree_total(tree, job->sums);
done:
  fmc_tile_tree_free(tree);
  free(room);
  free(sums);
  free(sum_x);
  free(proposal.owned);
  free(target.owned);
  free(scratch);
  return status;
}

void fmc_cpu_normalise(const double *log_weights, size_t n, const fmc_weighted_sums *sums, double *weights,
                       int n_threads) {
  const fmc_cpu_kernels *kernels = fmc_cpu_kernels_now();
  size_t n_tiles = (n + FMC_TILE - 1) / FMC_TILE;
#ifdef _OPENMP
#pragma omp parallel for num_threads(n_threads) schedule(static) if (n_threads > 1 && n_tiles > 4)
#endif
  for (size_t tile = 0; tile < n_tiles; tile++) {
    size_t first = tile * FMC_TILE;
    kernels->normalise(log_weights + first, smaller(FMC_TILE, n - first), sums->max, sums->sum, weights + first);
  }
}

const fmc_backend fmc_backend_cpu = {"cpu", mh_step, is_weights, log_density, fmc_cpu_mh_run, fmc_cpu_resample};
