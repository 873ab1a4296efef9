/* Many steps in one launch, for mixtures of normals of up to FMC_RUN_DIMS dims: a chain's state stays in the registers
 * of the threads that share it. Template over REAL; read by backend_cuda.cu alone. */

typedef struct {
  size_t n_chains, n_dim, n_steps, thin, store, batch, n_before;
  int group; /* a power of two, up to 32 */
  T(mixture) target;
  const REAL *step_size;
  const double *shift; /* NULL: no sums */
  uint64_t seed, first_chain;
  fmc_keys keys; /* of the seed */
  uint32_t first_step;
  REAL *x, *log_density, *draws; /* draws: stored ones x n_dim x n_chains, or NULL */
  double *sums, *range;
  unsigned *n_accepted;
  fmc_gpu_not_finite *not_finite;
} T(run_args);

/* Copies of the normals' table, each in banks of its own: the eight threads whose 16-byte loads are served together
 * then never wait for each other. */
#define RUN_COPIES 8

/* Threads of a block, for so many dims a thread. */
#define RUN_THREADS(per_thread) ((per_thread) <= 8 ? 512 : 128)

/* Smallest and largest states are kept in registers for so many dims a thread, else in shared memory. */
#define RUN_REGISTER_RANGE 4

/* Shared memory: the normals' table, step sizes, the target's parameters, shifts, smallest and largest states. What
 * stands for each dim is filled up with zeros to n_padded dims: a dim that is not there then stays at 0 and adds 0 to
 * every sum, and the kernel needs to ask for none. */
typedef struct {
  size_t step_size, log_const, mean, inv_sd, shift, least, most, all;
} T(run_layout);

static __host__ __device__ __forceinline__ size_t T(run_place)(size_t *used, size_t bytes) {
  size_t at = *used;
  *used = (at + bytes + 15) / 16 * 16;
  return at;
}

static __host__ __device__ __forceinline__ T(run_layout)
    T(lay_out_run)(size_t n_padded, size_t n_components, int standard, int sums, int per_thread) {
  T(run_layout) at;
  size_t used = RUN_COPIES * FMC_NORMAL_ROWS * sizeof(float4), parameters = standard ? 0 : n_components * n_padded;
  size_t column = sums ? (size_t)per_thread * RUN_THREADS(per_thread) : 0;
  at.step_size = T(run_place)(&used, n_padded * sizeof(REAL));
  at.log_const = T(run_place)(&used, n_components * sizeof(REAL));
  at.mean = T(run_place)(&used, parameters * sizeof(REAL));
  at.inv_sd = T(run_place)(&used, parameters * sizeof(REAL));
  at.shift = T(run_place)(&used, sums ? n_padded * sizeof(double) : 0);
  at.least = T(run_place)(&used, column * sizeof(REAL));
  at.most = T(run_place)(&used, column * sizeof(REAL));
  at.all = used;
  return at;
}

/* Sum over the lanes of a chain: those of a thread as a tree, then the threads' as a tree. All get it. */
template <int LANES> static __device__ __forceinline__ REAL T(sum_of_group)(REAL (&sum)[LANES], int group) {
  REAL total = T(tree_of_lanes)(sum);
#pragma unroll
  for (int stride = 1; stride < 32; stride *= 2)
    if (stride < group)
      total = total + __shfl_xor_sync(0xffffffffu, total, stride);
  return total;
}

static __device__ __forceinline__ float T(normal_from_copy)(const float4 *copy, uint32_t word) {
  float4 c = copy[fmc_normal_row(word) * RUN_COPIES];
  return fmc_normal_cubic(word, c.x, c.y, c.z, c.w);
}

/* a.group threads share a chain; each has LANES of the canonical lanes, of DEPTH blocks of four dims. STANDARD: one
 * component, all means 0 and all sds 1, where (x - 0) * 1 is x. */
template <int LANES, int DEPTH, bool STANDARD, bool SUMS>
static __global__ void __launch_bounds__(RUN_THREADS(LANES *DEPTH *FMC_BLOCK))
    T(run_kernel)(const __grid_constant__ T(run_args) a) {
  const int PER_THREAD = LANES * DEPTH * FMC_BLOCK, THREADS = RUN_THREADS(PER_THREAD), group = a.group,
            n_lanes = group * LANES;
  extern __shared__ __align__(16) char run_shared[];
  const int n_dim = (int)a.n_dim, n_components = STANDARD ? 1 : (int)a.target.n_components;
  const int n_padded = n_lanes * DEPTH * FMC_BLOCK;
  const T(run_layout) at = T(lay_out_run)(n_padded, n_components, STANDARD, SUMS, PER_THREAD);
  float4 *copies = (float4 *)run_shared;
  const float4 *table = copies + threadIdx.x % RUN_COPIES;
  REAL *step_size = (REAL *)(run_shared + at.step_size), *log_const = (REAL *)(run_shared + at.log_const);
  REAL *mean = (REAL *)(run_shared + at.mean), *inv_sd = (REAL *)(run_shared + at.inv_sd);
  double *shift = (double *)(run_shared + at.shift);
  REAL *least = (REAL *)(run_shared + at.least) + threadIdx.x, *most = (REAL *)(run_shared + at.most) + threadIdx.x;

  for (int d = threadIdx.x; d < n_padded; d += THREADS) {
    step_size[d] = d < n_dim ? a.step_size[d] : (REAL)0;
    if (SUMS)
      shift[d] = d < n_dim ? a.shift[d] : 0;
  }
  for (int k = threadIdx.x; k < n_components; k += THREADS)
    log_const[k] = a.target.log_const[k];
  if (!STANDARD)
    for (int e = threadIdx.x; e < n_components * n_padded; e += THREADS) {
      int k = e / n_padded, d = e % n_padded;
      mean[e] = d < n_dim ? a.target.mean[k * n_dim + d] : (REAL)0;
      inv_sd[e] = d < n_dim ? a.target.inv_sd[k * n_dim + d] : (REAL)0;
    }
  for (int e = threadIdx.x; e < RUN_COPIES * FMC_NORMAL_ROWS; e += THREADS) {
    const float *row = fmc_normal_table[e / RUN_COPIES];
    copies[e] = make_float4(row[0], row[1], row[2], row[3]);
  }
  __syncthreads();

  const int member = (int)threadIdx.x & (group - 1);
  const size_t wanted = ((size_t)blockIdx.x * THREADS + threadIdx.x) / group;
  const bool live = wanted < a.n_chains; /* every thread takes part in the shuffles */
  const size_t chain = live ? wanted : a.n_chains - 1, n_all = a.n_chains * a.n_dim;
  const uint64_t number = a.first_chain + chain;

/* The dim of place k of this thread. */
#define RUN_DIM(k)                                                                                                     \
  ((member * LANES + (k) / (DEPTH * FMC_BLOCK) + n_lanes * ((k) / FMC_BLOCK % DEPTH)) * FMC_BLOCK + (k) % FMC_BLOCK)
  REAL x[PER_THREAD], log_old = a.log_density[chain], log_u = 0;
  const bool IN_SHARED = PER_THREAD > RUN_REGISTER_RANGE;
  const int RANGE = IN_SHARED ? 1 : PER_THREAD;
  double batch[PER_THREAD], squares[PER_THREAD];
  REAL low[RANGE], high[RANGE];
  unsigned n_accepted = 0;
#pragma unroll
  for (int k = 0; k < PER_THREAD; k++) {
    const int d = RUN_DIM(k);
    x[k] = d < n_dim ? a.x[(size_t)d * a.n_chains + chain] : (REAL)0;
    if (SUMS) {
      batch[k] = d < n_dim ? a.sums[FMC_SUM_BATCH * n_all + (size_t)d * a.n_chains + chain] : 0;
      squares[k] = d < n_dim ? a.sums[FMC_SUM_SQUARES * n_all + (size_t)d * a.n_chains + chain] : 0;
      low[k % RANGE] = (REAL)FMC_INF;
      high[k % RANGE] = -(REAL)FMC_INF;
      if (IN_SHARED) {
        least[k * THREADS] = (REAL)FMC_INF;
        most[k * THREADS] = -(REAL)FMC_INF;
      }
    }
  }

  unsigned until_kept = (unsigned)a.thin;
  size_t until_batch = SUMS ? a.batch - a.n_before % a.batch : 0;
  size_t until_store = a.draws ? a.store - a.n_before % a.store : 0, draw = 0;
  for (unsigned t = 0; t < (unsigned)a.n_steps; t++) {
    const uint32_t step = a.first_step + t;
    if ((t & (unsigned)(group - 1)) == 0) /* each thread of the group for a step of its own */
      log_u = T(fmc_log_uniform)(a.seed, step + (uint32_t)member, number);

    REAL proposal[PER_THREAD], sum[LANES];
#pragma unroll
    for (int lane = 0; lane < LANES; lane++) {
      sum[lane] = 0;
#pragma unroll
      for (int depth = 0; depth < DEPTH; depth++) {
        const int k0 = (lane * DEPTH + depth) * FMC_BLOCK, d0 = RUN_DIM(k0);
        fmc_words w = {step, (uint32_t)FMC_PURPOSE_NOISE << 28 | (uint32_t)(d0 / FMC_BLOCK), (uint32_t)number,
                       (uint32_t)(number >> 32)};
        w = fmc_philox_keyed(w, &a.keys);
        uint32_t word[FMC_BLOCK] = {w.w0, w.w1, w.w2, w.w3};
#pragma unroll
        for (int j = 0; j < FMC_BLOCK; j++) {
          proposal[k0 + j] = T(fmc_propose)(x[k0 + j], step_size[d0 + j], (REAL)T(normal_from_copy)(table, word[j]));
          if (STANDARD)
            sum[lane] = R_FMA(proposal[k0 + j], proposal[k0 + j], sum[lane]);
        }
      }
    }
    REAL log_new;
    if (STANDARD) {
      log_new = T(fmc_log_component)(log_const[0], T(sum_of_group)(sum, group));
    } else {
      REAL scaled = 1;
      for (int c = 0; c < n_components; c++) {
#pragma unroll
        for (int lane = 0; lane < LANES; lane++) {
          sum[lane] = 0;
#pragma unroll
          for (int e = 0; e < DEPTH * FMC_BLOCK; e++) {
            const int k = lane * DEPTH * FMC_BLOCK + e, d = RUN_DIM(k);
            sum[lane] = T(fmc_square_add)(sum[lane], proposal[k], mean[c * n_padded + d], inv_sd[c * n_padded + d]);
          }
        }
        REAL term = T(fmc_log_component)(log_const[c], T(sum_of_group)(sum, group));
        if (c == 0)
          log_new = term;
        else
          T(fmc_lse_add)(&log_new, &scaled, term);
      }
      log_new = n_components > 1 ? log_new + R_LOG(scaled) : log_new;
    }

    const int code =
        T(fmc_accept)(log_old, log_new, __shfl_sync(0xffffffffu, log_u, (int)(t & (unsigned)(group - 1)), group));
    const bool accepted = code == FMC_ACCEPTED;
    log_old = accepted ? log_new : log_old;
    n_accepted += accepted;
#pragma unroll
    for (int k = 0; k < PER_THREAD; k++)
      x[k] = accepted ? proposal[k] : x[k];
    if (code == FMC_PROPOSAL_NOT_FINITE && member == 0 && live)
      fmc_gpu_note(a.not_finite, step, chain);

    if (--until_kept > 0)
      continue;
    until_kept = (unsigned)a.thin;
    if (SUMS) {
      const bool batch_ends = --until_batch == 0;
#pragma unroll
      for (int k = 0; k < PER_THREAD; k++) {
        fmc_chain_add((double)x[k], shift[RUN_DIM(k)], &batch[k], &squares[k]);
        if (IN_SHARED) {
          if (x[k] < least[k * THREADS])
            least[k * THREADS] = x[k];
          if (x[k] > most[k * THREADS])
            most[k * THREADS] = x[k];
        } else {
          low[k % RANGE] = x[k] < low[k % RANGE] ? x[k] : low[k % RANGE];
          high[k % RANGE] = x[k] > high[k % RANGE] ? x[k] : high[k % RANGE];
        }
      }
      if (batch_ends) {
        until_batch = a.batch;
#pragma unroll
        for (int k = 0; k < PER_THREAD; k++) {
          const size_t to = (size_t)RUN_DIM(k) * a.n_chains + chain;
          if (RUN_DIM(k) < n_dim && live)
            fmc_chain_end_batch(&batch[k], a.sums + FMC_SUM_TOTAL * n_all + to,
                                a.sums + FMC_SUM_BATCH_SQUARES * n_all + to);
        }
      }
    }
    if (a.draws && --until_store == 0) {
      until_store = a.store;
#pragma unroll
      for (int k = 0; k < PER_THREAD; k++)
        if (RUN_DIM(k) < n_dim && live)
          a.draws[(draw * a.n_dim + RUN_DIM(k)) * a.n_chains + chain] = x[k];
      draw++;
    }
  }

  if (live && member == 0) {
    a.log_density[chain] = log_old;
    a.n_accepted[chain] += n_accepted;
  }
#pragma unroll
  for (int k = 0; k < PER_THREAD; k++) {
    const int d = RUN_DIM(k);
    if (d < n_dim && live) {
      a.x[(size_t)d * a.n_chains + chain] = x[k];
      if (SUMS) {
        a.sums[FMC_SUM_BATCH * n_all + (size_t)d * a.n_chains + chain] = batch[k];
        a.sums[FMC_SUM_SQUARES * n_all + (size_t)d * a.n_chains + chain] = squares[k];
      }
    }
    if (SUMS && !IN_SHARED) {
      least[k * THREADS] = low[k % RANGE];
      most[k * THREADS] = high[k % RANGE];
    }
  }
  if (!SUMS)
    return;
  /* Smallest and largest of the block's chains; a thread for each dim. */
  __syncthreads();
  for (int e = threadIdx.x; e < PER_THREAD * group; e += THREADS) {
    const int k = e / group, of = e % group;
    const int d =
        (of * LANES + k / (DEPTH * FMC_BLOCK) + n_lanes * (k / FMC_BLOCK % DEPTH)) * FMC_BLOCK + k % FMC_BLOCK;
    const REAL *low = least - threadIdx.x + k * THREADS + of, *high = most - threadIdx.x + k * THREADS + of;
    REAL smallest = low[0], largest = high[0];
    for (int c = group; c < THREADS; c += group) {
      smallest = low[c] < smallest ? low[c] : smallest;
      largest = high[c] > largest ? high[c] : largest;
    }
    if (d < n_dim && smallest <= largest)
      fmc_gpu_extend(a.range + 2 * d, (double)smallest, (double)largest);
  }
#undef RUN_DIM
}

/* Threads a chain, lanes and depth of each thread, for the shape of a run. */
typedef struct {
  int group, lanes, depth;
} T(run_shape);

/* Four lanes a thread where there are chains enough to fill the GPU: what a chain needs once is then done by fewer.
 * Sums would take too much shared memory then. */
static T(run_shape) T(shape_of_run)(size_t n_chains, size_t n_dim, int sums) {
  T(run_shape) shape;
  int n_lanes = (int)fmc_n_lanes(n_dim);
  shape.depth = 1;
  while ((size_t)n_lanes * shape.depth * FMC_BLOCK < n_dim)
    shape.depth *= 2;
  shape.lanes = shape.depth == 1 && n_lanes >= 4 && !sums && n_chains * n_lanes / 4 >= (size_t)kept.n_sms * 512 ? 4 : 1;
  shape.group = n_lanes / shape.lanes;
  return shape;
}

static size_t T(run_shared_bytes)(const T(run_args) * a, int standard) {
  T(run_shape) shape = T(shape_of_run)(a->n_chains, a->n_dim, a->shift != NULL);
  return T(lay_out_run)((size_t)shape.group * shape.lanes * shape.depth * FMC_BLOCK,
                        standard ? 1 : a->target.n_components, standard, a->shift != NULL,
                        shape.lanes * shape.depth * FMC_BLOCK)
      .all;
}

template <int LANES, int DEPTH, bool SUMS>
static fmc_status T(launch_run_shape)(const T(run_args) * a, int standard, cudaStream_t stream, fmc_context *context) {
  fmc_status status = FMC_OK;
  size_t shared = T(run_shared_bytes)(a, standard), threads = RUN_THREADS(LANES * DEPTH * FMC_BLOCK);
  unsigned grid = (unsigned)((a->n_chains * (size_t)a->group + threads - 1) / threads);
  void (*kernel)(const T(run_args)) =
      standard ? T(run_kernel)<LANES, DEPTH, true, SUMS> : T(run_kernel)<LANES, DEPTH, false, SUMS>;
  TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
  kernel<<<grid, (unsigned)threads, shared, stream>>>(*a);
  TRY(cudaGetLastError());
done:
  return status;
}

static fmc_status T(launch_run)(const T(run_args) * args, int standard, cudaStream_t stream, fmc_context *context) {
  T(run_args) a = *args;
  T(run_shape) shape = T(shape_of_run)(a.n_chains, a.n_dim, a.shift != NULL);
  a.group = shape.group;
  if (shape.lanes == 4)
    return T(launch_run_shape)<4, 1, false>(&a, standard, stream, context);
#define LAUNCH(depth)                                                                                                  \
  (a.shift ? T(launch_run_shape) < 1, depth, true > : T(launch_run_shape) < 1, depth, false >)(&a, standard, stream,   \
                                                                                               context)
  switch (shape.depth) {
  case 1:
    return LAUNCH(1);
  case 2:
    return LAUNCH(2);
  case 4:
    return LAUNCH(4);
  default:
    return LAUNCH(8);
  }
#undef LAUNCH
}
