/* CUDA kernels and their launchers. Template over REAL; read by backend_cuda.cu alone.
 *
 * Matrices are column-major, so neighbouring threads take neighbouring rows and every access is coalesced. */

/* A node of kind mixture, for the kernels that are made for it. */
typedef struct {
  size_t n_dim, n_components;
  const REAL *log_const, *mean, *inv_sd;
} T(mixture);

typedef struct {
  size_t n_chains, n_dim;
  const REAL *x, *noise, *step_size; /* noise may be NULL */
  const double *u;                   /* may be NULL */
  int cholesky;
  uint64_t seed, first_chain;
  uint32_t step;
  T(mixture) target; /* of launch_mh_step alone */
  REAL *x_new, *log_density, *log_alpha;
  REAL *scratch; /* n_chains x n_dim, for a Cholesky factor alone */
  int *accepted;
} T(mh_args);

/* Sums of squares of one component at x_new and x, by all threads of a block: each takes some lanes of its chain, and
 * the lanes' tree runs in shared memory, lanes[2][n_lanes][blockDim.x]. */
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
static __device__ void T(propose_lanes)(const T(mh_args) & a, size_t chain, size_t n_lanes, const float4 *table) {
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
        REAL z = a.noise ? a.noise[at] : (REAL)normal_from(table, word[j]);
        if (a.cholesky)
          a.scratch[at] = z;
        else
          a.x_new[at] = T(fmc_propose)(a.x[at], a.step_size[d], z);
      }
    }
}

static __device__ REAL T(log_u_of)(const T(mh_args) & a, size_t chain) {
  return a.u ? T(fmc_log_given_uniform)(a.u[chain]) : T(fmc_log_uniform)(a.seed, a.step, a.first_chain + chain);
}

/* Decides for a chain and writes down all but its state. */
static __device__ int T(decide)(const T(mh_args) & a, size_t chain, REAL log_old, REAL log_new) {
  int decided = T(fmc_accept)(log_old, log_new, T(log_u_of)(a, chain));
  a.accepted[chain] = decided;
  a.log_alpha[chain] = log_new - log_old;
  a.log_density[chain] = decided == FMC_ACCEPTED ? log_new : log_old;
  return decided;
}

/* A block of blockDim.x chains by blockDim.y threads a chain. 512 threads at most, so that two blocks fit an SM. */
static __global__ void __launch_bounds__(512, 2) T(mh_step_kernel)(T(mh_args) a) {
  extern __shared__ float4 shared[]; /* the normals' table, then the lanes */
  float4 *table = shared;
  REAL *lanes = (REAL *)(table + FMC_NORMAL_ROWS);
  __shared__ int code[32];
  size_t n_lanes = fmc_n_lanes(a.n_dim);

  if (!a.noise)
    load_normal_table(table);

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
        T(fmc_mixture_add)(&log_new, &scaled_new, term_new);
        T(fmc_mixture_add)(&log_old, &scaled_old, term_old);
      }
    }
    if (threadIdx.y == 0 && live) {
      if (a.target.n_components > 1) {
        log_new = T(fmc_mixture_total)(log_new, scaled_new);
        log_old = T(fmc_mixture_total)(log_old, scaled_old);
      }
      code[threadIdx.x] = T(decide)(a, chain, log_old, log_new);
    }
    __syncthreads();
    if (live && code[threadIdx.x] != FMC_ACCEPTED)
      for (size_t lane = threadIdx.y; lane < n_lanes; lane += blockDim.y)
        for (size_t block = lane; block * FMC_BLOCK < a.n_dim; block += n_lanes)
          for (size_t d = block * FMC_BLOCK; d < a.n_dim && d < (block + 1) * FMC_BLOCK; d++)
            a.x_new[d * a.n_chains + chain] = a.x[d * a.n_chains + chain];
  }
}

/* Chains and threads a chain of a block. */
static void T(shape_of_blocks)(const T(mh_args) * args, size_t *width, size_t *height) {
  size_t n_lanes = fmc_n_lanes(args->n_dim);
  *width = 32;
  *height = n_lanes;
  while (*width > 1 && (*width / 2 >= args->n_chains || 2 * n_lanes * *width * sizeof(REAL) > 32768))
    *width /= 2;
  while (*height * *width > 512 || *height > 64)
    *height /= 2;
}

static void T(launch_mh_step_by_blocks)(const T(mh_args) * args, int n_sms, cudaStream_t stream) {
  size_t n_lanes = fmc_n_lanes(args->n_dim), width, height;
  T(shape_of_blocks)(args, &width, &height);
  size_t shared = FMC_NORMAL_ROWS * sizeof(float4) + 2 * n_lanes * width * sizeof(REAL);
  size_t n_groups = (args->n_chains + width - 1) / width, most = (size_t)n_sms * (2048 / (width * height));
  dim3 block((unsigned)width, (unsigned)height), grid((unsigned)(n_groups < most ? n_groups : most));
  T(mh_step_kernel)<<<grid, block, shared, stream>>>(*args);
}

/* Sum of lanes held in registers, as the tree of neighbours. */
template <int LANES> static __device__ __forceinline__ REAL T(tree_of_lanes)(REAL (&sum)[LANES]) {
#pragma unroll
  for (int stride = 1; stride < LANES; stride *= 2)
#pragma unroll
    for (int lane = 0; lane < LANES; lane += 2 * stride)
      sum[lane] = sum[lane] + sum[lane + stride];
  return sum[0];
}

/* What the kernel below needs of target and step, passed by value: constant memory feeds the arithmetic directly. */
typedef struct {
  REAL mean[FMC_FEW_DIMS], inv_sd[FMC_FEW_DIMS], step_size[FMC_FEW_DIMS], log_const;
} T(mh_constants);

/* Starts the copy of a chain's state into shared memory. Each thread reads what it copied itself: no barrier is needed.
 */
template <int LANES>
static __device__ __forceinline__ void T(fetch)(const T(mh_args) & a, size_t chain, int n_dim,
                                                REAL (*to)[FMC_FEW_THREADS]) {
  if (chain < a.n_chains) {
    const REAL *from = a.x + chain;
#pragma unroll
    for (int d = 0; d < LANES * FMC_BLOCK; d++, from += a.n_chains)
      if (d < n_dim)
        __pipeline_memcpy_async(&to[d][threadIdx.x], from, sizeof(REAL));
  }
  __pipeline_commit();
}

/* The common case, bound by memory: few dims, one normal, noise from the generator. A thread per chain computes one
 * chain while its next one's state is on the way. LANES: fmc_n_lanes(n_dim). FULL: n_dim is LANES blocks exactly. Four
 * blocks an SM: more would take registers that the arithmetic needs. */
template <int LANES, bool FULL>
static __global__ void __launch_bounds__(FMC_FEW_THREADS, 4)
    T(mh_step_few_dims_kernel)(T(mh_args) a, T(mh_constants) c) {
  __shared__ float4 table[FMC_NORMAL_ROWS];
  __shared__ REAL state[2][LANES * FMC_BLOCK][FMC_FEW_THREADS];
  const int n_dim = FULL ? LANES * FMC_BLOCK : (int)a.n_dim;
  const size_t stride = (size_t)gridDim.x * FMC_FEW_THREADS;
  size_t chain = (size_t)blockIdx.x * FMC_FEW_THREADS + threadIdx.x;

  T(fetch)<LANES>(a, chain, n_dim, state[0]);
  load_normal_table(table);
  for (int now = 0; chain < a.n_chains; chain += stride, now = 1 - now) {
    T(fetch)<LANES>(a, chain + stride, n_dim, state[1 - now]);
    __pipeline_wait_prior(1);
    REAL proposal[LANES * FMC_BLOCK], sum_new[LANES], sum_old[LANES];
#pragma unroll
    for (int lane = 0; lane < LANES; lane++) {
      fmc_words w = fmc_words_for(a.seed, FMC_PURPOSE_NOISE, a.step, (uint32_t)lane, a.first_chain + chain);
      uint32_t word[FMC_BLOCK] = {w.w0, w.w1, w.w2, w.w3};
      sum_new[lane] = sum_old[lane] = 0;
#pragma unroll
      for (int j = 0; j < FMC_BLOCK; j++) {
        int d = lane * FMC_BLOCK + j;
        if (d < n_dim) {
          REAL x = state[now][d][threadIdx.x];
          proposal[d] = T(fmc_propose)(x, c.step_size[d], (REAL)normal_from(table, word[j]));
          sum_new[lane] = T(fmc_square_add)(sum_new[lane], proposal[d], c.mean[d], c.inv_sd[d]);
          sum_old[lane] = T(fmc_square_add)(sum_old[lane], x, c.mean[d], c.inv_sd[d]);
        }
      }
    }
    REAL log_new = T(fmc_log_component)(c.log_const, T(tree_of_lanes)(sum_new));
    REAL log_old = T(fmc_log_component)(c.log_const, T(tree_of_lanes)(sum_old));
    bool accepted = T(decide)(a, chain, log_old, log_new) == FMC_ACCEPTED;
    REAL *to = a.x_new + chain;
#pragma unroll
    for (int d = 0; d < LANES * FMC_BLOCK; d++, to += a.n_chains)
      if (d < n_dim)
        __stcs(to, accepted ? proposal[d] : state[now][d][threadIdx.x]);
  }
}

template <int LANES>
static void T(launch_mh_step_few_dims)(const T(mh_args) * args, const T(mh_constants) * constants, int n_sms,
                                       cudaStream_t stream) {
  size_t n_blocks = (args->n_chains + FMC_FEW_THREADS - 1) / FMC_FEW_THREADS, most = (size_t)n_sms * 4;
  unsigned grid = (unsigned)(n_blocks < most ? n_blocks : most);
  if (args->n_dim == LANES * FMC_BLOCK)
    T(mh_step_few_dims_kernel)<LANES, true><<<grid, FMC_FEW_THREADS, 0, stream>>>(*args, *constants);
  else
    T(mh_step_few_dims_kernel)<LANES, false><<<grid, FMC_FEW_THREADS, 0, stream>>>(*args, *constants);
}

static int T(has_few_dims)(const T(mh_args) * args) {
  return args->n_dim <= FMC_FEW_DIMS && args->target.n_components == 1 && !args->cholesky && !args->noise;
}

/* `constants` count only where T(has_few_dims). */
static void T(launch_mh_step)(const T(mh_args) * args, const T(mh_constants) * constants, int n_sms,
                              cudaStream_t stream) {
  switch (T(has_few_dims)(args) ? fmc_n_lanes(args->n_dim) : 0) {
  case 1:
    T(launch_mh_step_few_dims)<1>(args, constants, n_sms, stream);
    break;
  case 2:
    T(launch_mh_step_few_dims)<2>(args, constants, n_sms, stream);
    break;
  case 4:
    T(launch_mh_step_few_dims)<4>(args, constants, n_sms, stream);
    break;
  default:
    T(launch_mh_step_by_blocks)(args, n_sms, stream);
  }
}

typedef struct {
  size_t n, n_dim, stride;
  const REAL *x; /* columns `stride` apart */
  T(mixture) target, proposal;
  double *log_weights;
} T(log_weights_args);

/* Log density at a point held in registers, of at most N / FMC_BLOCK blocks: each block is a lane of its own. */
template <int N> static __device__ REAL T(log_density_in_registers)(const T(mixture) & density, const REAL (&x)[N]) {
  const int LANES = N / FMC_BLOCK;
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
    REAL term = T(fmc_log_component)(density.log_const[k], T(tree_of_lanes)(sum));
    if (k == 0)
      log_density = term;
    else
      T(fmc_mixture_add)(&log_density, &scaled, term);
  }
  return density.n_components > 1 ? T(fmc_mixture_total)(log_density, scaled) : log_density;
}

/* A thread per sample, which fits its registers. LANES: fmc_n_lanes(n_dim). */
template <int LANES> static __global__ void __launch_bounds__(128) T(log_weights_kernel)(T(log_weights_args) a) {
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= a.n)
    return;
  REAL x[LANES * FMC_BLOCK];
#pragma unroll
  for (int d = 0; d < LANES * FMC_BLOCK; d++)
    x[d] = d < a.n_dim ? a.x[d * a.stride + i] : (REAL)0;
  REAL log_p = T(log_density_in_registers)(a.target, x), log_q = T(log_density_in_registers)(a.proposal, x);
  a.log_weights[i] = log_p - log_q;
}

/* Samples of at most FMC_REGISTER_DIMS dims. */
static void T(launch_log_weights)(const T(log_weights_args) * args, cudaStream_t stream) {
  unsigned grid = (unsigned)((args->n + 127) / 128);
  switch (fmc_n_lanes(args->n_dim)) {
  case 1:
    T(log_weights_kernel)<1><<<grid, 128, 0, stream>>>(*args);
    break;
  case 2:
    T(log_weights_kernel)<2><<<grid, 128, 0, stream>>>(*args);
    break;
  case 4:
    T(log_weights_kernel)<4><<<grid, 128, 0, stream>>>(*args);
    break;
  default:
    T(log_weights_kernel)<8><<<grid, 128, 0, stream>>>(*args);
  }
}
