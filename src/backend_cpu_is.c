/* Importance weights on the CPU: threads over tiles of samples, which are drawn, weighed and summed while they are in
 * the cache. Where tiles are few or slow, threads share the places of a tile instead, and then the sums of tiles.
 * Either way a tile's sums are one thread's, so the number of threads changes nothing. */
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

#define TILES_PER_THREAD 16             /* of a piece */
#define PIECE_BYTES (4 << 20)           /* of a thread's rows in a piece, about */
#define PLACES_PER_PART (8 * FMC_STRIP) /* that a thread takes at a time where threads share a tile */
#define PARTS_PER_TILE (FMC_TILE / PLACES_PER_PART)

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* A call. Pieces are what is computed between two looks for an interrupt, if not less. */
typedef struct {
  fmc_is_job *job;
  const fmc_cpu_kernels *kernels;
  fmc_cpu_is_parts parts;
  int n_threads, shared; /* whether threads share the places of a tile */
  size_t n_tiles, per_piece;
  size_t width;          /* of a row */
  char *scratch, *tiles; /* of each thread; of each thread, or where they are shared of each tile of a piece */
  size_t scratch_bytes, tile_bytes;
  double *rows, *above;  /* of each tile of a piece: sums; log weights above the threshold */
  size_t *n_above, *bad; /* how many of these; place of the first bad log weight */
  double threshold;
} is_call;

/* Tile number t of the call, with the memory of `owner`. */
static fmc_cpu_tile tile_of(const is_call *call, size_t t, size_t owner) {
  const fmc_is_job *job = call->job;
  size_t begin = (size_t)(job->offset % FMC_TILE);
  char *memory = fmc_cpu_aligned(call->tiles) + owner * call->tile_bytes;
  fmc_cpu_tile tile;
  tile.number = job->offset - begin + (uint64_t)t * FMC_TILE;
  tile.first = t > 0 ? t * FMC_TILE - begin : 0;
  tile.begin = t > 0 ? 0 : begin;
  tile.n = smaller(FMC_TILE - tile.begin, job->n - tile.first);
  tile.log_weights = (double *)memory;
  tile.x = job->drawing && job->summary ? memory + FMC_TILE * sizeof(double) : NULL;
  return tile;
}

static void weigh(const is_call *call, const fmc_cpu_tile *tile, size_t from, size_t to) {
  const fmc_is_job *job = call->job;
  size_t row = tile->first + (from - tile->begin), bytes = (to - from) * sizeof(double);
  if (job->given_log_weights)
    memcpy(tile->log_weights + from, job->given_log_weights + row, bytes);
  if (job->target || job->drawing)
    call->kernels->is_places(job, &call->parts, tile, from, to,
                             fmc_cpu_aligned(call->scratch) + call->scratch_bytes * (size_t)omp_get_thread_num());
  if (job->log_weights)
    memcpy(job->log_weights + row, tile->log_weights + from, bytes);
}

/* The sums of a tile, which is number i of its piece. */
static void sum(const is_call *call, const fmc_cpu_tile *tile, size_t i) {
  if (!call->job->summary)
    return;
  call->bad[i] =
      call->kernels->tile_sums(call->job, tile, call->rows + i * call->width,
                               fmc_cpu_aligned(call->scratch) + call->scratch_bytes * (size_t)omp_get_thread_num());
  call->n_above[i] = call->above ? call->kernels->above(tile->log_weights + tile->begin, tile->n, call->threshold,
                                                        call->above + i * FMC_TILE)
                                 : 0;
}

/* Tiles first .. first + n - 1, a thread each. */
static void compute_apart(const is_call *call, size_t first, size_t n) {
#ifdef _OPENMP
#pragma omp parallel for num_threads(call->n_threads) schedule(dynamic) if (call->n_threads > 1)
#endif
  for (size_t i = 0; i < n; i++) {
    fmc_cpu_tile tile = tile_of(call, first + i, (size_t)omp_get_thread_num());
    weigh(call, &tile, tile.begin, tile.begin + tile.n);
    sum(call, &tile, i);
  }
}

/* The same with parts of tiles. */
static fmc_status compute_shared(const is_call *call, size_t first, size_t n, fmc_context *context) {
  size_t n_parts = n * PARTS_PER_TILE;
  size_t per_look = fmc_cpu_parts_per_look(call->n_tiles * PARTS_PER_TILE, call->n_threads, context);
  for (size_t start = 0; start < n_parts; start += per_look) {
    size_t end = smaller(n_parts, start + per_look);
    if (start > 0 && context->interrupted())
      return fmc_cpu_interrupted(context);
#ifdef _OPENMP
#pragma omp parallel for num_threads(call->n_threads) schedule(dynamic) if (call->n_threads > 1)
#endif
    for (size_t part = start; part < end; part++) {
      fmc_cpu_tile tile = tile_of(call, first + part / PARTS_PER_TILE, part / PARTS_PER_TILE);
      size_t from = part % PARTS_PER_TILE * PLACES_PER_PART, to = smaller(tile.begin + tile.n, from + PLACES_PER_PART);
      from = from < tile.begin ? tile.begin : from;
      if (from < to)
        weigh(call, &tile, from, to);
    }
  }
#ifdef _OPENMP
#pragma omp parallel for num_threads(call->n_threads) schedule(dynamic) if (call->n_threads > 1 && n > 1)
#endif
  for (size_t i = 0; i < n; i++) {
    fmc_cpu_tile tile = tile_of(call, first + i, i);
    sum(call, &tile, i);
  }
  return FMC_OK;
}

/* What the tiles of a piece have given, in their order. */
static fmc_status take(const is_call *call, size_t first, size_t n, fmc_context *context) {
  fmc_is_job *job = call->job;
  for (size_t i = 0; job->summary && i < n; i++) {
    if (!fmc_is_summary_push(job->summary, call->rows + i * call->width))
      return fmc_cpu_out_of_memory(context, call->width * sizeof(double));
    if (call->n_above[i] > 0)
      fmc_is_summary_offer(job->summary, call->above + i * FMC_TILE, call->n_above[i]);
    if (call->bad[i] < FMC_TILE && job->first_bad == FMC_NO_SAMPLE)
      job->first_bad = tile_of(call, first + i, 0).number + call->bad[i];
  }
  return FMC_OK;
}

/* Cuts the call into pieces. */
static void plan(is_call *call, const fmc_context *context) {
  const fmc_is_job *job = call->job;
  size_t begin = (size_t)(job->offset % FMC_TILE), real = job->single_precision ? sizeof(float) : sizeof(double);
  call->n_tiles = (begin + job->n + FMC_TILE - 1) / FMC_TILE;
  call->n_threads = fmc_cpu_threads((job->n + PLACES_PER_PART - 1) / PLACES_PER_PART, context);
  size_t n_threads = (size_t)call->n_threads;
  call->shared = context->cpu_ns > (double)call->n_tiles * FMC_CPU_NS_PER_LOOK ||
                 (n_threads > 1 && call->n_tiles < TILES_PER_THREAD / 2 * n_threads);
  call->width = job->summary ? fmc_is_summary_width(job->summary) : 0;
  size_t per_thread = smaller(TILES_PER_THREAD, PIECE_BYTES / ((call->width + 1) * sizeof(double)) + 1);
  call->per_piece =
      call->shared ? n_threads
                   : smaller(per_thread * n_threads, fmc_cpu_parts_per_look(call->n_tiles, call->n_threads, context));
  call->per_piece = smaller(call->per_piece, call->n_tiles);
  call->scratch_bytes = fmc_cpu_padded(fmc_cpu_is_scratch(job));
  size_t n_places = (smaller(FMC_TILE, begin + job->n) + FMC_STRIP - 1) / FMC_STRIP * FMC_STRIP;
  call->tile_bytes =
      fmc_cpu_padded(FMC_TILE * sizeof(double) + (job->drawing && job->summary ? n_places * job->n_dim * real : 0));
}

static fmc_status allocate(is_call *call, int has_tail, fmc_context *context) {
  size_t n = call->per_piece, n_threads = (size_t)call->n_threads, owners = call->shared ? n : n_threads;
  size_t above = has_tail ? n * FMC_TILE : 0;
  call->scratch = malloc(call->scratch_bytes * n_threads + FMC_CPU_LINE);
  call->tiles = malloc(call->tile_bytes * owners + FMC_CPU_LINE);
  call->rows = malloc((n * call->width + 1) * sizeof(double));
  call->above = has_tail ? malloc(above * sizeof(double)) : NULL;
  call->n_above = malloc(2 * n * sizeof(size_t));
  if (!call->scratch || !call->tiles || !call->rows || (has_tail && !call->above) || !call->n_above)
    return fmc_cpu_out_of_memory(context, call->scratch_bytes * n_threads + call->tile_bytes * owners +
                                              (n * call->width + above) * sizeof(double));
  call->bad = call->n_above + n;
  return FMC_OK;
}

/* The densities and the drawing, in the call's precision. */
typedef struct {
  fmc_cpu_density target, proposal;
  fmc_cpu_drawing drawing;
} is_owned;

static fmc_status convert(is_call *call, is_owned *owned, fmc_context *context) {
  const fmc_is_job *job = call->job;
  if ((job->target && !fmc_cpu_density_new(job->target, job->single_precision, &owned->target)) ||
      (job->proposal && !fmc_cpu_density_new(job->proposal, job->single_precision, &owned->proposal)) ||
      (job->drawing && !fmc_cpu_drawing_new(job->drawing, job->single_precision, &owned->drawing)))
    return fmc_cpu_out_of_memory(context, call->scratch_bytes + call->tile_bytes);
  call->parts.target = job->target ? &owned->target : NULL;
  call->parts.proposal = job->proposal ? &owned->proposal : NULL;
  call->parts.drawing = job->drawing ? &owned->drawing : NULL;
  return FMC_OK;
}

fmc_status fmc_cpu_is_weights(fmc_is_job *job, fmc_context *context) {
  fmc_status status = FMC_OK;
  is_call call = {.job = job, .kernels = fmc_cpu_kernels_now()}; /* chosen before there are threads */
  is_owned owned = {.target.owned = NULL};
  int has_tail = job->summary && fmc_is_summary_threshold(job->summary) < FMC_INF;

  job->first_bad = FMC_NO_SAMPLE;
  if (job->n == 0)
    return FMC_OK;
  plan(&call, context);
  status = allocate(&call, has_tail, context);
  if (status == FMC_OK)
    status = convert(&call, &owned, context);
  for (size_t first = 0; status == FMC_OK && first < call.n_tiles; first += call.per_piece) {
    size_t n = smaller(call.per_piece, call.n_tiles - first);
    if (first > 0 && context->interrupted()) {
      status = fmc_cpu_interrupted(context);
      break;
    }
    call.threshold = has_tail ? fmc_is_summary_threshold(job->summary) : FMC_INF;
    if (call.shared)
      status = compute_shared(&call, first, n, context);
    else
      compute_apart(&call, first, n);
    if (status == FMC_OK)
      status = take(&call, first, n, context);
    if (status == FMC_OK && context->progress)
      context->progress(smaller(job->n, tile_of(&call, first + n, 0).first));
  }
  free(owned.drawing.owned);
  free(owned.proposal.owned);
  free(owned.target.owned);
  free(call.n_above);
  free(call.above);
  free(call.rows);
  free(call.tiles);
  free(call.scratch);
  return status;
}

void fmc_cpu_normalise(const double *log_weights, size_t n, double max, double sum, double *weights, int n_threads) {
  const fmc_cpu_kernels *kernels = fmc_cpu_kernels_now();
  size_t n_tiles = (n + FMC_TILE - 1) / FMC_TILE;
#ifdef _OPENMP
#pragma omp parallel for num_threads(n_threads) schedule(static) if (n_threads > 1 && n_tiles > 4)
#endif
  for (size_t tile = 0; tile < n_tiles; tile++) {
    size_t first = tile * FMC_TILE;
    kernels->normalise(log_weights + first, smaller(FMC_TILE, n - first), max, sum, weights + first);
  }
}
