/* Densities of any kind on the GPU: each node of the program is a kernel over all points, its values lie in device
 * memory. Template over REAL; read by backend_cuda.cu alone. */

/* Segments of observations that a program sums up apart, 0 where it has none. */
static size_t T(segments)(const T(program) * program, size_t n_points) {
  size_t most = 0, unused;
  for (size_t k = 0; k < program->n_nodes; k++) {
    const T(fmc_node) *node = program->node + k;
    size_t n = node->kind == FMC_KIND_glm ? T(glm_n_segments)(node, n_points, &unused) : 0;
    most = n > most ? n : most;
  }
  return most;
}

/* Bytes for sums over segments of n_points points or fewer. Fewer points have more segments: at most those of the power
 * of two below. */
static size_t T(most_partial)(const T(program) * program, size_t n_points) {
  size_t most = 0;
  for (size_t from = 1, to; from <= n_points; from = to) {
    to = 2 * from;
    size_t n = T(segments)(program, from) * smaller(to, n_points);
    most = n > most ? n : most;
  }
  return most * sizeof(double);
}

/* Any leaf, a thread per point. */
template <int KIND>
static __global__ void __launch_bounds__(128) T(leaf_kernel)(T(fmc_node) node, T(points) p, REAL *out) {
  node.kind = KIND; /* lets the compiler drop the other leaves */
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.n_points; i += (size_t)gridDim.x * blockDim.x)
    T(fmc_leaf)(&node, T(point)(p, i), p.n, 1, out + i);
}

#define LAUNCH_LEAF(name)                                                                                              \
  case FMC_KIND_##name:                                                                                                \
    T(leaf_kernel)<FMC_KIND_##name><<<grid, 128, 0, stream>>>(*node, *points, out);                                    \
    break;
static void T(launch_leaf)(const T(fmc_node) * node, const T(points) * points, REAL *out, cudaStream_t stream) {
  unsigned grid = (unsigned)smaller((points->n_points + 127) / 128, 1u << 20);
  switch (node->kind) { FMC_LEAVES(LAUNCH_LEAF) }
}
#undef LAUNCH_LEAF

static __global__ void __launch_bounds__(256)
    T(operate_kernel)(int kind, double number, REAL *value, REAL *scaled, size_t n_points) {
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n_points; i += (size_t)gridDim.x * blockDim.x)
    T(fmc_operate)(kind, number, value + i, scaled + i, n_points);
}

/* Values of the program at all points, into level `base` of the stack. */
static fmc_status T(launch_program)(const T(program) * program, const T(points) * points, const T(stack) * stack,
                                    int base, cudaStream_t stream, fmc_context *context) {
  fmc_status status = FMC_OK;
  size_t n = points->n_points;
  unsigned grid = (unsigned)smaller((n + 255) / 256, 1u << 20);
  int top = base - 1;
  for (size_t k = 0; k < program->n_nodes; k++) {
    const T(fmc_node) *node = program->node + k;
    if (fmc_is_leaf(node->kind)) {
      REAL *out = stack->value + (size_t)++top * n;
      if (node->kind == FMC_KIND_glm)
        T(launch_glm)(node, points, stack->partial, out, stream);
      else if (node->kind == FMC_KIND_source)
        TRY_STATUS(source_launch_log_density((const fmc_source_module *)node->source, points->x, points->x_new,
                                             points->n, points->x_new ? points->n : n, out, stream, context));
      else
        T(launch_leaf)(node, points, out, stream);
    } else {
      size_t at = (size_t)top * n;
      T(operate_kernel)<<<grid, 256, 0, stream>>>(node->kind, node->number[0], stack->value + at, stack->scaled + at,
                                                  n);
      top -= T(fmc_pops)(node->kind);
    }
    TRY(cudaGetLastError());
  }
done:
  return status;
}

/* Proposals alone, or with a Cholesky factor the noise: a block of chains by lanes, as mh_step_kernel. */
static __global__ void __launch_bounds__(512, 2) T(propose_kernel)(T(mh_args) a) {
  __shared__ float4 table[FMC_NORMAL_ROWS];
  size_t n_lanes = fmc_n_lanes(a.n_dim);
  if (!a.noise)
    load_normal_table(table);
  for (size_t first = (size_t)blockIdx.x * blockDim.x; first < a.n_chains; first += (size_t)gridDim.x * blockDim.x)
    if (first + threadIdx.x < a.n_chains)
      T(propose_lanes)(a, first + threadIdx.x, n_lanes, table);
}

/* From noise to proposals by a Cholesky factor; a thread per chain and dim. */
static __global__ void __launch_bounds__(256) T(move_kernel)(T(mh_args) a) {
  size_t chain = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (chain >= a.n_chains)
    return;
  for (size_t d = blockIdx.y; d < a.n_dim; d += gridDim.y)
    a.x_new[d * a.n_chains + chain] = a.x[d * a.n_chains + chain] + T(move_by_factor)(a, d, chain);
}

static void T(launch_propose)(const T(mh_args) * args, int n_sms, cudaStream_t stream) {
  size_t width, height, most;
  T(shape_of_blocks)(args, &width, &height);
  most = (size_t)n_sms * (2048 / (width * height));
  dim3 block((unsigned)width, (unsigned)height);
  T(propose_kernel)<<<(unsigned)smaller((args->n_chains + width - 1) / width, most), block, 0, stream>>>(*args);
  if (args->cholesky) {
    dim3 grid((unsigned)((args->n_chains + 255) / 256), (unsigned)smaller(args->n_dim, 65535));
    T(move_kernel)<<<grid, 256, 0, stream>>>(*args);
  }
}

/* Decides from log densities at x and x_new, and takes x_new back where it was rejected. Every thread of a chain comes
 * to the same decision; those of the first dims write it down. */
static __global__ void __launch_bounds__(256) T(decide_kernel)(T(mh_args) a, const REAL *log_old, const REAL *log_new) {
  size_t chain = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (chain >= a.n_chains)
    return;
  int decided;
  if (blockIdx.y == 0) {
    decided = T(decide)(a, chain, log_old[chain], log_new[chain]);
  } else {
    REAL log_u = T(log_u_of)(a, chain);
    decided = T(fmc_accept)(log_old[chain], log_new[chain], log_u);
  }
  if (decided != FMC_ACCEPTED)
    for (size_t d = blockIdx.y; d < a.n_dim; d += gridDim.y)
      a.x_new[d * a.n_chains + chain] = a.x[d * a.n_chains + chain];
}

static void T(launch_decide)(const T(mh_args) * args, const REAL *log_old, const REAL *log_new, cudaStream_t stream) {
  dim3 grid((unsigned)((args->n_chains + 255) / 256), (unsigned)smaller((args->n_dim + 15) / 16, 64));
  T(decide_kernel)<<<grid, 256, 0, stream>>>(*args, log_old, log_new);
}

static __global__ void __launch_bounds__(256)
    T(ratio_kernel)(const REAL *log_p, const REAL *log_q, size_t n, double *log_weights) {
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
    log_weights[i] = log_p[i] - log_q[i];
}
