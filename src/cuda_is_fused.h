/* Importance sampling in one pass over the samples, for mixtures of up to FMC_FEW_COMPONENTS independent normals in up
 * to FMC_FEW_DIMS dims: a sample is drawn or read, weighed and summed without leaving the registers of its thread.
 * Template over REAL; read by backend_cuda.cu alone. */

/* Means and reciprocal sds of a component, in shared memory, where all threads read them together. Dims that are not
 * there have zeros; they add 0 to every sum of squares. */
typedef struct {
  REAL mean0, inv_sd0, mean1, inv_sd1;
} T(two_dims);

typedef struct {
  sample_range range;
  size_t n_dim, stride;
  const REAL *x; /* the first sample, columns `stride` apart; not where samples are drawn */
  fmc_keys keys;
  fmc_hidden hidden;
  uint64_t seed;
  T(fmc_draw_plan) plan;                               /* its arrays lie on the device */
  REAL draw_mean[FMC_FEW_DIMS], draw_sd[FMC_FEW_DIMS]; /* of the only component, where there is but one */
  T(mixture) target, proposal;
  double shift[FMC_FEW_DIMS];
  double *log_weights; /* or NULL */
  sample_notes notes;
  double *rows; /* a row for each tile */
} T(fused_args);

/* The terms of a component at points whose dims are at hand. */
template <int LANES, int POINTS>
static __device__ __forceinline__ void T(few_terms)(const T(two_dims) * component, REAL log_const,
                                                    const REAL (&x)[POINTS][LANES * FMC_BLOCK], REAL (&term)[POINTS]) {
  REAL sum[POINTS][LANES];
#pragma unroll
  for (int lane = 0; lane < LANES; lane++) {
#pragma unroll
    for (int p = 0; p < POINTS; p++)
      sum[p][lane] = 0;
#pragma unroll
    for (int d = lane * FMC_BLOCK; d < (lane + 1) * FMC_BLOCK; d += 2) {
      const T(two_dims) c = component[d / 2];
#pragma unroll
      for (int p = 0; p < POINTS; p++) {
        sum[p][lane] = T(fmc_square_add)(sum[p][lane], x[p][d], c.mean0, c.inv_sd0);
        sum[p][lane] = T(fmc_square_add)(sum[p][lane], x[p][d + 1], c.mean1, c.inv_sd1);
      }
    }
  }
#pragma unroll
  for (int p = 0; p < POINTS; p++)
    term[p] = T(fmc_log_component)(log_const, T(tree_of_lanes)(sum[p]));
}

/* As fmc_leaf_mixture(). */
template <int LANES, int POINTS>
static __device__ __forceinline__ void T(few_log_density)(const T(two_dims) * component, const REAL *log_const,
                                                          int n_components, const REAL (&x)[POINTS][LANES * FMC_BLOCK],
                                                          REAL (&log_density)[POINTS]) {
  REAL scaled[POINTS], term[POINTS];
  T(few_terms)<LANES, POINTS>(component, log_const[0], x, log_density);
  if (n_components == 1)
    return;
#pragma unroll
  for (int p = 0; p < POINTS; p++)
    scaled[p] = 1;
#pragma unroll 1
  for (int k = 1; k < n_components; k++) {
    component += LANES * FMC_BLOCK / 2;
    T(few_terms)<LANES, POINTS>(component, log_const[k], x, term);
#pragma unroll
    for (int p = 0; p < POINTS; p++)
      T(fmc_lse_add)(&log_density[p], &scaled[p], term[p]);
  }
#pragma unroll
  for (int p = 0; p < POINTS; p++)
    log_density[p] += R_LOG(scaled[p]);
}

/* As fmc_draw_point(), of independent normals. */
template <int LANES>
static __device__ __forceinline__ void T(few_draw)(const T(fused_args) & a, uint64_t number, const normal_copy *table,
                                                   REAL (&x)[LANES * FMC_BLOCK]) {
  const int one = a.plan.count == 1;
  const size_t k = one ? 0 : T(fmc_draw_component_of)(&a.plan, a.seed, number);
  const REAL *mean = a.plan.mean + k * a.n_dim, *sd = a.plan.factor + k * a.n_dim;
#pragma unroll
  for (int block = 0; block < LANES; block++) {
    fmc_words w = {FMC_DRAW_NORMALS, (uint32_t)FMC_PURPOSE_DRAW << 28 | (uint32_t)block, (uint32_t)number,
                   (uint32_t)(number >> 32)};
    w = fmc_philox_keyed(w, &a.keys);
    const uint32_t word[FMC_BLOCK] = {w.w0, w.w1, w.w2, w.w3};
#pragma unroll
    for (int j = 0; j < FMC_BLOCK; j++) {
      const int d = block * FMC_BLOCK + j;
      REAL z = (REAL)normal_from_copy(table, word[j]);
      if (one)
        x[d] = a.draw_mean[d] + a.draw_sd[d] * z;
      else
        x[d] = d < (int)a.n_dim ? mean[d] + sd[d] * z : (REAL)0;
    }
  }
}

template <int N>
static __device__ __forceinline__ void T(few_load)(const T(fused_args) & a, T(two_dims) * components, REAL *log_const) {
  const int n_dim = (int)a.n_dim, n_target = (int)a.target.n_components;
  const int n_components = n_target + (int)a.proposal.n_components;
  for (int e = threadIdx.x; e < n_components * N; e += FMC_TILE_LANES) {
    const int k = e / N, d = e % N;
    const T(mixture) *m = k < n_target ? &a.target : &a.proposal;
    const int row = (k < n_target ? k : k - n_target) * n_dim;
    REAL *to = (REAL *)components + 2 * e;
    to[0] = d < n_dim ? m->mean[row + d] : (REAL)0;
    to[1] = d < n_dim ? m->inv_sd[row + d] : (REAL)0;
    if (d == 0)
      log_const[k] = m->log_const[k < n_target ? k : k - n_target];
  }
  __syncthreads();
}

/* The part of a warp's samples that a thread copies into shared memory, 16 bytes at a time: every COLUMNS-th column
 * from its first on. */
typedef struct {
  const REAL *from; /* of sample 0 */
  size_t step;      /* to its next column */
  int n_columns;    /* from its first column to the last */
  shared_place to;  /* in the first stage */
} T(few_copy);

/* Starts the copies of ROWS rows; i is the local number of this thread's first sample. Samples after the last are
 * copied too, as far as the 16 bytes go. */
template <int N, int ROWS>
static __device__ __forceinline__ void T(few_fetch)(const T(few_copy) & c, int i, int n, int stage) {
  const int COLUMNS = FMC_FETCH_BYTES / (int)sizeof(REAL), ROW = FMC_TILE_LANES * (int)sizeof(REAL);
  const REAL *at = c.from + i;
  shared_place to = c.to + stage * ROW;
  bool is_there[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; r++)
    is_there[r] = (unsigned)(i + r * FMC_TILE_LANES) < (unsigned)n;
#pragma unroll
  for (int d = 0; d < N; d += COLUMNS, at += c.step, to += COLUMNS * ROW) {
    copy_to_shared<0, 0>(to, at, is_there[0] & (d < c.n_columns));
    if (ROWS == 2)
      copy_to_shared<N * ROW, ROW>(to, at, is_there[ROWS - 1] & (d < c.n_columns));
  }
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

/* Adds ROWS samples that are all there, from number i on, a row apart. The sums of x are simple where no weight or
 * scale has underflowed. */
template <int N, bool SQUARES, int ROWS>
static __device__ __forceinline__ void T(few_add)(const T(fused_args) & a, int i, const REAL *log_ratio,
                                                  const REAL (*x)[N], T(few_sums) < N, SQUARES > &s) {
  double log_weight[ROWS], w[ROWS], scale[ROWS];
  bool plain = true, simple = true;
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    log_weight[r] = (double)log_ratio[r];
    plain &= is_plain(a.notes, log_weight[r]);
  }
  if (a.log_weights)
#pragma unroll
    for (int r = 0; r < ROWS; r++)
      __stcs(a.log_weights + i + r * FMC_TILE_LANES, log_weight[r]);
  if (!plain)
#pragma unroll
    for (int r = 0; r < ROWS; r++)
      log_weight[r] =
          note_sample(a.notes, log_weight[r], a.range.first + (uint64_t)(i + r * FMC_TILE_LANES), &s.n_bad, &s.n_zero);
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    w[r] = fmc_online_good_weight(&s.max, log_weight[r], &scale[r]);
    simple &= (w[r] > 0) & (scale[r] > 0);
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
  put_warp_sum(fmc_rescaled(s.sum, factor), PARTIAL_SUM, partial);
  put_warp_sum(fmc_rescaled(s.sum_squares, factor * factor), PARTIAL_SQUARES, partial);
  put_warp_sum(COUNTS(s.n_bad, s.n_zero), PARTIAL_COUNTS, partial);
#pragma unroll
  for (int d = 0; d < N; d++) {
    put_warp_sum(fmc_rescaled(s.sum_x[d], factor), PARTIAL_COLUMNS + d, partial);
    if (SQUARES)
      put_warp_sum(fmc_rescaled(s.second[SQUARES ? d : 0], factor), PARTIAL_COLUMNS + N + d, partial);
  }
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
  __shared__ T(two_dims) components[FMC_FEW_COMPONENTS * N / 2];
  __shared__ REAL log_const[FMC_FEW_COMPONENTS];
  const int n_target = (int)a.target.n_components, n_proposal = (int)a.proposal.n_components;
  float4 *copies = (float4 *)fused_shared;
  const normal_copy table = copy_of_thread(copies, a.hidden);
  REAL(*state)[FMC_TILE_LANES] = (REAL(*)[FMC_TILE_LANES])fused_shared; /* two stages of ROWS x N */
  const int n = (int)a.range.n, lead = (int)lead_of(&a.range), n_tiles = (int)n_tiles_of(&a.range);
  int i = (int)blockIdx.x * FMC_TILE - lead + (int)threadIdx.x, now = 0;

  const int lane = (int)threadIdx.x % 32, column = lane / (32 / PIECE), ahead = lane % (32 / PIECE) * PIECE - lane;
  const T(few_copy) copy = {a.x + column * a.stride, PIECE * a.stride, (int)a.n_dim - column,
                            place_in_shared(&state[column][(int)threadIdx.x + ahead])};

  T(few_load)<N>(a, components, log_const);
  if (DRAWN) {
    load_normal_copies(copies);
  } else {
    for (int d = (int)a.n_dim; d < N; d++)
      for (int r = 0; r < 2 * ROWS; r++)
        state[r * N + d][threadIdx.x] = 0;
    T(few_fetch)<N, ROWS>(copy, i + ahead, n, 0);
  }
#pragma unroll 1
  for (int tile = (int)blockIdx.x; tile < n_tiles; tile += (int)gridDim.x) {
    T(few_sums)<N, SQUARES> sums;
    T(few_clear)(sums);
#pragma unroll 1
    for (int row = 0; row < FMC_TILE_ROWS; row += ROWS) {
      const int next = row + ROWS < FMC_TILE_ROWS ? i + ROWS * FMC_TILE_LANES
                                                  : (tile + (int)gridDim.x) * FMC_TILE - lead + (int)threadIdx.x;
      REAL x[ROWS][N], log_p[ROWS], log_q[ROWS];
      if (DRAWN) {
#pragma unroll
        for (int r = 0; r < ROWS; r++)
          T(few_draw)<LANES>(a, a.range.first + (uint64_t)(int64_t)(i + r * FMC_TILE_LANES), &table, x[r]);
      } else {
        __syncwarp(); /* what lies there has been read */
        T(few_fetch)<N, ROWS>(copy, next + ahead, n, STAGE - now);
        __pipeline_wait_prior(1);
        __syncwarp();
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
          for (int d = 0; d < N; d++)
            x[r][d] = state[now + r * N + d][threadIdx.x];
      }
      T(few_log_density)<LANES, ROWS>(components, log_const, n_target, x, log_p);
      T(few_log_density)<LANES, ROWS>(components + n_target * N / 2, log_const + n_target, n_proposal, x, log_q);
      REAL log_ratio[ROWS];
#pragma unroll
      for (int r = 0; r < ROWS; r++)
        log_ratio[r] = log_p[r] - log_q[r];
      if ((unsigned)i < (unsigned)n && (unsigned)(i + (ROWS - 1) * FMC_TILE_LANES) < (unsigned)n)
        T(few_add)<N, SQUARES, ROWS>(a, i, log_ratio, x, sums);
      else if (ROWS > 1)
#pragma unroll
        for (int r = 0; r < ROWS; r++)
          if ((unsigned)(i + r * FMC_TILE_LANES) < (unsigned)n)
            T(few_add)<N, SQUARES, 1>(a, i + r * FMC_TILE_LANES, log_ratio + r, x + r, sums);
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
