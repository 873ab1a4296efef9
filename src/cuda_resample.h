/* Kernels of resampling. All is in whole numbers, so blocks need no order; a block takes a tile. Read by
 * backend_cuda.cu alone. */

#define RS_THREADS 256 /* a block; each thread takes a number of each row of its tile */
#define RS_ROWS (FMC_TILE / RS_THREADS)
#define RS_WARPS (RS_THREADS / 32)
#define RS_SCAN_THREADS 1024 /* of the one block that goes over all tiles */

/* What the host must know between passes. */
typedef struct {
  double max;
  uint64_t n_bad, sum, n_copies;
} resample_totals;

/* Device memory of a call. */
typedef struct {
  uint64_t *numbers; /* the bits of the weights as they came; whole weights; cumulated */
  uint64_t *copies;  /* of residual resampling */
  uint64_t *tile_sums, *tile_copies, *tile_bad;
  double *tile_max;
  resample_totals *totals;
} resample_memory;

static __device__ uint64_t warp_sum(uint64_t x) {
  for (int lane = 16; lane > 0; lane /= 2)
    x += __shfl_xor_sync(0xffffffffu, x, lane);
  return x;
}

static __device__ double warp_max(double x) {
  for (int lane = 16; lane > 0; lane /= 2) {
    double other = __shfl_xor_sync(0xffffffffu, x, lane);
    x = other > x ? other : x;
  }
  return x;
}

/* Sum of lanes up to this one. */
static __device__ uint64_t warp_scan(uint64_t x) {
  for (int by = 1; by < 32; by *= 2) {
    uint64_t before = __shfl_up_sync(0xffffffffu, x, by);
    x += threadIdx.x % 32 >= by ? before : 0;
  }
  return x;
}

/* Sum of a block of RS_THREADS, for thread 0. */
static __device__ uint64_t block_total(uint64_t x, uint64_t *shared) {
  x = warp_sum(x);
  if (threadIdx.x % 32 == 0)
    shared[threadIdx.x / 32] = x;
  __syncthreads();
  for (int warp = 1; threadIdx.x == 0 && warp < RS_WARPS; warp++)
    x += shared[warp];
  return x;
}

/* The place of this thread's number in a row of its block's tile. */
static __device__ size_t tile_place(int row) {
  return (size_t)blockIdx.x * FMC_TILE + (size_t)row * RS_THREADS + threadIdx.x;
}

static __global__ void __launch_bounds__(RS_THREADS)
    weight_range_kernel(const double *weights, size_t n, int is_log, double *tile_max, uint64_t *tile_bad) {
  __shared__ double top[RS_WARPS];
  __shared__ uint64_t bad[RS_WARPS];
  double max = -FMC_INF;
  uint64_t n_bad = 0;
  for (int row = 0; row < RS_ROWS; row++)
    if (tile_place(row) < n) {
      double weight = weights[tile_place(row)];
      int is_bad = fmc_weight_bad(weight, is_log);
      n_bad += is_bad;
      max = !is_bad && weight > max ? weight : max;
    }
  n_bad = block_total(n_bad, bad);
  max = warp_max(max);
  if (threadIdx.x % 32 == 0)
    top[threadIdx.x / 32] = max;
  __syncthreads();
  if (threadIdx.x > 0)
    return;
  for (int warp = 1; warp < RS_WARPS; warp++)
    max = top[warp] > max ? top[warp] : max;
  tile_max[blockIdx.x] = max;
  tile_bad[blockIdx.x] = n_bad;
}

/* One block. */
static __global__ void __launch_bounds__(RS_SCAN_THREADS)
    join_range_kernel(const double *tile_max, const uint64_t *tile_bad, size_t n_tiles, resample_totals *totals) {
  __shared__ double top[32];
  __shared__ uint64_t bad[32];
  double max = -FMC_INF;
  uint64_t n_bad = 0;
  for (size_t tile = threadIdx.x; tile < n_tiles; tile += RS_SCAN_THREADS) {
    max = tile_max[tile] > max ? tile_max[tile] : max;
    n_bad += tile_bad[tile];
  }
  max = warp_max(max);
  n_bad = warp_sum(n_bad);
  if (threadIdx.x % 32 == 0) {
    top[threadIdx.x / 32] = max;
    bad[threadIdx.x / 32] = n_bad;
  }
  __syncthreads();
  if (threadIdx.x >= 32)
    return;
  max = warp_max(top[threadIdx.x]);
  n_bad = warp_sum(bad[threadIdx.x]);
  if (threadIdx.x == 0) {
    totals->max = max;
    totals->n_bad = n_bad;
  }
}

static __global__ void __launch_bounds__(RS_THREADS)
    whole_weights_kernel(uint64_t *numbers, size_t n, fmc_weight_scale to, uint64_t *tile_sums) {
  __shared__ uint64_t shared[RS_WARPS];
  uint64_t sum = 0;
  for (int row = 0; row < RS_ROWS; row++)
    if (tile_place(row) < n) {
      double weight = fmc_from_bits(numbers[tile_place(row)]);
      uint64_t whole = to.is_log ? fmc_whole_of_log(weight, to) : fmc_whole_of_natural(weight, to);
      numbers[tile_place(row)] = whole;
      sum += whole;
    }
  sum = block_total(sum, shared);
  if (threadIdx.x == 0)
    tile_sums[blockIdx.x] = sum;
}

static __global__ void __launch_bounds__(RS_THREADS)
    residual_kernel(uint64_t *numbers, uint64_t *copies, size_t n, fmc_resample_plan plan, uint64_t *tile_copies) {
  __shared__ uint64_t shared[RS_WARPS];
  uint64_t sum = 0;
  for (int row = 0; row < RS_ROWS; row++)
    if (tile_place(row) < n) {
      uint64_t rest, n_copies = fmc_residual_copies(numbers[tile_place(row)], &plan, &rest);
      numbers[tile_place(row)] = rest;
      copies[tile_place(row)] = n_copies;
      sum += n_copies;
    }
  sum = block_total(sum, shared);
  if (threadIdx.x == 0)
    tile_copies[blockIdx.x] = sum;
}

static __global__ void __launch_bounds__(RS_THREADS)
    shift_kernel(uint64_t *numbers, size_t n, int shift, uint64_t *tile_sums) {
  __shared__ uint64_t shared[RS_WARPS];
  uint64_t sum = 0;
  for (int row = 0; row < RS_ROWS; row++)
    if (tile_place(row) < n) {
      uint64_t shifted = numbers[tile_place(row)] >> shift;
      numbers[tile_place(row)] = shifted;
      sum += shifted;
    }
  sum = block_total(sum, shared);
  if (threadIdx.x == 0)
    tile_sums[blockIdx.x] = sum;
}

/* Sums of tiles become what the tiles before each sum to. One block. */
static __global__ void __launch_bounds__(RS_SCAN_THREADS)
    scan_tiles_kernel(uint64_t *sums, size_t n_tiles, uint64_t *total) {
  __shared__ uint64_t warps[32];
  uint64_t before = 0;
  for (size_t first = 0; first < n_tiles; first += RS_SCAN_THREADS) {
    size_t tile = first + threadIdx.x;
    uint64_t own = tile < n_tiles ? sums[tile] : 0, up_to = warp_scan(own);
    __syncthreads(); /* the last round's sums have been read */
    if (threadIdx.x % 32 == 31)
      warps[threadIdx.x / 32] = up_to;
    __syncthreads();
    if (threadIdx.x < 32)
      warps[threadIdx.x] = warp_scan(warps[threadIdx.x]);
    __syncthreads();
    if (tile < n_tiles)
      sums[tile] = before + up_to - own + (threadIdx.x >= 32 ? warps[threadIdx.x / 32 - 1] : 0);
    before += warps[31];
  }
  if (threadIdx.x == 0)
    *total = before;
}

/* In place; `tile_before` is what the tiles before each sum to. */
static __global__ void __launch_bounds__(RS_THREADS)
    cumulate_kernel(uint64_t *numbers, size_t n, const uint64_t *tile_before) {
  __shared__ uint64_t before[RS_ROWS * RS_WARPS]; /* of each warp in each row, in the order of the numbers */
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, each = RS_ROWS * RS_WARPS / 32;
  uint64_t up_to[RS_ROWS];
#pragma unroll
  for (int row = 0; row < RS_ROWS; row++) {
    up_to[row] = warp_scan(tile_place(row) < n ? numbers[tile_place(row)] : 0);
    if (lane == 31)
      before[row * RS_WARPS + warp] = up_to[row];
  }
  __syncthreads();
  if (warp == 0) {
    uint64_t own[each], sum = 0, all;
#pragma unroll
    for (int k = 0; k < each; k++) {
      own[k] = before[lane * each + k];
      sum += own[k];
    }
    all = warp_scan(sum) - sum + tile_before[blockIdx.x];
#pragma unroll
    for (int k = 0; k < each; k++) {
      before[lane * each + k] = all;
      all += own[k];
    }
  }
  __syncthreads();
#pragma unroll
  for (int row = 0; row < RS_ROWS; row++)
    if (tile_place(row) < n)
      numbers[tile_place(row)] = up_to[row] + before[row * RS_WARPS + warp];
}

typedef struct {
  size_t n_weights, n_tiles;
  resample_memory memory;
  uint64_t base, sum, n_copies; /* positions base .. base + sum - 1 are ours; draws before n_copies are copies */
  fmc_resample_plan plan;       /* of the draws after the copies */
} resample_args;

/* The number, from 0, of the first that is cumulated to above `position`, which is below the sum. */
static __device__ size_t find_number(const uint64_t *cumulated, const uint64_t *tile_before, size_t n, size_t n_tiles,
                                     uint64_t position) {
  size_t tile = fmc_resample_search(tile_before + 1, 0, n_tiles - 1, position);
  size_t end = (tile + 1) * FMC_TILE;
  return fmc_resample_search(cumulated, tile * FMC_TILE, end < n ? end : n, position);
}

/* Draws first .. first + n - 1 of the result; Index is int or double. */
template <typename Index>
static __global__ void __launch_bounds__(RS_THREADS)
    resample_kernel(resample_args a, size_t first, size_t n, Index *out) {
  size_t at = (size_t)blockIdx.x * RS_THREADS + threadIdx.x, draw = first + at, index = 0;
  const resample_memory m = a.memory;
  if (at >= n)
    return;
  if (draw < a.n_copies) {
    index = 1 + find_number(m.copies, m.tile_copies, a.n_weights, a.n_tiles, draw);
  } else {
    uint64_t position = fmc_resample_position(&a.plan, draw - a.n_copies) - a.base;
    if (position < a.sum)
      index = 1 + find_number(m.numbers, m.tile_sums, a.n_weights, a.n_tiles, position);
  }
  out[at] = (Index)index;
}
