/* Importance sampling in one pass over the samples, for mixtures of up to FMC_FEW_COMPONENTS independent normals in up
 * to FMC_FEW_DIMS dims: a sample is drawn or read, weighed and summed without leaving the registers of its thread.
 * Template over REAL; read by backend_cuda.cu alone. */

/* The part of a warp's samples that a thread copies into shared memory, 16 bytes at a time: every COLUMNS-th column
 * from its first on. */
typedef struct {
  const REAL *from; /* of sample 0 */
  size_t step;      /* to its next column */
  int n_columns;    /* from its first column to the last */
  shared_place to;  /* in the first stage */
} T(few_copy);

/* The columns of N from column D on; ALL: none is missing. */
template <int N, int ROWS, int D, bool ALL>
static __device__ __forceinline__ void T(few_fetch_from)(const T(few_copy) & c, const REAL *at, shared_place to,
                                                         const bool (&is_there)[ROWS]) {
  const int COLUMNS = FMC_FETCH_BYTES / (int)sizeof(REAL), ROW = FMC_TILE_LANES * (int)sizeof(REAL);
  const bool wanted = ALL || D < c.n_columns;
  copy_to_shared<D * ROW, 0>(to, at, is_there[0] & wanted);
  if (ROWS == 2)
    copy_to_shared<(N + D) * ROW, ROW>(to, at, is_there[ROWS - 1] & wanted);
  if constexpr (D + COLUMNS < N)
    T(few_fetch_from)<N, ROWS, D + COLUMNS, ALL>(c, at + c.step, to, is_there);
}

/* Starts the copies of ROWS rows; i is the local number of this thread's first sample. Samples after the last are
 * copied too, as far as the 16 bytes go. */
template <int N, int ROWS>
static __device__ __forceinline__ void T(few_fetch)(const T(few_copy) & c, int n_dim, int i, int n, int stage) {
  const shared_place to = c.to + stage * FMC_TILE_LANES * (int)sizeof(REAL);
  bool is_there[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; r++)
    is_there[r] = (unsigned)(i + r * FMC_TILE_LANES) < (unsigned)n;
  if (n_dim == N)
    T(few_fetch_from)<N, ROWS, 0, true>(c, c.from + i, to, is_there);
  else
    T(few_fetch_from)<N, ROWS, 0, false>(c, c.from + i, to, is_there);
  __pipeline_commit();
}

/* A lane's sums. */
template <int N, bool SQUARES> struct T(few_sums) {
  double max, sum, sum_squares, sum_x[N], second[SQUARES ? N : 1];
  unsigned n_bad, n_zero;
};

template <int N, bool SQUARES> static __device__ __forceinline__ void T(few_clear)(T(few_sums) < N, SQUARES > &s) {
  s.max = -FMC_INF;
  s.sum = s.sum_squares = 0;
  s.n_bad = s.n_zero = 0;
#pragma unroll
  for (int d = 0; d < N; d++)
    s.sum_x[d] = s.second[SQUARES ? d : 0] = 0;
}

/* Adds ROWS samples that are all there, from number i on, a row apart; is_first: before them the lane has none. */
template <int N, bool SQUARES, int ROWS>
static __device__ __forceinline__ void T(few_add)(const T(fused_args) & a, int i, bool is_first, const REAL *log_ratio,
                                                  const REAL (*x)[N], T(few_sums) < N, SQUARES > &s) {
  double log_weight[ROWS], below[ROWS], w[ROWS], scale[ROWS];
  /* Sums that are 0 may be taken for relative to the first log weight. */
  double max = is_first ? (double)log_ratio[0] : s.max;
  bool simple = true;
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    log_weight[r] = (double)log_ratio[r];
    below[r] = max - log_weight[r];
    simple &= is_plain(a.notes, log_weight[r]) & (fmc_abs(below[r]) < FMC_EXP_NEAR);
    max = log_weight[r] > max ? log_weight[r] : max;
  }
  if (a.log_weights)
#pragma unroll
    for (int r = 0; r < ROWS; r++)
      __stcs(a.log_weights + i + r * FMC_TILE_LANES, log_weight[r]);
  if (simple) { /* no weight or scale underflows */
    s.max = max;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
      w[r] = fmc_online_near_weight(below[r], &scale[r]);
  } else {
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const uint64_t number = a.range.first + (uint64_t)(i + r * FMC_TILE_LANES);
      log_weight[r] = note_sample(a.notes, log_weight[r], number, &s.n_bad, &s.n_zero);
      w[r] = fmc_online_good_weight(&s.max, log_weight[r], &scale[r]);
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    s.sum = fmc_fma(s.sum, scale[r], w[r]);
    s.sum_squares = fmc_fma(s.sum_squares, scale[r] * scale[r], w[r] * w[r]);
  }
  if (simple) {
#pragma unroll
    for (int d = 0; d < N; d++)
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        const double xd = (double)x[r][d];
        s.sum_x[d] = fmc_fma(s.sum_x[d], scale[r], w[r] * xd);
        if (SQUARES)
          s.second[SQUARES ? d : 0] =
              fmc_fma(s.second[SQUARES ? d : 0], scale[r], w[r] * fmc_moment(xd, a.shift[d], xd, a.shift[d]));
      }
  } else {
#pragma unroll
    for (int d = 0; d < N; d++)
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        const double xd = (double)x[r][d];
        s.sum_x[d] = fmc_weighted_add(s.sum_x[d], scale[r], w[r], xd);
        if (SQUARES)
          s.second[SQUARES ? d : 0] =
              fmc_weighted_add(s.second[SQUARES ? d : 0], scale[r], w[r], fmc_moment(xd, a.shift[d], xd, a.shift[d]));
      }
  }
}

/* Reduces a block's lanes to the tile's row. */
template <int N, bool SQUARES>
static __device__ __forceinline__ void T(few_finish)(const T(fused_args) & a, int tile, T(few_sums) < N, SQUARES > &s,
                                                     double (*partial)[FMC_TILE_WARPS], double *for_max) {
  const double top = block_max(s.max, for_max), factor = fmc_rescale_factor(s.max, top);
  double head[4] = {fmc_rescaled(s.sum, factor), fmc_rescaled(s.sum_squares, factor * factor),
                    COUNTS(s.n_bad, s.n_zero), 0};
  put_warp_sums(head, PARTIAL_SUM, PARTIAL_COLUMNS, partial);
  if (__all_sync(0xffffffffu, factor > 0)) {
#pragma unroll
    for (int d = 0; d < N; d++) {
      s.sum_x[d] = s.sum_x[d] * factor;
      if (SQUARES)
        s.second[SQUARES ? d : 0] = s.second[SQUARES ? d : 0] * factor;
    }
  } else {
#pragma unroll
    for (int d = 0; d < N; d++) {
      s.sum_x[d] = fmc_rescaled(s.sum_x[d], factor);
      if (SQUARES)
        s.second[SQUARES ? d : 0] = fmc_rescaled(s.second[SQUARES ? d : 0], factor);
    }
  }
  put_warp_sums(s.sum_x, PARTIAL_COLUMNS, N, partial);
  if (SQUARES)
    put_warp_sums(s.second, PARTIAL_COLUMNS + N, N, partial);
  __syncthreads();
  const int n_dim = (int)a.n_dim, d = (int)threadIdx.x % N, second = (int)threadIdx.x / N;
  double *out = a.rows + (size_t)tile * (FMC_SUMMARY_COLUMNS + (SQUARES ? 2 : 1) * n_dim);
  if (threadIdx.x == FMC_TILE_LANES - 1)
    put_head(out, a.range, (size_t)tile, top, partial);
  if (second <= (SQUARES ? 1 : 0) && d < n_dim)
    out[FMC_SUMMARY_COLUMNS + second * n_dim + d] = sum_of_warps(partial, PARTIAL_COLUMNS + (int)threadIdx.x);
  /* block_max() of the next tile has a barrier before anyone writes to `partial` again */
}

/* Rows of a tile that a thread computes side by side. Two share the loads of parameters and hide each other's waits; in
 * double they would not fit into registers. */
#define FUSED_ROWS(squares) (IS_SINGLE && !(squares) ? 2 : 1)

/* A block takes a tile at a time, a thread a lane of it. LANES: fmc_n_lanes(n_dim). Samples that are read are on their
 * way to shared memory while those before them are computed. */
template <int LANES, bool DRAWN, bool SQUARES>
static __global__ void __launch_bounds__(FMC_TILE_LANES, 2) T(fused_kernel)(const __grid_constant__ T(fused_args) a) {
  const int N = LANES * FMC_BLOCK, ROWS = FUSED_ROWS(SQUARES), STAGE = ROWS * N;
  const int PIECE = FMC_FETCH_BYTES / (int)sizeof(REAL);
  extern __shared__ __align__(16) char fused_shared[];
  __shared__ double partial[PARTIAL_COLUMNS + N + (SQUARES ? N : 0)][FMC_TILE_WARPS], for_max[FMC_TILE_WARPS];
  float4 *copies = (float4 *)fused_shared;
  const normal_copy table = copy_of_thread(copies, a.hidden);
  REAL(*state)[FMC_TILE_LANES] = (REAL(*)[FMC_TILE_LANES])fused_shared; /* two stages of ROWS x N */
  const int n_dim = (int)a.n_dim, n = (int)a.range.n, lead = (int)lead_of(&a.range),
            n_tiles = (int)n_tiles_of(&a.range);
  int i = (int)blockIdx.x * FMC_TILE - lead + (int)threadIdx.x, now = 0;

  const int lane = (int)threadIdx.x % 32, column = lane / (32 / PIECE), ahead = lane % (32 / PIECE) * PIECE - lane;
  const T(few_copy) copy = {a.x + column * a.stride, PIECE * a.stride, n_dim - column,
                            place_in_shared(&state[column][(int)threadIdx.x + ahead])};

  if (DRAWN) {
    load_normal_copies(copies);
  } else {
    for (int d = n_dim; d < N; d++)
      for (int r = 0; r < 2 * ROWS; r++)
        state[r * N + d][threadIdx.x] = 0;
    T(few_fetch)<N, ROWS>(copy, n_dim, i + ahead, n, 0);
  }
#pragma unroll 1
  for (int tile = (int)blockIdx.x; tile < n_tiles; tile += (int)gridDim.x) {
    T(few_sums)<N, SQUARES> sums;
    T(few_clear)(sums);
#pragma unroll 1
    for (int row = 0; row < FMC_TILE_ROWS; row += ROWS) {
      const int next = row + ROWS < FMC_TILE_ROWS ? i + ROWS * FMC_TILE_LANES
                                                  : (tile + (int)gridDim.x) * FMC_TILE - lead + (int)threadIdx.x;
      REAL x[ROWS][N], log_ratio[ROWS], log_q[ROWS];
      if (DRAWN) {
        T(few_draw)<LANES, ROWS>(a, a.range.first + (uint64_t)(int64_t)i, &table, x);
      } else {
        __syncwarp(); /* what lies there has been read */
        T(few_fetch)<N, ROWS>(copy, n_dim, next + ahead, n, STAGE - now);
        __pipeline_wait_prior(1);
        __syncwarp();
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
          for (int d = 0; d < N; d++)
            x[r][d] = state[now + r * N + d][threadIdx.x];
      }
      T(few_log_density)<LANES, ROWS, false>(a, x, log_ratio);
      T(few_log_density)<LANES, ROWS, true>(a, x, log_q);
#pragma unroll
      for (int r = 0; r < ROWS; r++)
        log_ratio[r] = log_ratio[r] - log_q[r];
      if ((unsigned)i < (unsigned)n && (unsigned)(i + (ROWS - 1) * FMC_TILE_LANES) < (unsigned)n)
        T(few_add)<N, SQUARES, ROWS>(a, i, row == 0, log_ratio, x, sums);
      else if (ROWS > 1)
#pragma unroll
        for (int r = 0; r < ROWS; r++)
          if ((unsigned)(i + r * FMC_TILE_LANES) < (unsigned)n)
            T(few_add)<N, SQUARES, 1>(a, i + r * FMC_TILE_LANES, false, log_ratio + r, x + r, sums);
      i = next;
      now = STAGE - now;
    }
    T(few_finish)(a, tile, sums, partial, for_max);
  }
}

static size_t T(fused_shared_bytes)(int lanes, int drawn, int squares) {
  size_t table = FMC_NORMAL_COPIES * FMC_NORMAL_ROWS * sizeof(float4);
  size_t x = FUSED_ROWS(squares) * (size_t)lanes * FMC_BLOCK * FMC_TILE_LANES * sizeof(REAL);
  return drawn ? table : 2 * x;
}

template <int LANES, bool DRAWN, bool SQUARES>
static fmc_status T(launch_fused_as)(const T(fused_args) * args, cudaStream_t stream, fmc_context *context) {
  fmc_status status = FMC_OK;
  size_t shared = T(fused_shared_bytes)(LANES, DRAWN, SQUARES);
  unsigned grid = (unsigned)smaller(n_tiles_of(&args->range), 2 * (size_t)kept.n_sms);
  TRY(cudaFuncSetAttribute(T(fused_kernel) < LANES, DRAWN, SQUARES >, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           (int)shared));
  T(fused_kernel)<LANES, DRAWN, SQUARES><<<grid, FMC_TILE_LANES, shared, stream>>>(*args);
  TRY(cudaGetLastError());
done:
  return status;
}

template <int LANES>
static fmc_status T(launch_fused_lanes)(const T(fused_args) * args, int squares, cudaStream_t stream,
                                        fmc_context *context) {
  if (args->x)
    return squares ? T(launch_fused_as)<LANES, false, true>(args, stream, context)
                   : T(launch_fused_as)<LANES, false, false>(args, stream, context);
  return squares ? T(launch_fused_as)<LANES, true, true>(args, stream, context)
                 : T(launch_fused_as)<LANES, true, false>(args, stream, context);
}

/* At most 2^30 samples. */
static fmc_status T(launch_fused)(const T(fused_args) * args, int squares, cudaStream_t stream, fmc_context *context) {
  switch (fmc_n_lanes(args->n_dim)) {
  case 1:
    return T(launch_fused_lanes)<1>(args, squares, stream, context);
  case 2:
    return T(launch_fused_lanes)<2>(args, squares, stream, context);
  default:
    return T(launch_fused_lanes)<4>(args, squares, stream, context);
  }
}
