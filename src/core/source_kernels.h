/* Kernels around the user's code, compiled by NVRTC after it. FMC_N_DIM is its number of dims, `real` the type that it
 * computes in, fmc_user its namespace; REAL is the precision of the call. Matrices are column-major. */

#define FMC_FEW_DIMS 16     /* dims of a step that one thread keeps in registers */
#define FMC_FEW_THREADS 128 /* threads of a block that does so */
#define FMC_BLOCKS ((FMC_N_DIM + FMC_BLOCK - 1) / FMC_BLOCK)

/* A thread per point: n rows of x0, and where there is an x1, n more. */
extern "C" __global__ void __launch_bounds__(128)
    fmc_source_log_density_kernel(const REAL *x0, const REAL *x1, size_t stride, size_t n, REAL *out) {
  size_t n_points = x1 ? 2 * n : n;
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n_points; i += (size_t)gridDim.x * blockDim.x) {
    const REAL *from = i < n ? x0 + i : x1 + (i - n);
    real point[FMC_N_DIM];
    for (int d = 0; d < FMC_N_DIM; d++)
      point[d] = from[(size_t)d * stride];
    out[i] = (REAL)fmc_user::log_density(point, FMC_N_DIM);
  }
}

#if FMC_N_DIM <= FMC_SOURCE_STEP_DIMS

/* Decides for a chain and writes down all but its state. */
static __device__ int fmc_decide(const fmc_source_mh_args &a, size_t chain, REAL log_old, REAL log_new) {
  REAL log_u = a.u ? T(fmc_log_given_uniform)(a.u[chain]) : T(fmc_log_uniform)(a.seed, a.step, a.first_chain + chain);
  int decided = T(fmc_accept)(log_old, log_new, log_u);
  a.accepted[chain] = decided;
  ((REAL *)a.log_alpha)[chain] = log_new - log_old;
  ((REAL *)a.log_density)[chain] = decided == FMC_ACCEPTED ? log_new : log_old;
  return decided;
}

/* The words of a block of four dims. */
static __device__ __forceinline__ void fmc_block_words(const fmc_source_mh_args &a, int block, size_t chain,
                                                       uint32_t *word) {
  fmc_words w = fmc_words_for(a.seed, FMC_PURPOSE_NOISE, a.step, (uint32_t)block, a.first_chain + chain);
  word[0] = w.w0;
  word[1] = w.w1;
  word[2] = w.w2;
  word[3] = w.w3;
}

#if FMC_N_DIM <= FMC_FEW_DIMS

/* Each thread reads what it copied itself: no barrier is needed. */
static __device__ __forceinline__ void fmc_fetch(const fmc_source_mh_args &a, size_t chain,
                                                 REAL (*to)[FMC_FEW_THREADS]) {
  if (chain < a.n_chains)
#pragma unroll
    for (int d = 0; d < FMC_N_DIM; d++)
      fmc_copy_async(&to[d][threadIdx.x], (const REAL *)a.x + (size_t)d * a.n_chains + chain);
  fmc_copy_commit();
}

/* A step. A thread per chain computes one chain while its next one's state is on the way. */
extern "C" __global__ void __launch_bounds__(FMC_FEW_THREADS, 4)
    fmc_source_mh_step_kernel(const __grid_constant__ fmc_source_mh_args a) {
  __shared__ float4 table[FMC_NORMAL_ROWS];
  __shared__ REAL state[2][FMC_N_DIM][FMC_FEW_THREADS];
  const size_t stride = (size_t)gridDim.x * FMC_FEW_THREADS;
  size_t chain = (size_t)blockIdx.x * FMC_FEW_THREADS + threadIdx.x;

  fmc_fetch(a, chain, state[0]);
  load_normal_table(table);
  for (int now = 0; chain < a.n_chains; chain += stride, now = 1 - now) {
    fmc_fetch(a, chain + stride, state[1 - now]);
    fmc_copy_wait_but_last();
    REAL proposal[FMC_N_DIM];
    real point_new[FMC_N_DIM], point_old[FMC_N_DIM];
#pragma unroll
    for (int block = 0; block < FMC_BLOCKS; block++) {
      uint32_t word[FMC_BLOCK];
      fmc_block_words(a, block, chain, word);
#pragma unroll
      for (int j = 0; j < FMC_BLOCK; j++) {
        const int d = block * FMC_BLOCK + j;
        if (d < FMC_N_DIM) {
          REAL x = state[now][d][threadIdx.x];
          proposal[d] = T(fmc_propose)(x, a.step_size.FMC_MEMBER[d], (REAL)normal_from(table, word[j]));
          point_old[d] = x;
          point_new[d] = proposal[d];
        }
      }
    }
    REAL log_new = (REAL)fmc_user::log_density(point_new, FMC_N_DIM);
    REAL log_old = (REAL)fmc_user::log_density(point_old, FMC_N_DIM);
    bool accepted = fmc_decide(a, chain, log_old, log_new) == FMC_ACCEPTED;
#pragma unroll
    for (int d = 0; d < FMC_N_DIM; d++)
      __stcs((REAL *)a.x_new + (size_t)d * a.n_chains + chain, accepted ? proposal[d] : state[now][d][threadIdx.x]);
  }
}

#else

/* A step. A block of 32 chains by a thread for each four dims; the user's code runs in two threads a chain, one for the
 * state and one for the proposal, which lie in shared memory. */
extern "C" __global__ void __launch_bounds__(32 * FMC_BLOCKS, 2)
    fmc_source_mh_step_kernel(const __grid_constant__ fmc_source_mh_args a) {
  __shared__ float4 table[FMC_NORMAL_ROWS];
  __shared__ REAL state[2][FMC_N_DIM][32], log_density[2][32];
  __shared__ int decided[32];
  const int lane = threadIdx.x, block = threadIdx.y;

  load_normal_table(table);
  for (size_t first = (size_t)blockIdx.x * 32; first < a.n_chains; first += (size_t)gridDim.x * 32) {
    const bool live = first + lane < a.n_chains; /* every thread takes part in the barriers */
    const size_t chain = live ? first + lane : a.n_chains - 1;
    uint32_t word[FMC_BLOCK];
    fmc_block_words(a, block, chain, word);
#pragma unroll
    for (int j = 0; j < FMC_BLOCK; j++) {
      const int d = block * FMC_BLOCK + j;
      if (d < FMC_N_DIM) {
        REAL x = ((const REAL *)a.x)[(size_t)d * a.n_chains + chain];
        state[0][d][lane] = x;
        state[1][d][lane] = T(fmc_propose)(x, a.step_size.FMC_MEMBER[d], (REAL)normal_from(table, word[j]));
      }
    }
    __syncthreads();
    if (block < 2) {
      real point[FMC_N_DIM];
#pragma unroll
      for (int d = 0; d < FMC_N_DIM; d++)
        point[d] = state[block][d][lane];
      log_density[block][lane] = (REAL)fmc_user::log_density(point, FMC_N_DIM);
    }
    __syncthreads();
    if (block == 0 && live)
      decided[lane] = fmc_decide(a, chain, log_density[0][lane], log_density[1][lane]);
    __syncthreads();
    if (live)
#pragma unroll
      for (int j = 0; j < FMC_BLOCK; j++) {
        const int d = block * FMC_BLOCK + j;
        if (d < FMC_N_DIM)
          __stcs((REAL *)a.x_new + (size_t)d * a.n_chains + chain, state[decided[lane] == FMC_ACCEPTED][d][lane]);
      }
  }
}

#endif
#endif
