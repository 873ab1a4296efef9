/* Resampling on the CPU: passes over tiles of weights, then over parts of the draws. All is in whole numbers, so
 * threads may take tiles as they come. */
#include <stdlib.h>
#include <string.h>

#include "cpu_call.h"
#include "cpu_dispatch.h"

/* Work of a thread, in nanoseconds, between two looks for an interrupt. */
#define NS_PER_LOOK 5e7
#define DRAWS_PER_PART 512 /* a cache line each fits into the first cache */
#define BUCKETS_PER_PART 4096
/* With fewer draws than one to so many weights, a search over all weights is cheaper than a guide. */
#define WEIGHTS_PER_DRAW 16

#ifndef __GNUC__
#define __builtin_prefetch(at, for_writing) ((void)(at))
#endif

/* Cumulated whole numbers with a guide to them: positions b << shift .. ((b + 1) << shift) - 1 belong to
 * numbers guide[b] .. guide[b + 1]. Without a guide all numbers are searched. */
typedef struct {
  const uint64_t *cumulated;
  size_t n, n_buckets;
  uint64_t base, sum; /* positions base .. base + sum - 1 belong to it */
  int shift;
  uint32_t *guide;
} table;

typedef struct {
  fmc_resample_job *job;
  const fmc_cpu_kernels *kernels;
  size_t n_tiles;
  fmc_weight_scale scale;
  uint64_t *weights, *tile_sums;  /* whole weights, or what residual resampling leaves of them; then cumulated */
  uint64_t *copies, *tile_copies; /* of residual resampling */
  double *tile_max;
  size_t *tile_bad;
  int shift;              /* of what is left */
  fmc_resample_plan plan; /* of all draws; then of a range of them */
  size_t first, n;        /* draws first .. first + n - 1 of the result */
  int are_positions;      /* draws are numbered by their positions */
  table from;
} call;

typedef void (*phase)(call *c, size_t part);

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static fmc_status over_parts(phase run, call *c, size_t n_parts, fmc_context *context) {
  int n_threads = fmc_cpu_threads(n_parts, context);
  double looks = context->cpu_ns / ((double)context->n_threads * NS_PER_LOOK) + 1;
  size_t per_look = (size_t)((double)n_parts / looks) + (size_t)n_threads;
  for (size_t start = 0; start < n_parts; start += per_look) {
    size_t end = smaller(n_parts, start + per_look);
    if (start > 0 && context->interrupted())
      return fmc_cpu_interrupted(context);
#ifdef _OPENMP
#pragma omp parallel for num_threads(n_threads) schedule(guided, 2) if (n_threads > 1)
#endif
    for (size_t part = start; part < end; part++)
      run(c, part);
  }
  return FMC_OK;
}

static size_t tile_size(const call *c, size_t tile) { return smaller(FMC_TILE, c->job->n_weights - tile * FMC_TILE); }

static void range_phase(call *c, size_t tile) {
  const fmc_resample_job *job = c->job;
  c->tile_bad[tile] =
      c->kernels->weight_range(job->weights + tile * FMC_TILE, tile_size(c, tile), job->is_log, &c->tile_max[tile]);
}

static void whole_phase(call *c, size_t tile) {
  size_t first = tile * FMC_TILE;
  c->tile_sums[tile] =
      c->kernels->whole_weights(c->job->weights + first, tile_size(c, tile), &c->scale, c->weights + first);
}

static void residual_phase(call *c, size_t tile) {
  size_t first = tile * FMC_TILE, n = tile_size(c, tile);
  uint64_t sum = 0;
  for (size_t i = first; i < first + n; i++) {
    c->copies[i] = fmc_residual_copies(c->weights[i], &c->plan, &c->weights[i]);
    sum += c->copies[i];
  }
  c->tile_copies[tile] = sum;
}

static void shift_phase(call *c, size_t tile) {
  size_t first = tile * FMC_TILE, n = tile_size(c, tile);
  uint64_t sum = 0;
  for (size_t i = first; i < first + n; i++) {
    c->weights[i] >>= c->shift;
    sum += c->weights[i];
  }
  c->tile_sums[tile] = sum;
}

/* In place, from what tiles before sum to. */
static void cumulate(uint64_t *numbers, size_t n, uint64_t before) {
  for (size_t i = 0; i < n; i++) {
    before += numbers[i];
    numbers[i] = before;
  }
}

static void cumulate_phase(call *c, size_t tile) {
  cumulate(c->weights + tile * FMC_TILE, tile_size(c, tile), c->tile_sums[tile]);
  if (c->copies)
    cumulate(c->copies + tile * FMC_TILE, tile_size(c, tile), c->tile_copies[tile]);
}

/* Sums of tiles become what the tiles before each sum to; returns the sum of all. */
static uint64_t scan_tiles(uint64_t *sums, size_t n_tiles) {
  uint64_t before = 0;
  for (size_t tile = 0; tile < n_tiles; tile++) {
    uint64_t sum = sums[tile];
    sums[tile] = before;
    before += sum;
  }
  return before;
}

/* guide[b] is the number of cumulated numbers up to b << shift. Each number is noted in the first bucket that it counts
 * for; the last note in a bucket is the highest, and counts for the buckets after it too. */
static void guide_phase(call *c, size_t part) {
  table *t = &c->from;
  size_t first = part * BUCKETS_PER_PART, end = smaller(first + BUCKETS_PER_PART, t->n_buckets + 1);
  uint64_t width_less_one = ((uint64_t)1 << t->shift) - 1;
  size_t i = fmc_resample_search(t->cumulated, 0, t->n, (uint64_t)first << t->shift);
  memset(t->guide + first, 0, (end - first) * sizeof *t->guide);
  uint32_t highest = (uint32_t)i;
  for (; i < t->n; i++) {
    size_t bucket = (size_t)((t->cumulated[i] + width_less_one) >> t->shift);
    if (bucket >= end)
      break;
    t->guide[bucket] = (uint32_t)(i + 1);
  }
  for (size_t bucket = first; bucket < end; bucket++) {
    highest = t->guide[bucket] > highest ? t->guide[bucket] : highest;
    t->guide[bucket] = highest;
  }
}

/* Buckets hold about a number each: steps without a branch find most positions. */
static size_t guided_search(const table *t, size_t i, uint64_t position) {
  const uint64_t *cumulated = t->cumulated;
  i += cumulated[i] <= position;
  i += cumulated[i] <= position;
  i += cumulated[i] <= position;
  if (cumulated[i] <= position)
    i = fmc_resample_search(cumulated, i + 1, t->guide[(position >> t->shift) + 1], position);
  return i;
}

static void write_index(const fmc_resample_job *job, size_t draw, size_t index) {
  if (job->indices)
    job->indices[draw] = (int)index;
  else
    job->wide_indices[draw] = (double)index;
}

static void draw_phase(call *c, size_t part) {
  const table *t = &c->from;
  size_t first = part * DRAWS_PER_PART, n = smaller(DRAWS_PER_PART, c->n - first), start[DRAWS_PER_PART];
  uint64_t position[DRAWS_PER_PART];
  if (c->are_positions)
    for (size_t j = 0; j < n; j++)
      position[j] = first + j;
  else
    c->kernels->resample_positions(&c->plan, first, n, position);
  for (size_t j = 0; j < n; j++) {
    position[j] -= t->base; /* one outside the table is then not below its sum */
    start[j] = t->guide && position[j] < t->sum ? t->guide[position[j] >> t->shift] : 0;
    __builtin_prefetch(t->cumulated + start[j], 0);
  }
  for (size_t j = 0; j < n; j++) {
    size_t index = 0;
    if (position[j] < t->sum)
      index = 1 + (t->guide ? guided_search(t, start[j], position[j])
                            : fmc_resample_search(t->cumulated, 0, t->n, position[j]));
    write_index(c->job, c->first + first + j, index);
  }
}

/* Draws first .. first + n - 1 of the result, from a table without its guide yet. */
static fmc_status draw_from(call *c, const uint64_t *cumulated, uint64_t base, uint64_t sum, size_t first, size_t n,
                            fmc_context *context) {
  fmc_status status = FMC_OK;
  size_t n_weights = c->job->n_weights;
  table from = {cumulated, n_weights, 0, base, sum, 0, NULL};
  if (n == 0)
    return FMC_OK;
  if (sum > 0 && n >= n_weights / WEIGHTS_PER_DRAW && n_weights < UINT32_MAX) {
    while (sum >> from.shift >= n_weights)
      from.shift++;
    from.n_buckets = (size_t)((sum - 1) >> from.shift) + 1;
    from.guide = malloc((from.n_buckets + 1) * sizeof *from.guide);
    if (!from.guide)
      return fmc_cpu_out_of_memory(context, (from.n_buckets + 1) * sizeof *from.guide);
  }
  c->from = from;
  c->first = first;
  c->n = n;
  if (from.guide)
    status = over_parts(guide_phase, c, from.n_buckets / BUCKETS_PER_PART + 1, context);
  if (status == FMC_OK)
    status = over_parts(draw_phase, c, (n + DRAWS_PER_PART - 1) / DRAWS_PER_PART, context);
  free(from.guide);
  return status;
}

/* Zero where there is no memory. */
static int allocate(call *c) {
  size_t n = c->job->n_weights, n_tiles = c->n_tiles;
  int residual = c->job->method == FMC_RESIDUAL;
  c->weights = malloc((n + 1) * sizeof(uint64_t));
  c->copies = residual ? malloc((n + 1) * sizeof(uint64_t)) : NULL;
  c->tile_sums = malloc((n_tiles + 1) * sizeof(uint64_t));
  c->tile_copies = malloc((n_tiles + 1) * sizeof(uint64_t));
  c->tile_max = malloc((n_tiles + 1) * sizeof(double));
  c->tile_bad = malloc((n_tiles + 1) * sizeof(size_t));
  return c->weights && (c->copies || !residual) && c->tile_sums && c->tile_copies && c->tile_max && c->tile_bad;
}

static void release(call *c) {
  free(c->tile_bad);
  free(c->tile_max);
  free(c->tile_copies);
  free(c->tile_sums);
  free(c->copies);
  free(c->weights);
}

/* Whole weights and their sum, which stays 0 where weights are bad or all are zero. */
static fmc_status weigh(call *c, fmc_context *context) {
  fmc_resample_job *job = c->job;
  double max = -FMC_INF;
  fmc_status status = over_parts(range_phase, c, c->n_tiles, context);
  if (status != FMC_OK)
    return status;
  for (size_t tile = 0; tile < c->n_tiles; tile++) {
    job->n_bad += c->tile_bad[tile];
    max = c->tile_max[tile] > max ? c->tile_max[tile] : max;
  }
  if (job->is_piece)
    max = job->max;
  if (job->n_bad > 0 || max == -FMC_INF)
    return FMC_OK;
  c->scale = fmc_weight_scale_of(max, job->is_log, fmc_weight_bits(job->is_piece ? job->n_all : job->n_weights));
  status = over_parts(whole_phase, c, c->n_tiles, context);
  if (status == FMC_OK)
    job->sum = scan_tiles(c->tile_sums, c->n_tiles);
  return status;
}

static fmc_status draw(call *c, fmc_context *context) {
  const fmc_resample_job *job = c->job;
  uint64_t base = job->is_piece ? job->base : 0, total = job->is_piece ? job->total : job->sum;
  c->plan = fmc_resample_plan_of(job->method, job->n, total, job->seed, job->step, job->offset);
  fmc_status status = over_parts(cumulate_phase, c, c->n_tiles, context);
  return status == FMC_OK ? draw_from(c, c->weights, base, job->sum, 0, job->n, context) : status;
}

/* Copies first, in the order of the weights; what is left of n is drawn by what is left of the weights. */
static fmc_status draw_residual(call *c, fmc_context *context) {
  const fmc_resample_job *job = c->job;
  fmc_status status = FMC_OK;
  uint64_t n_copies, sum;
  c->plan = fmc_resample_plan_of(FMC_RESIDUAL, job->n, job->sum, job->seed, job->step, job->offset);
  if ((status = over_parts(residual_phase, c, c->n_tiles, context)) != FMC_OK)
    return status;
  n_copies = scan_tiles(c->tile_copies, c->n_tiles);
  c->shift = fmc_residual_shift(job->n - n_copies, job->sum);
  if ((status = over_parts(shift_phase, c, c->n_tiles, context)) != FMC_OK)
    return status;
  sum = scan_tiles(c->tile_sums, c->n_tiles);
  if ((status = over_parts(cumulate_phase, c, c->n_tiles, context)) != FMC_OK)
    return status;
  c->are_positions = 1;
  if ((status = draw_from(c, c->copies, 0, n_copies, 0, (size_t)n_copies, context)) != FMC_OK)
    return status;
  c->are_positions = 0;
  c->plan = fmc_resample_plan_of(FMC_MULTINOMIAL, job->n - n_copies, sum, job->seed, job->step, job->offset + n_copies);
  return draw_from(c, c->weights, 0, sum, (size_t)n_copies, job->n - (size_t)n_copies, context);
}

fmc_status fmc_cpu_resample(fmc_resample_job *job, fmc_context *context) {
  call c = {.job = job, .kernels = fmc_cpu_kernels_now(), .n_tiles = (job->n_weights + FMC_TILE - 1) / FMC_TILE};
  fmc_status status = FMC_OK;
  job->n_bad = 0;
  job->sum = 0;
  if (!allocate(&c))
    status = fmc_cpu_out_of_memory(context, job->n_weights * sizeof(uint64_t) * (job->method == FMC_RESIDUAL ? 2 : 1));
  else
    status = weigh(&c, context);
  if (status == FMC_OK && job->n > 0 && job->n_bad == 0 && (job->sum > 0 || job->is_piece))
    status = job->method == FMC_RESIDUAL ? draw_residual(&c, context) : draw(&c, context);
  release(&c);
  return status;
}
