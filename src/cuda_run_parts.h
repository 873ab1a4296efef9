/* A step of a run as kernels of its own, for densities and shapes that run_kernel does not take: proposals, evaluation,
 * decision, sums. Template over REAL; read by backend_cuda.cu alone. */

/* Decides, and takes accepted proposals over into x. Every thread of a chain comes to the same decision; those of the
 * first dims write it down, into log_density_next, since the others still read log_density. */
static __global__ void __launch_bounds__(256)
    T(decide_run_kernel)(T(run_args) a, const REAL *x_new, const REAL *log_new, REAL *log_density_next, uint32_t step) {
  size_t chain = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (chain >= a.n_chains)
    return;
  REAL log_old = a.log_density[chain], log_u = T(fmc_log_uniform)(a.seed, step, a.first_chain + chain);
  int code = T(fmc_accept)(log_old, log_new[chain], log_u);
  if (blockIdx.y == 0) {
    log_density_next[chain] = code == FMC_ACCEPTED ? log_new[chain] : log_old;
    a.n_accepted[chain] += code == FMC_ACCEPTED;
    if (code == FMC_PROPOSAL_NOT_FINITE)
      fmc_gpu_note(a.not_finite, step, chain);
  }
  if (code == FMC_ACCEPTED)
    for (size_t d = blockIdx.y; d < a.n_dim; d += gridDim.y)
      a.x[d * a.n_chains + chain] = x_new[d * a.n_chains + chain];
}

/* Adds the states to the sums; a thread per chain, and a row of blocks for some dims. */
static __global__ void __launch_bounds__(256) T(chain_sums_kernel)(T(run_args) a, int batch_ends) {
  __shared__ double low[8], high[8];
  size_t chain = (size_t)blockIdx.x * blockDim.x + threadIdx.x, n_all = a.n_chains * a.n_dim;
  bool live = chain < a.n_chains;
  for (size_t d = blockIdx.y; d < a.n_dim; d += gridDim.y) {
    size_t at = d * a.n_chains + (live ? chain : a.n_chains - 1);
    double x = (double)a.x[at], smallest = x, largest = x;
    if (live) {
      double batch = a.sums[FMC_SUM_BATCH * n_all + at];
      fmc_chain_add(x, a.shift[d], &batch, a.sums + FMC_SUM_SQUARES * n_all + at);
      if (batch_ends)
        fmc_chain_end_batch(&batch, a.sums + FMC_SUM_TOTAL * n_all + at, a.sums + FMC_SUM_BATCH_SQUARES * n_all + at);
      a.sums[FMC_SUM_BATCH * n_all + at] = batch;
    }
    for (int stride = 1; stride < 32; stride *= 2) {
      double other = __shfl_xor_sync(0xffffffffu, smallest, stride);
      smallest = other < smallest ? other : smallest;
      other = __shfl_xor_sync(0xffffffffu, largest, stride);
      largest = other > largest ? other : largest;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
      low[threadIdx.x / 32] = smallest;
      high[threadIdx.x / 32] = largest;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int warp = 1; warp < 8; warp++) {
        smallest = low[warp] < smallest ? low[warp] : smallest;
        largest = high[warp] > largest ? high[warp] : largest;
      }
      fmc_gpu_extend(a.range + 2 * d, smallest, largest);
    }
  }
}

/* What the steps in parts need beside the run's own arrays. */
typedef struct {
  T(program) target;
  T(mh_args) proposal; /* as for launch_propose; step and matrices are set here */
  T(stack) stack;
  REAL *log_density_other; /* n_chains: takes turns with args.log_density */
} T(run_parts);

/* `a` as launch_run has it; a->log_density and parts->log_density_other may have changed places afterwards. */
static fmc_status T(launch_run_in_parts)(T(run_args) * a, T(run_parts) * parts, cudaStream_t stream,
                                         fmc_context *context) {
  fmc_status status = FMC_OK;
  size_t n_kept = a->n_before, draw = 0;
  unsigned width = (unsigned)((a->n_chains + 255) / 256);
  dim3 few(width, (unsigned)smaller((a->n_dim + 15) / 16, 64)), all(width, (unsigned)smaller(a->n_dim, 1024));
  T(points) points = {a->n_chains, a->n_chains, parts->proposal.x_new, NULL};
  for (size_t t = 0; t < a->n_steps; t++) {
    uint32_t step = a->first_step + (uint32_t)t;
    parts->proposal.step = step;
    T(launch_propose)(&parts->proposal, kept.n_sms, stream);
    TRY(cudaGetLastError());
    TRY_STATUS(T(launch_program)(&parts->target, &points, &parts->stack, 0, stream, context));
    T(decide_run_kernel)<<<few, 256, 0, stream>>>(*a, parts->proposal.x_new, parts->stack.value,
                                                  parts->log_density_other, step);
    TRY(cudaGetLastError());
    REAL *next = parts->log_density_other;
    parts->log_density_other = a->log_density;
    a->log_density = next;
    if ((a->since + t + 1) % a->thin != 0)
      continue;
    n_kept++;
    if (a->shift) {
      T(chain_sums_kernel)<<<all, 256, 0, stream>>>(*a, n_kept % a->batch == 0);
      TRY(cudaGetLastError());
    }
    if (a->draws && n_kept % a->store == 0)
      TRY(cudaMemcpyAsync(a->draws + draw++ * a->n_chains * a->n_dim, a->x, a->n_chains * a->n_dim * sizeof(REAL),
                          cudaMemcpyDeviceToDevice, stream));
  }
done:
  return status;
}
