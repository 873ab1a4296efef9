/* Sums over tiles of samples whose log weights are known. Template over REAL; read by backend_cuda.cu alone. */

typedef struct {
  sample_range range;
  size_t n_dim, stride; /* n_dim 0: sums of the weights alone */
  const REAL *x;        /* columns `stride` apart */
  const double *log_weights;
  int moments;         /* FMC_MOMENTS_ */
  const double *shift; /* n_dim, on the device, where there are moments */
  sample_notes notes;
  double *rows; /* of core/weighted_sums.h, a row for each tile */
} T(tile_sums_args);

/* A column of the second moments: rows and columns of the lower triangle. */
static __device__ __forceinline__ void T(moment_dims)(int moments, size_t m, size_t *i, size_t *j) {
  if (moments == FMC_MOMENTS_SQUARES) {
    *i = *j = m;
    return;
  }
  size_t row = (size_t)((sqrt(8.0 * (double)m + 1.0) - 1.0) / 2.0);
  while (row * (row + 1) / 2 > m)
    row--;
  while ((row + 1) * (row + 2) / 2 <= m)
    row++;
  *i = row;
  *j = m - row * (row + 1) / 2;
}

/* A lane's sum of column c; rows first_row .. end_row - 1 of the tile are there, and row 0 would be sample `base`. */
static __device__ __forceinline__ double T(lane_column)(const T(tile_sums_args) & a, const double *w,
                                                        const double *scale, size_t c, ptrdiff_t base, int first_row,
                                                        int end_row) {
  size_t i = c, j = c;
  const bool second = c >= a.n_dim;
  if (second)
    T(moment_dims)(a.moments, c - a.n_dim, &i, &j);
  const REAL *x = a.x + (ptrdiff_t)(i * a.stride) + base, *y = a.x + (ptrdiff_t)(j * a.stride) + base;
  const double shift_x = second ? a.shift[i] : 0, shift_y = second ? a.shift[j] : 0;
  double sum = 0, value[FMC_TILE_ROWS]; /* loads that do not wait for each other */
#pragma unroll
  for (int row = 0; row < FMC_TILE_ROWS; row++)
    value[row] = row >= first_row && row < end_row ? (double)x[row * FMC_TILE_LANES] : 0.0;
  if (second) {
#pragma unroll
    for (int row = 0; row < FMC_TILE_ROWS; row++) {
      const double other = row >= first_row && row < end_row ? (double)y[row * FMC_TILE_LANES] : 0.0;
      value[row] = fmc_moment(value[row], shift_x, other, shift_y);
    }
  }
#pragma unroll
  for (int row = 0; row < FMC_TILE_ROWS; row++)
    if (row >= first_row && row < end_row)
      sum = fmc_weighted_add(sum, scale[row], w[row], value[row]);
  return sum;
}

/* A block per tile (x) and group of `per_group` columns (y, and on by gridDim.y); a thread per lane. */
static __global__ void __launch_bounds__(FMC_TILE_LANES, 2)
    T(tile_sums_kernel)(const __grid_constant__ T(tile_sums_args) a, size_t n_columns, int per_group) {
  __shared__ double partial[PARTIAL_COLUMNS + FMC_DIM_GROUP][FMC_TILE_WARPS], for_max[FMC_TILE_WARPS];
  const ptrdiff_t base = (ptrdiff_t)blockIdx.x * FMC_TILE - lead_of(&a.range) + threadIdx.x, n = (ptrdiff_t)a.range.n;
  double w[FMC_TILE_ROWS], scale[FMC_TILE_ROWS], max = -FMC_INF, sum = 0, sum_squares = 0;
  unsigned n_bad = 0, n_zero = 0;
  int first_row = 0, end_row = 0;
#pragma unroll
  for (int row = 0; row < FMC_TILE_ROWS; row++) {
    const ptrdiff_t i = base + row * FMC_TILE_LANES;
    first_row += i < 0;
    end_row += i < n;
    w[row] = i >= 0 && i < n ? a.log_weights[i] : -FMC_INF;
  }
  bool plain = first_row == 0 && end_row == FMC_TILE_ROWS;
#pragma unroll
  for (int row = 0; row < FMC_TILE_ROWS; row++)
    plain &= is_plain(a.notes, w[row]);
  if (plain) { /* exponentials side by side */
#pragma unroll
    for (int row = 0; row < FMC_TILE_ROWS; row++)
      w[row] = fmc_online_good_weight(&max, w[row], &scale[row]);
  }
#pragma unroll
  for (int row = 0; row < FMC_TILE_ROWS && !plain; row++) {
    if (row < first_row || row >= end_row)
      continue;
    if (blockIdx.y == 0)
      w[row] = note_sample(a.notes, w[row], a.range.first + (uint64_t)(base + row * FMC_TILE_LANES), &n_bad, &n_zero);
    else
      w[row] = fmc_log_weight_bad(w[row]) ? -FMC_INF : w[row];
    w[row] = fmc_online_good_weight(&max, w[row], &scale[row]);
  }
  const double top = block_max(max, for_max), factor = fmc_rescale_factor(max, top);
  if (blockIdx.y == 0) {
#pragma unroll
    for (int row = 0; row < FMC_TILE_ROWS; row++) {
      if (row < first_row || row >= end_row)
        continue;
      sum = fmc_fma(sum, scale[row], w[row]);
      sum_squares = fmc_fma(sum_squares, scale[row] * scale[row], w[row] * w[row]);
    }
    put_warp_sum(fmc_rescaled(sum, factor), PARTIAL_SUM, partial);
    put_warp_sum(fmc_rescaled(sum_squares, factor * factor), PARTIAL_SQUARES, partial);
    put_warp_sum(COUNTS(n_bad, n_zero), PARTIAL_COUNTS, partial);
  }
  double *out = a.rows + (size_t)blockIdx.x * (FMC_SUMMARY_COLUMNS + n_columns);
  const size_t n_groups = (n_columns + per_group - 1) / per_group;
  size_t group = blockIdx.y;
  do {
    const size_t first = group * per_group;
    const int n_here = first < n_columns ? (int)(n_columns - first < per_group ? n_columns - first : per_group) : 0;
#pragma unroll 1
    for (int c = 0; c < n_here; c++)
      put_warp_sum(fmc_rescaled(T(lane_column)(a, w, scale, first + c, base, first_row, end_row), factor),
                   PARTIAL_COLUMNS + c, partial);
    __syncthreads();
    if (group == 0 && threadIdx.x == FMC_TILE_LANES - 1)
      put_head(out, a.range, blockIdx.x, top, partial);
    if ((int)threadIdx.x < n_here)
      out[FMC_SUMMARY_COLUMNS + first + threadIdx.x] = sum_of_warps(partial, PARTIAL_COLUMNS + (int)threadIdx.x);
    __syncthreads();
    group += gridDim.y;
  } while (group < n_groups);
}

/* Few tiles are spread over more blocks. */
static void T(launch_tile_sums)(const T(tile_sums_args) * args, cudaStream_t stream) {
  size_t n_tiles = n_tiles_of(&args->range), n_columns = args->n_dim + fmc_n_moments(args->n_dim, args->moments);
  int per_group = FMC_DIM_GROUP;
  while (per_group > 1 && n_tiles * ((n_columns + per_group - 1) / per_group) < (size_t)kept.n_sms)
    per_group /= 2;
  size_t n_groups = (n_columns + per_group - 1) / per_group;
  dim3 grid((unsigned)n_tiles, (unsigned)smaller(n_groups ? n_groups : 1, 65535));
  T(tile_sums_kernel)<<<grid, FMC_TILE_LANES, 0, stream>>>(*args, n_columns, per_group);
}
