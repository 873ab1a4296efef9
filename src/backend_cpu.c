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

static fmc_status out_of_memory(fmc_context *context, size_t bytes) {
  context->bytes = bytes;
  snprintf(context->message, sizeof context->message, "cannot allocate %.3f GB of host memory", (double)bytes / 1e9);
  return FMC_ERROR_MEMORY;
}

static fmc_status interrupted(fmc_context *context) {
  snprintf(context->message, sizeof context->message, "interrupted");
  return FMC_ERROR_INTERRUPTED;
}

/* A density in the job's precision, and the memory that it owns. */
typedef struct {
  union {
    fmc_density_f64 f64;
    fmc_density_f32 f32;
  } as;
  void *owned;
} density_any;

static size_t n_numbers(const fmc_density *density) {
  size_t n = 0;
  for (size_t k = 0; k < density->n_nodes; k++)
    for (int a = 0; a < FMC_NODE_ARRAYS; a++)
      n += density->node[k].length[a];
  return n;
}

static const void *source_of(const fmc_node *node) { return node->source ? node->source->cpu_source : NULL; }

/* Nodes as they are, with their arrays. Zero where there is no memory. */
static int density_f64(const fmc_density *density, density_any *out) {
  fmc_node_f64 *nodes = malloc(density->n_nodes * sizeof *nodes);
  if (!nodes)
    return 0;
  for (size_t k = 0; k < density->n_nodes; k++) {
    const fmc_node *node = density->node + k;
    fmc_node_f64 to = {.kind = node->kind, .flags = node->flags, .n_dim = node->n_dim, .count = node->count};
    memcpy(to.number, node->number, sizeof to.number);
    memcpy(to.array, node->array, sizeof to.array);
    to.source = source_of(node);
    nodes[k] = to;
  }
  out->owned = nodes;
  out->as.f64 = (fmc_density_f64){density->n_dim, density->n_nodes, nodes};
  return 1;
}

/* The same with every array rounded to float. */
static int density_f32(const fmc_density *density, density_any *out) {
  fmc_node_f32 *nodes = malloc(density->n_nodes * sizeof *nodes + n_numbers(density) * sizeof(float));
  if (!nodes)
    return 0;
  float *floats = (float *)(nodes + density->n_nodes);
  for (size_t k = 0; k < density->n_nodes; k++) {
    const fmc_node *node = density->node + k;
    fmc_node_f32 to = {.kind = node->kind, .flags = node->flags, .n_dim = node->n_dim, .count = node->count};
    memcpy(to.number, node->number, sizeof to.number);
    for (int a = 0; a < FMC_NODE_ARRAYS; a++) {
      to.array[a] = node->array[a] ? floats : NULL;
      for (size_t i = 0; i < node->length[a]; i++)
        *floats++ = (float)node->array[a][i];
    }
    to.source = source_of(node);
    nodes[k] = to;
  }
  out->owned = nodes;
  out->as.f32 = (fmc_density_f32){density->n_dim, density->n_nodes, nodes};
  return 1;
}

static int density_for(const fmc_density *density, int single_precision, density_any *out) {
  return single_precision ? density_f32(density, out) : density_f64(density, out);
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Parts between two looks, for all threads together, where the call falls into n_parts. */
static size_t parts_per_look(size_t n_parts, int n_threads, const fmc_context *context) {
  double looks = context->cpu_ns / ((double)n_threads * NS_PER_LOOK) + 1;
  return (size_t)((double)n_parts / looks) + (size_t)n_threads;
}

#define LINE 128 /* bytes: a cache line, and the one that processors fetch with it */

/* Each thread's scratch starts on a cache line of its own; vectors that straddle lines cost twice. */
static size_t padded(size_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }

/* Of memory that has LINE bytes to spare. */
static char *aligned(char *memory) { return memory + (LINE - (uintptr_t)memory % LINE) % LINE; }

static int threads_for(size_t n_parts, const fmc_context *context) {
  return (int)smaller(n_parts, (size_t)(context->n_threads > 0 ? context->n_threads : 1));
}

static fmc_status mh_step(const fmc_mh_step_job *job, fmc_context *context) {
  const fmc_cpu_kernels *kernels = fmc_cpu_kernels_now();
  fmc_status status = FMC_OK;
  density_any target = {.owned = NULL};
  char *scratch = NULL;
  size_t n_strips = (job->n_chains + FMC_STRIP - 1) / FMC_STRIP;
  int n_threads = threads_for(n_strips, context);
  size_t per_look = parts_per_look(n_strips, n_threads, context);
  size_t bytes = padded(fmc_cpu_mh_scratch(job));

  scratch = malloc(bytes * (size_t)n_threads + LINE);
  if (!scratch || (job->target && !density_for(job->target, job->single_precision, &target))) {
    status = out_of_memory(context, bytes * (size_t)n_threads);
    goto done;
  }
  for (size_t start = 0; start < n_strips; start += per_look) {
    if (start > 0 && context->interrupted()) {
      status = interrupted(context);
      goto done;
    }
    size_t end = smaller(n_strips, start + per_look);
#ifdef _OPENMP
#pragma omp parallel for num_threads(n_threads) schedule(guided, 2) if (n_threads > 1)
#endif
    for (size_t strip = start; strip < end; strip++) {
      size_t first = strip * FMC_STRIP;
      kernels->mh_strip(job, job->target ? &target : NULL, first, smaller(FMC_STRIP, job->n_chains - first),
                        aligned(scratch) + bytes * (size_t)omp_get_thread_num());
    }
  }
done:
  free(target.owned);
  free(scratch);
  return status;
}

/* Log weights of samples first .. first + n - 1. */
static fmc_status weigh(const fmc_is_job *job, const density_any *target, const density_any *proposal, size_t first,
                        size_t n, double *log_weights, char *scratch, size_t scratch_bytes, int n_threads,
                        fmc_context *context) {
  const fmc_cpu_kernels *kernels = fmc_cpu_kernels_now();
  size_t n_parts = (n + SAMPLES_PER_PART - 1) / SAMPLES_PER_PART;
  size_t per_look = parts_per_look((job->n + SAMPLES_PER_PART - 1) / SAMPLES_PER_PART, n_threads, context);
  for (size_t start = 0; start < n_parts; start += per_look) {
    if (start > 0 && context->interrupted())
      return interrupted(context);
    size_t end = smaller(n_parts, start + per_look);
#ifdef _OPENMP
#pragma omp parallel for num_threads(n_threads) schedule(dynamic) if (n_threads > 1)
#endif
    for (size_t part = start; part < end; part++) {
      size_t at = part * SAMPLES_PER_PART;
      kernels->log_weights(job, target, proposal, first + at, smaller(SAMPLES_PER_PART, n - at), log_weights + at,
                           aligned(scratch) + scratch_bytes * (size_t)omp_get_thread_num());
    }
  }
  return FMC_OK;
}

static fmc_status is_weights(const fmc_is_job *job, fmc_context *context) {
  const fmc_cpu_kernels *kernels = fmc_cpu_kernels_now();
  fmc_status status = FMC_OK;
  density_any target = {.owned = NULL}, proposal = {.owned = NULL};
  char *scratch = NULL;
  double *sum_x = NULL, *room = NULL;
  fmc_weighted_sums *sums = NULL;
  fmc_tile_tree *tree = NULL;
  size_t n_dim = job->samples ? job->n_dim : 0;
  size_t n_tiles = (job->n + FMC_TILE - 1) / FMC_TILE;
  int n_threads = threads_for((job->n + SAMPLES_PER_PART - 1) / SAMPLES_PER_PART, context);
  size_t bytes = padded(fmc_cpu_is_scratch(job));
  /* Tiles in a piece: some for each thread. Its log weights, where nobody wants them, take 32 KB a tile. */
  size_t per_piece = smaller(n_tiles, smaller(16 * (size_t)n_threads, parts_per_look(n_tiles, n_threads, context)));

  scratch = malloc(bytes * (size_t)n_threads + LINE);
  sum_x = malloc(per_piece * (n_dim ? n_dim : 1) * sizeof(double));
  sums = malloc(per_piece * sizeof *sums);
  room = malloc(per_piece * FMC_TILE * sizeof(double));
  tree = fmc_tile_tree_new(n_dim);
  if (!scratch || !sum_x || !sums || !room || !tree ||
      (job->target && !density_for(job->target, job->single_precision, &target)) ||
      (job->proposal && !density_for(job->proposal, job->single_precision, &proposal))) {
    status = out_of_memory(context, bytes * (size_t)n_threads + per_piece * (n_dim + FMC_TILE) * sizeof(double));
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
      status = interrupted(context);
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
                         &sums[i], aligned(scratch) + bytes * (size_t)omp_get_thread_num());
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

static fmc_status log_density(const fmc_log_density_job *job, fmc_context *context) {
  const fmc_cpu_kernels *kernels = fmc_cpu_kernels_now();
  fmc_status status = FMC_OK;
  density_any density = {.owned = NULL};
  char *scratch = NULL;
  size_t n_strips = (job->n + FMC_STRIP - 1) / FMC_STRIP;
  int n_threads = threads_for(n_strips, context);
  size_t per_look = parts_per_look(n_strips, n_threads, context);
  size_t bytes = padded(fmc_cpu_log_density_scratch(job));

  scratch = malloc(bytes * (size_t)n_threads + LINE);
  if (!scratch || !density_for(job->density, job->single_precision, &density)) {
    status = out_of_memory(context, bytes * (size_t)n_threads);
    goto done;
  }
  for (size_t start = 0; start < n_strips; start += per_look) {
    if (start > 0 && context->interrupted()) {
      status = interrupted(context);
      goto done;
    }
    size_t end = smaller(n_strips, start + per_look);
#ifdef _OPENMP
#pragma omp parallel for num_threads(n_threads) schedule(guided, 2) if (n_threads > 1)
#endif
    for (size_t strip = start; strip < end; strip++) {
      size_t first = strip * FMC_STRIP;
      kernels->log_density(job, &density, first, smaller(FMC_STRIP, job->n - first),
                           aligned(scratch) + bytes * (size_t)omp_get_thread_num());
    }
  }
done:
  free(density.owned);
  free(scratch);
  return status;
}

const fmc_backend fmc_backend_cpu = {"cpu", mh_step, is_weights, log_density};
