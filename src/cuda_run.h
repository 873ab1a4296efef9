/* Many steps in one launch, for mixtures of normals of up to FMC_RUN_DIMS dims: a chain's state stays in the registers
 * of the threads that share it. Template over REAL; read by backend_cuda.cu alone. */

typedef struct {
  size_t n_chains, n_dim, n_steps, thin, since, store, batch, n_before;
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
  fmc_hidden hidden;
} T(run_args);

/* Threads of a block, for so many dims a thread: what the registers of an SM allow. */
#define RUN_THREADS(per_thread) ((per_thread) <= 16 ? 512 : 256)

/* For so many dims a thread, sums are kept in registers, else in shared memory; and so are shifts. */
#define RUN_REGISTER_SUMS 8
#define RUN_REGISTER_SHIFTS 4

/* Shared memory: the normals' table, step sizes, the target's parameters, shifts, the block's smallest and largest
 * states, sums of each thread. What stands for each dim is filled up with zeros to n_padded dims: a dim that is not
 * there then stays at 0 and adds 0 to every sum, and the kernel needs to ask for none. */
typedef struct {
  size_t step_size, log_const, mean, inv_sd, shift, reach, least, most, batch, squares, all;
} T(run_layout);

static __host__ __device__ __forceinline__ size_t T(run_place)(size_t *used, size_t bytes) {
  size_t at = *used;
  *used = (at + bytes + 15) / 16 * 16;
  return at;
}

static __host__ __device__ __forceinline__ T(run_layout)
    T(lay_out_run)(size_t n_padded, size_t n_components, int standard, int sums, int per_thread) {
  T(run_layout) at;
  size_t used = FMC_NORMAL_COPIES * FMC_NORMAL_ROWS * sizeof(float4),
         parameters = standard ? 0 : n_components * n_padded;
  size_t column = sums && per_thread > RUN_REGISTER_SUMS ? (size_t)per_thread * RUN_THREADS(per_thread) : 0;
  at.step_size = T(run_place)(&used, n_padded * sizeof(REAL));
  at.log_const = T(run_place)(&used, n_components * sizeof(REAL));
  at.mean = T(run_place)(&used, parameters * sizeof(REAL));
  at.inv_sd = T(run_place)(&used, parameters * sizeof(REAL));
  at.shift = T(run_place)(&used, sums ? n_padded * sizeof(double) : 0);
  at.reach = T(run_place)(&used, sums ? n_padded * sizeof(double) : 0);
  at.least = T(run_place)(&used, sums ? n_padded * sizeof(long long) : 0);
  at.most = T(run_place)(&used, sums ? n_padded * sizeof(long long) : 0);
  at.batch = T(run_place)(&used, column * sizeof(double));
  at.squares = T(run_place)(&used, column * sizeof(double));
  at.all = used;
  return at;
}

/* Sum over the lanes of a chain: those of a thread as a tree, then the threads' as a tree. All get it. */
template <int LANES> static __device__ __forceinline__ REAL T(sum_of_group)(REAL (&sum)[LANES], int group) {
  REAL total = T(tree_of_lanes)(sum);
  if (group == 1)
    return total;
#pragma unroll
  for (int stride = 1; stride < 32; stride *= 2)
    if (stride < group)
      total = total + __shfl_xor_sync(0xffffffffu, total, stride);
  return total;
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
  const normal_copy table = copy_of_thread(copies, a.hidden);
  REAL *step_size = (REAL *)(run_shared + at.step_size), *log_const = (REAL *)(run_shared + at.log_const);
  REAL *mean = (REAL *)(run_shared + at.mean), *inv_sd = (REAL *)(run_shared + at.inv_sd);
  double *shift = (double *)(run_shared + at.shift), *reach = (double *)(run_shared + at.reach);
  long long *least = (long long *)(run_shared + at.least), *most = (long long *)(run_shared + at.most);

/* The dim of place k of thread `of` of a chain, and where in shared memory an array has it: 16 bytes of a thread beside
 * those of the next one. */
#define RUN_DIM_OF(of, k)                                                                                              \
  (((of)*LANES + (k) / (DEPTH * FMC_BLOCK) + n_lanes * ((k) / FMC_BLOCK % DEPTH)) * FMC_BLOCK + (k) % FMC_BLOCK)
#define RUN_AT_OF(type, of, k) (((k) / RUN_PACK(type) * group + (of)) * RUN_PACK(type) + (k) % RUN_PACK(type))
#define RUN_PACK(type) (16 / (int)sizeof(type))
#define RUN_DIM(k) RUN_DIM_OF(member, k)
#define RUN_AT(type, k) RUN_AT_OF(type, member, k)
  for (int e = threadIdx.x; e < n_padded; e += THREADS) {
    const int k = e % PER_THREAD, of = e / PER_THREAD, d = RUN_DIM_OF(of, k), to = RUN_AT_OF(REAL, of, k);
    step_size[to] = d < n_dim ? a.step_size[d] : (REAL)0;
    if (SUMS) {
      const int at = RUN_AT_OF(double, of, k);
      least[d] = d < n_dim ? ((const long long *)a.range)[2 * d] : ordered_bits(-FMC_INF);
      most[d] = d < n_dim ? ((const long long *)a.range)[2 * d + 1] : ordered_bits(FMC_INF);
      shift[at] = d < n_dim ? a.shift[d] : 0;
      reach[at] = run_reach(shift[at], least[d], most[d]);
    }
    for (int c = 0; !STANDARD && c < n_components; c++) {
      mean[c * n_padded + to] = d < n_dim ? a.target.mean[c * n_dim + d] : (REAL)0;
      inv_sd[c * n_padded + to] = d < n_dim ? a.target.inv_sd[c * n_dim + d] : (REAL)0;
    }
  }
  for (int k = threadIdx.x; k < n_components; k += THREADS)
    log_const[k] = a.target.log_const[k];
  load_normal_copies(copies);

  const int member = (int)threadIdx.x & (group - 1);
  const size_t wanted = ((size_t)blockIdx.x * THREADS + threadIdx.x) / group;
  const bool live = wanted < a.n_chains; /* every thread takes part in the shuffles */
  const size_t chain = live ? wanted : a.n_chains - 1, n_all = a.n_chains * a.n_dim;
  const uint64_t number = a.first_chain + chain;

  REAL x[PER_THREAD], log_old = a.log_density[chain];
  const bool IN_SHARED = PER_THREAD > RUN_REGISTER_SUMS;
  const int HERE = IN_SHARED ? 1 : PER_THREAD;
  double batch_here[HERE], squares_here[HERE];
  double *batch_there = (double *)(run_shared + at.batch) + threadIdx.x;
  double *squares_there = (double *)(run_shared + at.squares) + threadIdx.x;
#define BATCH(k) (*(IN_SHARED ? &batch_there[(k)*THREADS] : &batch_here[(k) % HERE]))
#define SQUARES(k) (*(IN_SHARED ? &squares_there[(k)*THREADS] : &squares_here[(k) % HERE]))
  const bool KEPT_HERE = PER_THREAD <= RUN_REGISTER_SHIFTS;
  const int KNOWN = KEPT_HERE ? PER_THREAD : 1;
  double shift_here[KNOWN], reach_here[KNOWN];
#define SHIFT(k) (KEPT_HERE ? shift_here[(k) % KNOWN] : shift[RUN_AT(double, k)])
#define REACH(k) (KEPT_HERE ? reach_here[(k) % KNOWN] : reach[RUN_AT(double, k)])
  unsigned n_accepted = 0;
  bool moved = true; /* since the range was last looked at */
  unsigned n_looked = 0;
  T(run_log_u) log_us;
  REAL log_u = 0;
#pragma unroll
  for (int k = 0; k < PER_THREAD; k++) {
    const int d = RUN_DIM(k);
    x[k] = d < n_dim ? a.x[(size_t)d * a.n_chains + chain] : (REAL)0;
    if (SUMS) {
      BATCH(k) = d < n_dim ? a.sums[FMC_SUM_BATCH * n_all + (size_t)d * a.n_chains + chain] : 0;
      SQUARES(k) = d < n_dim ? a.sums[FMC_SUM_SQUARES * n_all + (size_t)d * a.n_chains + chain] : 0;
      shift_here[k % KNOWN] = shift[RUN_AT(double, k)];
      reach_here[k % KNOWN] = reach[RUN_AT(double, k)];
    }
  }

  unsigned until_kept = (unsigned)(a.thin - a.since);
  size_t until_batch = SUMS ? a.batch - a.n_before % a.batch : 0;
  size_t until_store = a.draws ? a.store - a.n_before % a.store : 0, draw = 0;
  for (unsigned t = 0; t < (unsigned)a.n_steps; t++) {
    const uint32_t step = a.first_step + t;
    if (LANES > 1) {
      if (t == 0 || step / RUN_LOG_U_STEPS - log_us.first == (uint32_t)group)
        T(look_ahead)(&log_us, &a.keys, step, member, number);
    } else if ((t & (unsigned)(group - 1)) == 0) { /* each thread of the group for a step of its own */
      log_u = T(fmc_log_uniform)(a.seed, step + (uint32_t)member, number);
    }

    REAL proposal[PER_THREAD], sum[LANES];
#pragma unroll
    for (int lane = 0; lane < LANES; lane++) {
      sum[lane] = 0;
#pragma unroll
      for (int depth = 0; depth < DEPTH; depth++) {
        const int k0 = (lane * DEPTH + depth) * FMC_BLOCK;
        fmc_words w = {step, (uint32_t)FMC_PURPOSE_NOISE << 28 | (uint32_t)(RUN_DIM(k0) / FMC_BLOCK), (uint32_t)number,
                       (uint32_t)(number >> 32)};
        w = fmc_philox_keyed(w, &a.keys);
        uint32_t word[FMC_BLOCK] = {w.w0, w.w1, w.w2, w.w3};
#pragma unroll
        for (int j = 0; j < FMC_BLOCK; j++) {
          proposal[k0 + j] =
              T(fmc_propose)(x[k0 + j], step_size[RUN_AT(REAL, k0 + j)], (REAL)normal_from_copy(&table, word[j]));
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
            const int k = lane * DEPTH * FMC_BLOCK + e, of = c * n_padded + RUN_AT(REAL, k);
            sum[lane] = T(fmc_square_add)(sum[lane], proposal[k], mean[of], inv_sd[of]);
          }
        }
        REAL term = T(fmc_log_component)(log_const[c], T(sum_of_group)(sum, group));
        if (c == 0)
          log_new = term;
        else
          T(fmc_mixture_add)(&log_new, &scaled, term);
      }
      log_new = n_components > 1 ? T(fmc_mixture_total)(log_new, scaled) : log_new;
    }

    const int code =
        LANES > 1
            ? T(decide_step)(log_old, log_new, &log_us, a.seed, step, number, group)
            : T(fmc_accept)(log_old, log_new, __shfl_sync(0xffffffffu, log_u, (int)(t & (unsigned)(group - 1)), group));
    const bool accepted = code == FMC_ACCEPTED;
    moved |= accepted;
    log_old = accepted ? log_new : log_old;
    n_accepted += accepted;
#pragma unroll
    for (int k = 0; k < PER_THREAD; k++)
      move_if(accepted, &x[k], proposal[k]);
    if (code == FMC_PROPOSAL_NOT_FINITE && member == 0 && live)
      fmc_gpu_note(a.not_finite, step, chain);

    if (--until_kept > 0)
      continue;
    until_kept = (unsigned)a.thin;
    if (SUMS) {
      const bool batch_ends = --until_batch == 0;
#pragma unroll
      for (int k = 0; k < PER_THREAD; k++)
        fmc_chain_add((double)x[k], SHIFT(k), &BATCH(k), &SQUARES(k));
      bool outside = false;
      if (moved) {
        moved = false;
#pragma unroll
        for (int k = 0; k < PER_THREAD; k++)
          outside |= !(fabs((double)x[k] - SHIFT(k)) < REACH(k));
      }
      if (outside) {
#pragma unroll
        for (int k = 0; k < PER_THREAD; k++) {
          atomicMin(&least[RUN_DIM(k)], ordered_bits((double)x[k]));
          atomicMax(&most[RUN_DIM(k)], ordered_bits((double)x[k]));
        }
      }
      n_looked++;
      if ((n_looked & (n_looked - 1)) == 0) { /* ever more rarely, as extremes are; all threads of the block together */
        __syncthreads();
        for (int e = threadIdx.x; e < n_padded; e += THREADS) {
          const int at = RUN_AT_OF(double, e / PER_THREAD, e % PER_THREAD);
          const int d = RUN_DIM_OF(e / PER_THREAD, e % PER_THREAD);
          reach[at] = run_reach(shift[at], least[d], most[d]);
        }
        __syncthreads();
        for (int k = 0; k < KNOWN; k++)
          reach_here[k] = reach[RUN_AT(double, k)];
      }
      if (batch_ends) {
        until_batch = a.batch;
#pragma unroll
        for (int k = 0; k < PER_THREAD; k++) {
          const size_t to = (size_t)RUN_DIM(k) * a.n_chains + chain;
          if (RUN_DIM(k) < n_dim && live)
            fmc_chain_end_batch(&BATCH(k), a.sums + FMC_SUM_TOTAL * n_all + to,
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
        a.sums[FMC_SUM_BATCH * n_all + (size_t)d * a.n_chains + chain] = BATCH(k);
        a.sums[FMC_SUM_SQUARES * n_all + (size_t)d * a.n_chains + chain] = SQUARES(k);
      }
    }
  }
  if (!SUMS)
    return;
  __syncthreads();
  for (int d = threadIdx.x; d < n_dim; d += THREADS) {
    atomicMin((long long *)a.range + 2 * d, least[d]);
    atomicMax((long long *)a.range + 2 * d + 1, most[d]);
  }
}
#undef BATCH
#undef SQUARES
#undef SHIFT
#undef REACH
#undef RUN_DIM
#undef RUN_DIM_OF
#undef RUN_AT
#undef RUN_AT_OF
#undef RUN_PACK

/* Threads a chain, lanes and depth of each thread, for the shape of a run. */
typedef struct {
  int group, lanes, depth;
} T(run_shape);

/* Several lanes a thread where there are chains enough to fill the GPU: what a chain needs once is then done by fewer.
 * Sums of almost every state are better kept in registers, which have room for those of two lanes. */
static T(run_shape) T(shape_of_run)(const T(run_args) * a) {
  T(run_shape) shape;
  int n_lanes = (int)fmc_n_lanes(a->n_dim), most = a->shift && a->thin < 4 ? 2 : 4;
  shape.depth = 1;
  while ((size_t)n_lanes * shape.depth * FMC_BLOCK < a->n_dim)
    shape.depth *= 2;
  int enough = a->n_chains * n_lanes / most >= (size_t)kept.n_sms * 512;
  shape.lanes = shape.depth == 1 && n_lanes >= most && enough ? most : 1;
  shape.group = n_lanes / shape.lanes;
  return shape;
}

static size_t T(run_shared_bytes)(const T(run_args) * a, int standard) {
  T(run_shape) shape = T(shape_of_run)(a);
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
  T(run_shape) shape = T(shape_of_run)(&a);
  a.group = shape.group;
#define LAUNCH(lanes, depth)                                                                                           \
  (a.shift ? T(launch_run_shape) < lanes, depth, true > : T(launch_run_shape) < lanes, depth,                          \
   false >)(&a, standard, stream, context)
  if (shape.lanes == 4)
    return LAUNCH(4, 1);
  if (shape.lanes == 2)
    return T(launch_run_shape)<2, 1, true>(&a, standard, stream, context);
  switch (shape.depth) {
  case 1:
    return LAUNCH(1, 1);
  case 2:
    return LAUNCH(1, 2);
  case 4:
    return LAUNCH(1, 4);
  default:
    return LAUNCH(1, 8);
  }
#undef LAUNCH
}
