/* CUDA kernels and their launchers. Template over REAL; read by backend_cuda.cu alone.
 *
 * Matrices are column-major, so neighbouring threads take neighbouring rows and every access is coalesced. */

typedef struct {
  size_t n_chains, n_dim;
  const REAL *x, *noise, *step_size; /* noise may be NULL */
  const double *u;                   /* may be NULL */
  int cholesky;
  uint64_t seed, first_chain;
  uint32_t step;
  T(fmc_density) target;
  REAL *x_new, *log_density, *log_alpha;
  REAL *scratch; /* n_chains x n_dim, for a Cholesky factor alone */
  int *accepted;
} T(mh_args);

/* Sums of squares of one component at x_new and x, by all threads of a block: each takes some lanes of its chain, and the
 * lanes' tree runs in shared memory, lanes[2][n_lanes][blockDim.x]. */
static __device__ void T(block_squares)(const T(mh_args) & a, size_t component, size_t chain, bool live, size_t n_lanes,
                                        REAL *lanes, REAL *squares_new, REAL *squares_old) {
  const REAL *mean = a.target.mean + component * a.n_dim, *inv_sd = a.target.inv_sd + component * a.n_dim;
  size_t width = blockDim.x, other = n_lanes * width;
  __syncthreads(); /* the last component's sums have been read */
  for (size_t lane = threadIdx.y; lane < n_lanes; lane += blockDim.y) {
    REAL sum_new = 0, sum_old = 0;
    if (live) {
      T(fmc_lane_squares)(a.x_new + chain, a.n_chains, 1, a.n_dim, n_lanes, lane, mean, inv_sd, &sum_new);
      T(fmc_lane_squares)(a.x + chain, a.n_chains, 1, a.n_dim, n_lanes, lane, mean, inv_sd, &sum_old);
    }
    lanes[lane * width + threadIdx.x] = sum_new;
    lanes[other + lane * width + threadIdx.x] = sum_old;
  }
  for (size_t stride = 1; stride < n_lanes; stride *= 2) {
    __syncthreads();
    for (size_t lane = threadIdx.y * 2 * stride; lane < n_lanes; lane += blockDim.y * 2 * stride) {
      REAL *sum = lanes + lane * width + threadIdx.x;
      sum[0] = sum[0] + sum[stride * width];
      sum[other] = sum[other] + sum[other + stride * width];
    }
  }
  __syncthreads();
  *squares_new = lanes[threadIdx.x];
  *squares_old = lanes[other + threadIdx.x];
}

static __device__ REAL T(move_by_factor)(const T(mh_args) & a, size_t d, size_t chain) {
  const REAL *row = a.step_size + d * a.n_dim, *z = a.scratch + chain;
  REAL move = row[0] * z[0];
  for (size_t j = 1; j <= d; j++)
    move = move + row[j] * z[j * a.n_chains];
  return move;
}

/* Proposals, or with a Cholesky factor the noise, of this thread's lanes. */
static __device__ void T(propose_lanes)(const T(mh_args) & a, size_t chain, size_t n_lanes, const float (*table)[4]) {
  for (size_t lane = threadIdx.y; lane < n_lanes; lane += blockDim.y)
    for (size_t block = lane; block * FMC_BLOCK < a.n_dim; block += n_lanes) {
      fmc_words w = {0, 0, 0, 0};
      if (!a.noise)
        w = fmc_words_for(a.seed, FMC_PURPOSE_NOISE, a.step, (uint32_t)block, a.first_chain + chain);
      uint32_t word[FMC_BLOCK] = {w.w0, w.w1, w.w2, w.w3};
#pragma unroll
      for (int j = 0; j < FMC_BLOCK; j++) {
        size_t d = block * FMC_BLOCK + j, at = d * a.n_chains + chain;
        if (d >= a.n_dim)
          break;
        REAL z = a.noise ? a.noise[at] : (REAL)fmc_normal(word[j], table);
        if (a.cholesky)
          a.scratch[at] = z;
        else
          a.x_new[at] = T(fmc_propose)(a.x[at], a.step_size[d], z);
      }
    }
}

/* A block of blockDim.x chains by blockDim.y threads a chain. 512 threads at most, so that two blocks fit an SM. */
static __global__ void __launch_bounds__(512, 2) T(mh_step_kernel)(T(mh_args) a) {
  extern __shared__ double shared[];
  float(*table)[4] = (float(*)[4])shared;
  REAL *lanes = (REAL *)(shared + sizeof(fmc_normal_table) / sizeof(double));
  __shared__ int code[32];
  size_t n_lanes = fmc_n_lanes(a.n_dim);

  if (!a.noise)
    for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < 4 * FMC_NORMAL_ROWS; i += blockDim.x * blockDim.y)
      table[i / 4][i % 4] = fmc_normal_table[i / 4][i % 4];
  __syncthreads();

  for (size_t first = (size_t)blockIdx.x * blockDim.x; first < a.n_chains; first += (size_t)gridDim.x * blockDim.x) {
    size_t chain = first + threadIdx.x;
    bool live = chain < a.n_chains; /* every thread takes part in the barriers */
    if (live)
      T(propose_lanes)(a, chain, n_lanes, table);
    if (a.cholesky) {
      __syncthreads();
      if (live)
        for (size_t block = threadIdx.y; block * FMC_BLOCK < a.n_dim; block += blockDim.y)
          for (size_t d = block * FMC_BLOCK; d < a.n_dim && d < (block + 1) * FMC_BLOCK; d++)
            a.x_new[d * a.n_chains + chain] = a.x[d * a.n_chains + chain] + T(move_by_factor)(a, d, chain);
      __syncthreads();
    }

    REAL log_new = 0, log_old = 0, scaled_new = 1, scaled_old = 1;
    for (size_t k = 0; k < a.target.n_components; k++) {
      REAL squares_new, squares_old;
      T(block_squares)(a, k, chain, live, n_lanes, lanes, &squares_new, &squares_old);
      if (threadIdx.y > 0)
        continue;
      REAL term_new = T(fmc_log_component)(a.target.log_const[k], squares_new);
      REAL term_old = T(fmc_log_component)(a.target.log_const[k], squares_old);
      if (k == 0) {
        log_new = term_new;
        log_old = term_old;
      } else {
        T(fmc_lse_add)(&log_new, &scaled_new, term_new);
        T(fmc_lse_add)(&log_old, &scaled_old, term_old);
      }
    }
    if (threadIdx.y == 0 && live) {
      if (a.target.n_components > 1) {
        log_new += R_LOG(scaled_new);
        log_old += R_LOG(scaled_old);
      }
      REAL log_u = a.u ? T(fmc_log_given_uniform)(a.u[chain])
                       : T(fmc_log_uniform)(a.seed, a.step, a.first_chain + chain);
      int decided = T(fmc_accept)(log_old, log_new, log_u);
      code[threadIdx.x] = decided;
      a.accepted[chain] = decided;
      a.log_alpha[chain] = log_new - log_old;
      a.log_density[chain] = decided == FMC_ACCEPTED ? log_new : log_old;
    }
    __syncthreads();
    if (live && code[threadIdx.x] != FMC_ACCEPTED)
      for (size_t lane = threadIdx.y; lane < n_lanes; lane += blockDim.y)
        for (size_t block = lane; block * FMC_BLOCK < a.n_dim; block += n_lanes)
          for (size_t d = block * FMC_BLOCK; d < a.n_dim && d < (block + 1) * FMC_BLOCK; d++)
            a.x_new[d * a.n_chains + chain] = a.x[d * a.n_chains + chain];
  }
}

static void T(launch_mh_step)(const T(mh_args) * args, int n_sms, cudaStream_t stream) {
  size_t n_lanes = fmc_n_lanes(args->n_dim), width = 32, height = n_lanes;
  while (width > 1 && (width / 2 >= args->n_chains || 2 * n_lanes * width * sizeof(REAL) > 32768))
    width /= 2;
  while (height * width > 512 || height > 64)
    height /= 2;
  size_t shared = sizeof(fmc_normal_table) + 2 * n_lanes * width * sizeof(REAL);
  size_t n_groups = (args->n_chains + width - 1) / width, most = (size_t)n_sms * (2048 / (width * height));
  dim3 block((unsigned)width, (unsigned)height), grid((unsigned)(n_groups < most ? n_groups : most));
  T(mh_step_kernel)<<<grid, block, shared, stream>>>(*args);
}

typedef struct {
  size_t n, n_dim;
  const REAL *x;
  T(fmc_density) target, proposal;
  double *log_weights;
} T(log_weights_args);

/* Log density at a point held in registers, of at most LANES blocks: each block is a lane of its own. */
template <int LANES> static __device__ REAL T(log_density_in_registers)(const T(fmc_density) & density, const REAL *x) {
  REAL log_density = 0, scaled = 1;
  for (size_t k = 0; k < density.n_components; k++) {
    const REAL *mean = density.mean + k * density.n_dim, *inv_sd = density.inv_sd + k * density.n_dim;
    REAL sum[LANES];
#pragma unroll
    for (int lane = 0; lane < LANES; lane++) {
      sum[lane] = 0;
#pragma unroll
      for (int j = 0; j < FMC_BLOCK; j++) {
        int d = lane * FMC_BLOCK + j;
        if (d < density.n_dim)
          sum[lane] = T(fmc_square_add)(sum[lane], x[d], mean[d], inv_sd[d]);
      }
    }
#pragma unroll
    for (int stride = 1; stride < LANES; stride *= 2)
#pragma unroll
      for (int lane = 0; lane < LANES; lane += 2 * stride)
        sum[lane] = sum[lane] + sum[lane + stride];
    REAL term = T(fmc_log_component)(density.log_const[k], sum[0]);
    if (k == 0)
      log_density = term;
    else
      T(fmc_lse_add)(&log_density, &scaled, term);
  }
  return density.n_components > 1 ? log_density + R_LOG(scaled) : log_density;
}

/* A thread per sample. LANES: 0 for any n_dim, else fmc_n_lanes(n_dim), for a sample that fits the registers. */
template <int LANES> static __global__ void __launch_bounds__(128) T(log_weights_kernel)(T(log_weights_args) a) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= a.n)
    return;
  REAL log_p, log_q;
  if (LANES == 0) {
    T(fmc_log_density)(&a.target, a.x + i, a.n, 1, &log_p);
    T(fmc_log_density)(&a.proposal, a.x + i, a.n, 1, &log_q);
  } else {
    REAL x[LANES ? LANES * FMC_BLOCK : 1];
#pragma unroll
    for (int d = 0; d < LANES * FMC_BLOCK; d++)
      x[d] = d < a.n_dim ? a.x[d * a.n + i] : (REAL)0;
    log_p = T(log_density_in_registers)<LANES ? LANES : 1>(a.target, x);
    log_q = T(log_density_in_registers)<LANES ? LANES : 1>(a.proposal, x);
  }
  a.log_weights[i] = log_p - log_q;
}

static void T(launch_log_weights)(const T(log_weights_args) * args, cudaStream_t stream) {
  unsigned grid = (unsigned)((args->n + 127) / 128);
  switch (args->n_dim > 32 ? 0 : fmc_n_lanes(args->n_dim)) {
  case 1:
    T(log_weights_kernel)<1><<<grid, 128, 0, stream>>>(*args);
    break;
  case 2:
    T(log_weights_kernel)<2><<<grid, 128, 0, stream>>>(*args);
    break;
  case 4:
    T(log_weights_kernel)<4><<<grid, 128, 0, stream>>>(*args);
    break;
  case 8:
    T(log_weights_kernel)<8><<<grid, 128, 0, stream>>>(*args);
    break;
  default:
    T(log_weights_kernel)<0><<<grid, 128, 0, stream>>>(*args);
  }
}

typedef struct {
  size_t n, n_dim; /* n_dim 0: sums of the weights alone */
  const REAL *x;
  const double *log_weights;
  double *tiles; /* a row per tile: max, sum, sum of squares, number of bad log weights, n_dim sums of x */
} T(tile_sums_args);

/* A block per tile (x) and group of FMC_DIM_GROUP dims (y); a thread per lane of the tile. */
static __global__ void __launch_bounds__(FMC_TILE_LANES) T(tile_sums_kernel)(T(tile_sums_args) a) {
  __shared__ double shared[FMC_TILE_LANES / 32];
  size_t first = (size_t)blockIdx.x * FMC_TILE, n = a.n - first < FMC_TILE ? a.n - first : FMC_TILE;
  size_t d0 = (size_t)blockIdx.y * FMC_DIM_GROUP;
  double max = -FMC_INF, sum = 0, sum_squares = 0, n_bad = 0, sum_x[FMC_DIM_GROUP];
#pragma unroll
  for (int j = 0; j < FMC_DIM_GROUP; j++)
    sum_x[j] = 0;
  for (size_t i = threadIdx.x; i < n; i += FMC_TILE_LANES) {
    double log_weight = a.log_weights[first + i], scale;
    double w = fmc_online_weight(&max, log_weight, &scale);
    n_bad += fmc_log_weight_bad(log_weight);
    sum = fmc_fma(sum, scale, w);
    sum_squares = fmc_fma(sum_squares, scale * scale, w * w);
#pragma unroll
    for (int j = 0; j < FMC_DIM_GROUP; j++)
      if (d0 + j < a.n_dim)
        sum_x[j] = fmc_weighted_add(sum_x[j], scale, w, a.x[(d0 + j) * a.n + first + i]);
  }
  double top = block_max(max, shared), factor = fmc_rescale_factor(max, top);
  double *tile = a.tiles + blockIdx.x * (a.n_dim + 4);
  if (d0 == 0) {
    sum = block_sum(fmc_rescaled(sum, factor), shared);
    sum_squares = block_sum(fmc_rescaled(sum_squares, factor * factor), shared);
    n_bad = block_sum(n_bad, shared);
    if (threadIdx.x == 0) {
      tile[0] = top;
      tile[1] = sum;
      tile[2] = sum_squares;
      tile[3] = n_bad;
    }
  }
#pragma unroll
  for (int j = 0; j < FMC_DIM_GROUP; j++)
    if (d0 + j < a.n_dim) {
      double total = block_sum(fmc_rescaled(sum_x[j], factor), shared);
      if (threadIdx.x == 0)
        tile[4 + d0 + j] = total;
    }
}

static void T(launch_tile_sums)(const T(tile_sums_args) * args, cudaStream_t stream) {
  size_t n_groups = (args->n_dim + FMC_DIM_GROUP - 1) / FMC_DIM_GROUP;
  dim3 grid((unsigned)((args->n + FMC_TILE - 1) / FMC_TILE), (unsigned)(n_groups ? n_groups : 1));
  T(tile_sums_kernel)<<<grid, FMC_TILE_LANES, 0, stream>>>(*args);
}
