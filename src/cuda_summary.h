/* Sums over tiles of weighted samples on the GPU: reductions of a block, rows of tiles joined to nodes, and the tail.
 * All in double, whatever the precision of a call. Read by backend_cuda.cu alone. */

#define FMC_TILE_WARPS (FMC_TILE_LANES / 32)
#define FMC_NODE_LEVELS 8 /* tiles are joined on the device up to nodes of 2^8 */
#define FMC_NODE_TILES (1u << FMC_NODE_LEVELS)
#define FMC_LEAST_ROOM ((size_t)1 << 16) /* for the tail of a chunk; more than a tile */

/* Copies of 16 bytes, TO and FROM bytes further on, into shared memory that do not wait; the processors before 8.0 copy
 * at once. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
typedef unsigned shared_place;

static __device__ __forceinline__ shared_place place_in_shared(void *to) {
  return (unsigned)__cvta_generic_to_shared(to);
}

template <int TO, int FROM>
static __device__ __forceinline__ void copy_to_shared(shared_place to, const void *from, bool wanted) {
  __asm__ volatile(
      "{ .reg .pred p; setp.ne.b32 p, %2, 0; @p cp.async.cg.shared.global [%0 + %3], [%1 + %4], 16; }" ::"r"(to),
      "l"(from), "r"((int)wanted), "n"(TO), "n"(FROM)
      : "memory");
}
#else
typedef char *shared_place;

static __device__ __forceinline__ shared_place place_in_shared(void *to) { return (char *)to; }

template <int TO, int FROM>
static __device__ __forceinline__ void copy_to_shared(shared_place to, const void *from, bool wanted) {
  if (wanted)
    __pipeline_memcpy_async(to + TO, (const char *)from + FROM, 16);
}
#endif

/* Where the samples of a launch lie among all: numbers first .. first + n - 1. */
typedef struct {
  uint64_t first;
  size_t n;
} sample_range;

static __host__ __device__ __forceinline__ unsigned lead_of(const sample_range *r) {
  return (unsigned)(r->first % FMC_TILE);
}

/* Tiles that the samples touch; the first and the last may be partial. */
static __host__ __device__ __forceinline__ size_t n_tiles_of(const sample_range *r) {
  return (lead_of(r) + r->n + FMC_TILE - 1) / FMC_TILE;
}

/* Samples of tile number `tile` of the launch. */
static __host__ __device__ __forceinline__ size_t samples_of_tile(const sample_range *r, size_t tile) {
  size_t begin = tile == 0 ? lead_of(r) : 0, end = lead_of(r) + r->n - tile * FMC_TILE;
  return (end < FMC_TILE ? end : FMC_TILE) - begin;
}

/* What a launch notes beside its sums: the first bad sample, and log weights for the tail. All but `threshold` lie on
 * the device. Log weights above the threshold are written down in any order, as many as there is room for, and all are
 * counted. */
typedef struct {
  unsigned long long *first_bad; /* the number's complement; 0: none */
  double threshold;              /* the largest finite number where no tail is wanted */
  double *tail;
  unsigned long long *n_tail;
  size_t room;
} sample_notes;

static __device__ __noinline__ void note_tail(const sample_notes &notes, double log_weight) {
  const unsigned together = __activemask(), lane = threadIdx.x % 32;
  const int first = __ffs((int)together) - 1;
  unsigned long long at = 0;
  if (lane == (unsigned)first)
    at = atomicAdd(notes.n_tail, (unsigned long long)__popc(together));
  at = __shfl_sync(together, at, first) + __popc(together & ((1u << lane) - 1));
  if (at < notes.room)
    notes.tail[at] = log_weight;
}

/* Whether there is nothing to note of a log weight. */
static __device__ __forceinline__ bool is_plain(const sample_notes &notes, double log_weight) {
  return (log_weight <= notes.threshold) & (log_weight != -FMC_INF);
}

/* Notes a log weight; returns it, or -Inf in place of a bad one. */
static __device__ __forceinline__ double note_sample(const sample_notes &notes, double log_weight, uint64_t number,
                                                     unsigned *n_bad, unsigned *n_zero) {
  if (is_plain(notes, log_weight))
    return log_weight;
  if (fmc_log_weight_bad(log_weight)) {
    ++*n_bad;
    atomicMax(notes.first_bad, ~(unsigned long long)number);
    return -FMC_INF;
  }
  if (log_weight == -FMC_INF)
    ++*n_zero;
  else
    note_tail(notes, log_weight);
  return log_weight;
}

/* The first half of a block's sum: the lanes of each warp as a tree of neighbours, for column `column`. */
static __device__ __forceinline__ void put_warp_sum(double value, int column, double (*partial)[FMC_TILE_WARPS]) {
#pragma unroll
  for (int lane = 1; lane < 32; lane *= 2)
    value = value + __shfl_xor_sync(0xffffffffu, value, lane);
  if (threadIdx.x % 32 == 0)
    partial[column][threadIdx.x / 32] = value;
}

/* put_warp_sum() for COLUMNS columns at once: at each step a lane gives half of those it holds to the lane STRIDE away
 * and takes that lane's share of the others, so that the trees are the same and the way there is shorter. At the end
 * the lane holds the sum of one column, number *column. */
template <int COLUMNS, int STRIDE, int N>
static __device__ __forceinline__ void halve_columns(double (&value)[N], int *column) {
  if (COLUMNS == 1) {
    value[0] = value[0] + __shfl_xor_sync(0xffffffffu, value[0], STRIDE);
  } else {
    const bool upper = (threadIdx.x & STRIDE) != 0;
#pragma unroll
    for (int j = 0; j < COLUMNS / 2; j++) {
      const double low = value[j], high = value[j + COLUMNS / 2];
      value[j] = (upper ? high : low) + __shfl_xor_sync(0xffffffffu, upper ? low : high, STRIDE);
    }
    *column += upper ? COLUMNS / 2 : 0;
  }
  if constexpr (STRIDE < 16)
    halve_columns<(COLUMNS == 1 ? 1 : COLUMNS / 2), 2 * STRIDE>(value, column);
}

/* N, a power of two up to 32, may be more than the n columns that are wanted. */
template <int N>
static __device__ __forceinline__ void put_warp_sums(double (&value)[N], int first, int n,
                                                     double (*partial)[FMC_TILE_WARPS]) {
  int column = 0;
  halve_columns<N, 1>(value, &column);
  if ((int)threadIdx.x % 32 < N && column < n)
    partial[first + column][threadIdx.x / 32] = value[0];
}

/* The second half, after a barrier, by any one thread. */
static __device__ __forceinline__ double sum_of_warps(const double (*partial)[FMC_TILE_WARPS], int column) {
  double sum[FMC_TILE_WARPS];
#pragma unroll
  for (int warp = 0; warp < FMC_TILE_WARPS; warp++)
    sum[warp] = partial[column][warp];
#pragma unroll
  for (int stride = 1; stride < FMC_TILE_WARPS; stride *= 2)
#pragma unroll
    for (int warp = 0; warp < FMC_TILE_WARPS; warp += 2 * stride)
      sum[warp] = sum[warp] + sum[warp + stride];
  return sum[0];
}

/* Places of a block's partial sums: two of the weights, two counts in one, then the columns. */
enum { PARTIAL_SUM, PARTIAL_SQUARES, PARTIAL_COUNTS, PARTIAL_COLUMNS };

/* Two counts of up to FMC_TILE travel as one number: exact in a double. */
#define COUNTS(n_bad, n_zero) ((double)(n_bad)*65536.0 + (double)(n_zero))

/* Writes what stands before the columns of a tile's row, by one thread, after the barrier. */
static __device__ void put_head(double *row, const sample_range &range, size_t tile, double top,
                                const double (*partial)[FMC_TILE_WARPS]) {
  unsigned counts = (unsigned)sum_of_warps(partial, PARTIAL_COUNTS);
  row[FMC_SUMMARY_FIRST] = (double)(range.first / FMC_TILE + tile);
  row[FMC_SUMMARY_LEVEL] = 0;
  row[FMC_SUMMARY_N] = (double)samples_of_tile(&range, tile);
  row[FMC_SUMMARY_N_BAD] = (double)(counts >> 16);
  row[FMC_SUMMARY_N_ZERO] = (double)(counts & 0xffffu);
  row[FMC_SUMMARY_MAX] = top;
  row[FMC_SUMMARY_SUM] = sum_of_warps(partial, PARTIAL_SUM);
  row[FMC_SUMMARY_SUM_SQUARES] = sum_of_warps(partial, PARTIAL_SQUARES);
}

/* Aligned runs of tiles, each of up to FMC_NODE_TILES. Tiles are counted from 0 among all samples. */
static __host__ __device__ __forceinline__ uint64_t first_tile_of(const sample_range *r) { return r->first / FMC_TILE; }

/* Whole tiles are from *begin to *end - 1. */
static __host__ __device__ __forceinline__ void whole_tiles(const sample_range *r, uint64_t *begin, uint64_t *end) {
  size_t n_tiles = n_tiles_of(r);
  *begin = first_tile_of(r) + (samples_of_tile(r, 0) < FMC_TILE);
  *end = first_tile_of(r) + n_tiles - (n_tiles > 1 && samples_of_tile(r, n_tiles - 1) < FMC_TILE);
}

/* Tiles of the node that begins with tile t. */
static __host__ __device__ __forceinline__ unsigned tiles_of_node(uint64_t t, uint64_t whole_begin,
                                                                  uint64_t whole_end) {
  unsigned n = 1;
  while (t >= whole_begin && n < FMC_NODE_TILES && t % (2 * n) == 0 && t + 2 * n <= whole_end)
    n *= 2;
  return n;
}

/* Nodes of tiles t to end - 1. */
static __host__ __device__ __forceinline__ size_t n_nodes_between(uint64_t t, uint64_t end, uint64_t whole_begin,
                                                                  uint64_t whole_end) {
  size_t n = 0;
  for (; t < end; t += tiles_of_node(t, whole_begin, whole_end))
    n++;
  return n;
}

/* Stretches of tiles with the same number div FMC_NODE_TILES; a block joins one. */
static size_t n_stretches_of(const sample_range *r) {
  uint64_t first = first_tile_of(r);
  return (size_t)((first + n_tiles_of(r) - 1) / FMC_NODE_TILES - first / FMC_NODE_TILES + 1);
}

static size_t n_nodes_of(const sample_range *r) {
  uint64_t begin, end, first = first_tile_of(r), last = first + n_tiles_of(r), n_stretches = n_stretches_of(r);
  whole_tiles(r, &begin, &end);
  uint64_t second = (first / FMC_NODE_TILES + 1) * FMC_NODE_TILES;
  if (n_stretches == 1)
    return n_nodes_between(first, last, begin, end);
  uint64_t before_last = (last - 1) / FMC_NODE_TILES * FMC_NODE_TILES;
  return n_nodes_between(first, second, begin, end) + (n_stretches - 2) +
         n_nodes_between(before_last, last, begin, end);
}

/* One column of the earlier of two rows becomes that of both; not FMC_SUMMARY_MAX, which the others need. */
static __device__ __forceinline__ void join_column(double *earlier, const double *later, int c) {
  double max = earlier[FMC_SUMMARY_MAX] > later[FMC_SUMMARY_MAX] ? earlier[FMC_SUMMARY_MAX] : later[FMC_SUMMARY_MAX];
  double f = fmc_rescale_factor(earlier[FMC_SUMMARY_MAX], max), g = fmc_rescale_factor(later[FMC_SUMMARY_MAX], max);
  switch (c) {
  case FMC_SUMMARY_FIRST:
  case FMC_SUMMARY_MAX:
    break;
  case FMC_SUMMARY_LEVEL:
    earlier[c] += 1;
    break;
  case FMC_SUMMARY_N:
  case FMC_SUMMARY_N_BAD:
  case FMC_SUMMARY_N_ZERO:
    earlier[c] += later[c];
    break;
  case FMC_SUMMARY_SUM_SQUARES:
    earlier[c] = fmc_joined(earlier[c], f * f, later[c], g * g);
    break;
  default:
    earlier[c] = fmc_joined(earlier[c], f, later[c], g);
  }
}

/* Joins the rows of tiles to nodes, level by level, a stretch a block; a node's row is that of its first tile. Then
 * gathers the nodes in `out`. */
static __global__ void __launch_bounds__(256)
    join_kernel(const sample_range range, int width, double *rows, double *out) {
  uint64_t whole_begin, whole_end, first = first_tile_of(&range), last = first + n_tiles_of(&range);
  uint64_t stretch = (first / FMC_NODE_TILES + blockIdx.x) * FMC_NODE_TILES;
  uint64_t from = stretch > first ? stretch : first, to = stretch + FMC_NODE_TILES;
  whole_tiles(&range, &whole_begin, &whole_end);
  to = to < last ? to : last;
  for (unsigned half = 1; half < FMC_NODE_TILES; half *= 2) {
    const unsigned n_pairs = FMC_NODE_TILES / (2 * half);
    for (int what = 0; what < 2; what++) { /* all columns, then the largest log weights */
      const int n_columns = what == 0 ? width : 1;
      for (unsigned e = threadIdx.x; e < n_pairs * n_columns; e += blockDim.x) {
        uint64_t tile = stretch + e / n_columns * 2 * half;
        if (tile < whole_begin || tile + 2 * half > whole_end)
          continue;
        double *earlier = rows + (tile - first) * width, *later = earlier + (size_t)half * width;
        if (what == 0)
          join_column(earlier, later, e % n_columns);
        else if (later[FMC_SUMMARY_MAX] > earlier[FMC_SUMMARY_MAX])
          earlier[FMC_SUMMARY_MAX] = later[FMC_SUMMARY_MAX];
      }
      __syncthreads();
    }
  }
  size_t at = 0;
  if (blockIdx.x > 0)
    at = n_nodes_between(first, (first / FMC_NODE_TILES + 1) * FMC_NODE_TILES, whole_begin, whole_end) + blockIdx.x - 1;
  for (uint64_t tile = from; tile < to; tile += tiles_of_node(tile, whole_begin, whole_end), at++)
    for (int c = threadIdx.x; c < width; c += blockDim.x)
      out[at * width + c] = rows[(tile - first) * width + c];
}

static void launch_join(const sample_range *range, size_t width, double *rows, double *out, cudaStream_t stream) {
  join_kernel<<<(unsigned)n_stretches_of(range), 256, 0, stream>>>(*range, (int)width, rows, out);
}

#define FMC_UNJOINED 34 /* tiles of a chunk, at most, whose rows the host joins */

/* What a chunk's kernels count. */
typedef struct {
  unsigned long long first_bad, n_tail; /* see sample_notes */
} is_counters;

/* Where the parts of a chunk lie: in what goes up, in what comes down (from `counters` on), and on the device alone.
 * Columns of samples are `stride` apart. */
typedef struct {
  size_t stride, given, x, up, counters, nodes, log_weights, down, tail, rows, all;
  struct {
    size_t partial, value, scaled;
  } stack;
} is_layout;

/* Room for the tail of a chunk, which is small or begins after enough samples: about half is used then. */
static size_t tail_room(const fmc_is_summary *summary) {
  size_t n_tail = fmc_is_summary_n_tail(summary);
  return n_tail == 0 ? 0 : 4 * n_tail > FMC_LEAST_ROOM ? 4 * n_tail : FMC_LEAST_ROOM;
}

/* About `wanted` of the `most` samples from number `first` on, up to a border of tiles. */
static size_t chunk_before_border(uint64_t first, size_t wanted, size_t most) {
  if (wanted >= most)
    return most;
  uint64_t end = (first + wanted) / FMC_TILE * FMC_TILE;
  end = end > first ? end : (first / FMC_TILE + 1) * FMC_TILE;
  return smaller((size_t)(end - first), most);
}

/* Rows first .. first + n - 1 of a matrix into columns that are `stride` apart. */
static void stage_columns(const double *matrix, size_t n_rows, size_t n_dim, size_t first, size_t n, char *to,
                          size_t stride, int single_precision, const fmc_context *context) {
  size_t bytes = stride * (single_precision ? sizeof(float) : sizeof(double));
  if (n == stride)
    fmc_stage_in(matrix, n_rows, n_dim, first, n, to, single_precision, context->n_threads);
  else
    for (size_t d = 0; d < n_dim; d++)
      fmc_stage_in(matrix + d * n_rows, n_rows, 1, first, n, to + d * bytes, single_precision, context->n_threads);
}
