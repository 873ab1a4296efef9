/* A regression's log density on the GPU; see core/glm.h. Template over REAL; read by backend_cuda.cu alone.
 *
 * The blocks of observations fall into segments of a power of two. A block of threads sums one segment for some points;
 * a second kernel adds the segments. Segments are subtrees of the canonical tree, so their number changes no bit. */

#define GLM_THREADS 128

/* Points that a thread evaluates side by side: they share what is loaded of an observation. */
#define GLM_POINTS(n_fours) ((n_fours) <= 4 ? 2 : 1)

static size_t T(glm_n_segments)(const T(fmc_node) * node, size_t n_points, size_t *blocks_per_segment) {
  size_t n_blocks = T(fmc_glm_n_blocks)(node), n_groups = (n_points + 2 * GLM_THREADS - 1) / (2 * GLM_THREADS);
  size_t wanted = (size_t)kept.n_sms * 24; /* some waves of them, so that the last one counts little */
  *blocks_per_segment = 1;
  while (n_blocks / (2 * *blocks_per_segment) * n_groups >= wanted)
    *blocks_per_segment *= 2;
  return (n_blocks + *blocks_per_segment - 1) / *blocks_per_segment;
}

/* The next block's sum joins the sums that wait; `waiting` is read and written one level at a time. */
static __device__ __forceinline__ void T(glm_push)(double *waiting, size_t n_before, double sum) {
  int level = 0;
  for (; n_before >> level & 1; level++)
    sum = waiting[level] + sum;
  waiting[level] = sum;
}

static __device__ __forceinline__ double T(glm_total)(const double *waiting, size_t n) {
  int level = 0;
  while (!(n >> level & 1))
    level++;
  double sum = waiting[level];
  for (level++; n >> level; level++)
    if (n >> level & 1)
      sum = waiting[level] + sum;
  return sum;
}

typedef struct {
  T(fmc_node) node;
  T(points) points;
  size_t n_blocks, blocks_per_segment, half; /* half: the distance between a thread's two points */
  double *partial;                           /* segments x n_points */
} T(glm_args);

/* FOURS: blocks of four coefficients, held in registers; the last may be empty where there are more than four.
 * blockIdx.x: the segment, blockIdx.y: the group of points. Four blocks of threads an SM: what the registers allow. */
template <int FAMILY, int FOURS> static __global__ void __launch_bounds__(GLM_THREADS, 4) T(glm_kernel)(T(glm_args) a) {
  const int POINTS = GLM_POINTS(FOURS), WIDTH = FOURS * 4, CERTAIN = FOURS <= 4 ? WIDTH - 4 : WIDTH - 8;
  __shared__ __align__(16) REAL rows[FMC_OBS_BLOCK][WIDTH], ys[FMC_OBS_BLOCK], ws[FMC_OBS_BLOCK],
      offsets[FMC_OBS_BLOCK];
  const int n_coef = (int)T(fmc_glm_n_coef)(&a.node);
  const size_t n_points = a.points.n_points, first = (size_t)blockIdx.y * GLM_THREADS + threadIdx.x;
  REAL x[POINTS][WIDTH];
  double waiting[POINTS][24];
#pragma unroll
  for (int p = 0; p < POINTS; p++) {
    size_t i = first + p * a.half;
    const REAL *at = T(point)(a.points, i < n_points ? i : n_points - 1);
#pragma unroll
    for (int j = 0; j < WIDTH; j++)
      x[p][j] = j < n_coef ? at[j * a.points.n] : (REAL)0;
  }
  const size_t start = blockIdx.x * a.blocks_per_segment;
  const size_t end = start + a.blocks_per_segment < a.n_blocks ? start + a.blocks_per_segment : a.n_blocks;
  for (size_t block = start; block < end; block++) {
    const size_t o0 = block * FMC_OBS_BLOCK;
    const int n_obs = (int)(a.node.count - o0 < FMC_OBS_BLOCK ? a.node.count - o0 : FMC_OBS_BLOCK);
    const REAL *from = a.node.array[FMC_GLM_X] + o0 * n_coef;
    __syncthreads(); /* the last block's rows have been read */
    for (int e = threadIdx.x; e < n_obs * n_coef; e += GLM_THREADS)
      rows[e / n_coef][e % n_coef] = from[e];
    if (threadIdx.x < n_obs) {
      const REAL *y = a.node.array[FMC_GLM_Y], *w = a.node.array[FMC_GLM_W], *offset = a.node.array[FMC_GLM_OFFSET];
      ys[threadIdx.x] = y ? y[o0 + threadIdx.x] : (REAL)0;
      ws[threadIdx.x] = w ? w[o0 + threadIdx.x] : (REAL)1;
      offsets[threadIdx.x] = offset ? offset[o0 + threadIdx.x] : (REAL)0;
    }
    __syncthreads();
    double sum[POINTS];
    REAL product[POINTS];
#pragma unroll
    for (int p = 0; p < POINTS; p++) {
      sum[p] = 0;
      product[p] = 1;
    }
#pragma unroll 2
    for (int o = 0; o < n_obs; o++) {
      REAL eta[POINTS];
#pragma unroll
      for (int p = 0; p < POINTS; p++)
        eta[p] = offsets[o];
#pragma unroll
      for (int j = 0; j < WIDTH; j++)
        if (j < CERTAIN || j < n_coef)
#pragma unroll
          for (int p = 0; p < POINTS; p++)
            eta[p] = R_FMA(rows[o][j], x[p][j], eta[p]);
#pragma unroll
      for (int p = 0; p < POINTS; p++)
        T(fmc_glm_add)(FAMILY, eta[p], ys[o], ws[o], &sum[p], &product[p]);
    }
#pragma unroll
    for (int p = 0; p < POINTS; p++)
      T(glm_push)(waiting[p], block - start, T(fmc_glm_block_sum)(FAMILY, sum[p], product[p]));
  }
#pragma unroll
  for (int p = 0; p < POINTS; p++) {
    size_t i = first + p * a.half;
    if (first < a.half && i < n_points)
      a.partial[blockIdx.x * n_points + i] = T(glm_total)(waiting[p], end - start);
  }
}

/* Any number of coefficients; a thread per point and segment. */
static __global__ void __launch_bounds__(GLM_THREADS) T(glm_wide_kernel)(T(glm_args) a) {
  size_t i = (size_t)blockIdx.y * GLM_THREADS + threadIdx.x;
  if (i >= a.points.n_points)
    return;
  double waiting[24];
  const size_t start = blockIdx.x * a.blocks_per_segment;
  const size_t end = start + a.blocks_per_segment < a.n_blocks ? start + a.blocks_per_segment : a.n_blocks;
  for (size_t block = start; block < end; block++) {
    double sum;
    T(fmc_glm_block)(&a.node, block, T(point)(a.points, i), a.points.n, 1, &sum);
    T(glm_push)(waiting, block - start, sum);
  }
  a.partial[blockIdx.x * a.points.n_points + i] = T(glm_total)(waiting, end - start);
}

#define GLM_FINISH_HEIGHT 32

/* Adds the segments, 32 points a block, and finishes. A thread's segments are a subtree too. */
static __global__ void __launch_bounds__(1024)
    T(glm_finish_kernel)(T(fmc_node) node, T(points) p, const double *partial, size_t n_segments, REAL *out) {
  __shared__ double sums[GLM_FINISH_HEIGHT][32];
  size_t i = (size_t)blockIdx.x * 32 + threadIdx.x, each = 1;
  while (each * GLM_FINISH_HEIGHT < n_segments)
    each *= 2;
  size_t start = threadIdx.y * each, end = start + each < n_segments ? start + each : n_segments;
  if (i < p.n_points && start < end) {
    double waiting[40];
    for (size_t s = start; s < end; s++)
      T(glm_push)(waiting, s - start, partial[s * p.n_points + i]);
    sums[threadIdx.y][threadIdx.x] = T(glm_total)(waiting, end - start);
  }
  size_t n = (n_segments + each - 1) / each;
  for (size_t stride = 1; stride < n; stride *= 2) {
    __syncthreads();
    if (threadIdx.y % (2 * stride) == 0 && threadIdx.y + stride < n)
      sums[threadIdx.y][threadIdx.x] += sums[threadIdx.y + stride][threadIdx.x];
  }
  if (threadIdx.y == 0 && i < p.n_points)
    T(fmc_glm_finish)(&node, &sums[0][threadIdx.x], T(point)(p, i), p.n, 1, out + i);
}

template <int FAMILY> static void T(launch_glm_family)(const T(glm_args) * args, dim3 grid, cudaStream_t stream) {
  switch ((T(fmc_glm_n_coef)(&args->node) + 3) / 4) {
  case 1:
    T(glm_kernel)<FAMILY, 1><<<grid, GLM_THREADS, 0, stream>>>(*args);
    break;
  case 2:
    T(glm_kernel)<FAMILY, 2><<<grid, GLM_THREADS, 0, stream>>>(*args);
    break;
  case 3:
    T(glm_kernel)<FAMILY, 3><<<grid, GLM_THREADS, 0, stream>>>(*args);
    break;
  case 4:
    T(glm_kernel)<FAMILY, 4><<<grid, GLM_THREADS, 0, stream>>>(*args);
    break;
  case 5:
  case 6:
    T(glm_kernel)<FAMILY, 6><<<grid, GLM_THREADS, 0, stream>>>(*args);
    break;
  default:
    T(glm_kernel)<FAMILY, 8><<<grid, GLM_THREADS, 0, stream>>>(*args);
  }
}

/* `partial` has room for T(glm_n_segments) x n_points. */
static void T(launch_glm)(const T(fmc_node) * node, const T(points) * points, double *partial, REAL *out,
                          cudaStream_t stream) {
  T(glm_args) args = {*node, *points, T(fmc_glm_n_blocks)(node), 0, points->n_points, partial};
  size_t n_segments = T(glm_n_segments)(node, points->n_points, &args.blocks_per_segment);
  size_t n_fours = (T(fmc_glm_n_coef)(node) + 3) / 4;
  if (n_fours <= 8 && GLM_POINTS(n_fours) == 2)
    args.half = (points->n_points + 1) / 2;
  dim3 grid((unsigned)n_segments, (unsigned)((args.half + GLM_THREADS - 1) / GLM_THREADS));
  if (n_fours > 8) {
    T(glm_wide_kernel)<<<grid, GLM_THREADS, 0, stream>>>(args);
  } else {
    switch (node->flags & FMC_GLM_FAMILY) {
    case FMC_GLM_LOGIT_UNIT:
      T(launch_glm_family)<FMC_GLM_LOGIT_UNIT>(&args, grid, stream);
      break;
    case FMC_GLM_LOGIT_WEIGHTED:
      T(launch_glm_family)<FMC_GLM_LOGIT_WEIGHTED>(&args, grid, stream);
      break;
    case FMC_GLM_POISSON:
      T(launch_glm_family)<FMC_GLM_POISSON>(&args, grid, stream);
      break;
    default:
      T(launch_glm_family)<FMC_GLM_GAUSSIAN>(&args, grid, stream);
    }
  }
  dim3 block(32, GLM_FINISH_HEIGHT);
  T(glm_finish_kernel)<<<(unsigned)((points->n_points + 31) / 32), block, 0, stream>>>(*node, *points, partial,
                                                                                       n_segments, out);
}
