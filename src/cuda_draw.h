/* Draws on the GPU: plans placed with a call's parameters, and a kernel for any plan. Template over REAL; read by
 * backend_cuda.cu alone. */

/* A plan's arrays on the device. */
static T(fmc_draw_plan) T(place_drawing)(const fmc_drawing *from, placement *to) {
  T(fmc_draw_plan) plan;
  size_t n_dim = from->n_dim, per_component = from->full ? n_dim * (n_dim + 1) / 2 : n_dim;
  plan.n_dim = n_dim;
  plan.count = from->count;
  plan.full = from->full;
  plan.n_groups = from->n_groups;
  plan.cumulative = (const double *)place_bytes(from->cumulative, from->count * sizeof(double), to);
  plan.df = (const double *)place_bytes(from->df, from->count * sizeof(double), to);
  plan.group = (const size_t *)place_bytes(from->group, (from->n_groups + 1) * sizeof(size_t), to);
  plan.mean = T(place_array)(from->mean, from->count * n_dim, to);
  plan.factor = T(place_array)(from->factor, from->count * per_component, to);
  return plan;
}

typedef struct {
  sample_range range;
  size_t stride;
  T(fmc_draw_plan) plan;
  uint64_t seed;
  REAL *x; /* columns `stride` apart */
} T(draw_args);

/* A thread per sample; its normals wait where the sample will be. */
static __global__ void __launch_bounds__(256) T(draw_kernel)(const __grid_constant__ T(draw_args) a) {
  __shared__ float4 table[FMC_NORMAL_ROWS];
  load_normal_table(table);
  for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.range.n; i += (size_t)gridDim.x * blockDim.x)
    T(fmc_draw_point)(&a.plan, a.seed, a.range.first + i, (const float(*)[4])table, a.x + i, a.stride);
}

static void T(launch_draw)(const T(draw_args) * args, cudaStream_t stream) {
  unsigned grid = (unsigned)smaller((args->range.n + 255) / 256, (size_t)kept.n_sms * 8);
  T(draw_kernel)<<<grid, 256, 0, stream>>>(*args);
}
