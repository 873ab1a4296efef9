/* What the kernel of cuda_is_fused.h computes of a sample: its draw and its log densities, for mixtures of independent
 * normals in up to FMC_FEW_DIMS dims. Template over REAL; read by backend_cuda.cu alone. */

/* Target and proposal come by value: a number from constant memory takes no way through shared memory, where samples
 * and normals are on theirs. A kernel's arguments have 4 KB. */
typedef struct {
  sample_range range;
  size_t n_dim, stride;
  const REAL *x; /* the first sample, columns `stride` apart; not where samples are drawn */
  fmc_keys keys;
  fmc_hidden hidden;
  uint64_t seed;
  T(fmc_draw_plan) plan;                               /* its arrays lie on the device */
  REAL draw_mean[FMC_FEW_DIMS], draw_sd[FMC_FEW_DIMS]; /* of the only component, where there is but one */
  int draw_kind;                                       /* FEW_CENTRED, or FEW_GENERAL */
  double shift[FMC_FEW_DIMS];
  double *log_weights; /* or NULL */
  sample_notes notes;
  double *rows;                 /* a row for each tile */
  int n_components[2], kind[2]; /* of target and proposal */
  /* The proposal's components stand at the end, the first of them last, so that the places of both are known. Dims that
   * are not there have zeros; they add 0 to every sum of squares. */
  REAL log_const[FMC_FEW_COMPONENTS], mean[FMC_FEW_COMPONENTS][FMC_FEW_DIMS], inv_sd[FMC_FEW_COMPONENTS][FMC_FEW_DIMS];
} T(fused_args);

static_assert(sizeof(T(fused_args)) <= 4096, "more arguments than a kernel can have");

static __host__ __device__ __forceinline__ int T(few_place)(bool of_proposal, int k) {
  return of_proposal ? FMC_FEW_COMPONENTS - 1 - k : k;
}

static void T(place_few)(T(fused_args) * args, bool is_proposal, const fmc_node *mixture) {
  const size_t n_dim = mixture->n_dim;
  const double *mean = mixture->array[FMC_MIXTURE_MEAN], *inv_sd = mixture->array[FMC_MIXTURE_INV_SD];
  int alike = 1, centred = mixture->count == 1;
  for (size_t k = 0; k < mixture->count; k++) {
    const int at = T(few_place)(is_proposal, (int)k);
    args->log_const[at] = (REAL)mixture->array[FMC_MIXTURE_LOG_CONST][k];
    for (size_t d = 0; d < n_dim; d++, mean++, inv_sd++) {
      args->mean[at][d] = (REAL)*mean;
      args->inv_sd[at][d] = (REAL)*inv_sd;
      alike &= args->inv_sd[at][d] == args->inv_sd[at][0];
      centred &= args->mean[at][d] == 0;
    }
  }
  args->n_components[is_proposal] = (int)mixture->count;
  args->kind[is_proposal] = alike && centred ? FEW_CENTRED : alike ? FEW_ALIKE : FEW_GENERAL;
}

/* Dims that are not there are drawn as 0, which FEW_CENTRED has no means for. */
static void T(place_few_draws)(T(fused_args) * args, const fmc_drawing *drawing) {
  int centred = drawing->count == 1 && args->n_dim == FMC_BLOCK * fmc_n_lanes(args->n_dim);
  for (size_t d = 0; d < args->n_dim && drawing->count == 1; d++) {
    args->draw_mean[d] = (REAL)drawing->mean[d];
    args->draw_sd[d] = (REAL)drawing->factor[d];
    centred &= args->draw_mean[d] == 0 && args->draw_sd[d] == args->draw_sd[0];
  }
  args->draw_kind = centred ? FEW_CENTRED : FEW_GENERAL;
}

/* Adds COUNT components, from number k on, to a mixture's sum at points whose dims are at hand. */
template <int LANES, int POINTS, int COUNT, int KIND, bool PROPOSAL>
static __device__ __forceinline__ void T(few_components)(const T(fused_args) & a, int k, bool is_first,
                                                         const REAL (&x)[POINTS][LANES * FMC_BLOCK],
                                                         REAL (&value)[POINTS], REAL (&scaled)[POINTS]) {
  REAL sum[COUNT][POINTS][LANES];
#pragma unroll
  for (int lane = 0; lane < LANES; lane++)
#pragma unroll
    for (int c = 0; c < COUNT; c++) {
#pragma unroll
      for (int p = 0; p < POINTS; p++)
        sum[c][p][lane] = 0;
#pragma unroll
      for (int d = lane * FMC_BLOCK; d < (lane + 1) * FMC_BLOCK; d++) {
        const REAL mean = KIND == FEW_CENTRED ? (REAL)0 : a.mean[T(few_place)(PROPOSAL, k + c)][d];
        const REAL inv_sd = a.inv_sd[T(few_place)(PROPOSAL, k + c)][KIND == FEW_GENERAL ? d : 0];
#pragma unroll
        for (int p = 0; p < POINTS; p++)
          sum[c][p][lane] = T(fmc_square_add)(sum[c][p][lane], x[p][d], mean, inv_sd);
      }
    }
#pragma unroll
  for (int c = 0; c < COUNT; c++)
#pragma unroll
    for (int p = 0; p < POINTS; p++) {
      const REAL term = T(fmc_log_component)(a.log_const[T(few_place)(PROPOSAL, k + c)], T(tree_of_lanes)(sum[c][p]));
      if (c == 0 && is_first) {
        value[p] = term;
        scaled[p] = 1;
      } else {
        T(fmc_mixture_add)(&value[p], &scaled[p], term);
      }
    }
}

/* As fmc_leaf_mixture(). */
template <int LANES, int POINTS, int KIND, bool PROPOSAL>
static __device__ __forceinline__ void
T(few_mixture)(const T(fused_args) & a, const REAL (&x)[POINTS][LANES * FMC_BLOCK], REAL (&value)[POINTS]) {
  const int n = a.n_components[PROPOSAL];
  REAL scaled[POINTS];
  if (n == 1) {
    T(few_components)<LANES, POINTS, 1, KIND, PROPOSAL>(a, 0, true, x, value, scaled);
    return;
  }
  if (n == 2) {
    T(few_components)<LANES, POINTS, 2, KIND, PROPOSAL>(a, 0, true, x, value, scaled);
  } else {
    T(few_components)<LANES, POINTS, 3, KIND, PROPOSAL>(a, 0, true, x, value, scaled);
#pragma unroll 1
    for (int k = 3; k < n; k++)
      T(few_components)<LANES, POINTS, 1, KIND, PROPOSAL>(a, k, false, x, value, scaled);
  }
#pragma unroll
  for (int p = 0; p < POINTS; p++)
    value[p] = T(fmc_mixture_total)(value[p], scaled[p]);
}

template <int LANES, int POINTS, bool PROPOSAL>
static __device__ __forceinline__ void
T(few_log_density)(const T(fused_args) & a, const REAL (&x)[POINTS][LANES * FMC_BLOCK], REAL (&value)[POINTS]) {
  REAL scaled[POINTS];
  if (a.kind[PROPOSAL] == FEW_CENTRED)
    T(few_components)<LANES, POINTS, 1, FEW_CENTRED, PROPOSAL>(a, 0, true, x, value, scaled);
  else if (a.kind[PROPOSAL] == FEW_ALIKE)
    T(few_mixture)<LANES, POINTS, FEW_ALIKE, PROPOSAL>(a, x, value);
  else
    T(few_mixture)<LANES, POINTS, FEW_GENERAL, PROPOSAL>(a, x, value);
}

/* As fmc_draw_point(), of independent normals, for rows of samples from `number` on. */
template <int LANES, int ROWS>
static __device__ __forceinline__ void T(few_draw)(const T(fused_args) & a, uint64_t number, const normal_copy *table,
                                                   REAL (&x)[ROWS][LANES * FMC_BLOCK]) {
  const int N = LANES * FMC_BLOCK;
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    const uint64_t sample = number + (uint64_t)(r * FMC_TILE_LANES);
#pragma unroll
    for (int block = 0; block < LANES; block++) {
      fmc_words w = {FMC_DRAW_NORMALS, (uint32_t)FMC_PURPOSE_DRAW << 28 | (uint32_t)block, (uint32_t)sample,
                     (uint32_t)(sample >> 32)};
      w = fmc_philox_keyed(w, &a.keys);
      const uint32_t word[FMC_BLOCK] = {w.w0, w.w1, w.w2, w.w3};
#pragma unroll
      for (int j = 0; j < FMC_BLOCK; j++)
        x[r][block * FMC_BLOCK + j] = (REAL)normal_from_copy(table, word[j]);
    }
  }
  if (a.draw_kind == FEW_CENTRED) { /* 0 + sd z is sd z but for the sign of a zero, which no sum shows */
#pragma unroll
    for (int d = 0; d < N; d++)
#pragma unroll
      for (int r = 0; r < ROWS; r++)
        x[r][d] = a.draw_sd[0] * x[r][d];
  } else if (a.plan.count == 1) {
#pragma unroll
    for (int d = 0; d < N; d++)
#pragma unroll
      for (int r = 0; r < ROWS; r++)
        x[r][d] = a.draw_mean[d] + a.draw_sd[d] * x[r][d];
  } else {
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const size_t k = T(fmc_draw_component_of)(&a.plan, a.seed, number + (uint64_t)(r * FMC_TILE_LANES));
      const REAL *mean = a.plan.mean + k * a.n_dim, *sd = a.plan.factor + k * a.n_dim;
#pragma unroll
      for (int d = 0; d < N; d++)
        x[r][d] = d < (int)a.n_dim ? mean[d] + sd[d] * x[r][d] : (REAL)0;
    }
  }
}
