/* What a step of a run is decided by. Template over REAL; read by backend_cuda.cu alone. */

/* log u of steps to come, worked out by the threads of a chain together: each holds those of one counter of uniforms.
 * In double precision log u is only needed to decide, and float is enough for that unless it is close: it is kept as a
 * float, or NaN where that is not good to RUN_LOG_U_ERROR. */
#define RUN_LOG_U_STEPS (IS_SINGLE ? 4 : 2) /* steps that a counter serves */
#define RUN_LOG_U_ERROR 0x1p-12

typedef struct {
  uint32_t first; /* counter of the chain's first thread */
  float of_0, of_1, of_2, of_3;
} T(run_log_u);

/* log u to RUN_LOG_U_ERROR from the top 24 bits k of u's first word, so that u is within 2^-24 above k 2^-24. Where k
 * is below 2^13 that is too coarse. The polynomial is log(m) on [1, 2] to 7e-5. */
static __device__ __forceinline__ float T(rough_log_u)(uint32_t high) {
  uint32_t k = high >> 8, bits = fmc_bitsf((float)k);
  float m = fmc_from_bitsf((bits & 0x7fffffu) | 0x3f800000u);
  float exponent = fmc_from_bitsf(bits >> 23 | 0x4b000000u) - (0x1p23f + 151.0f);
  float p = -0x1.cf6f98p-5f;
  p = fmc_fmaf(p, m, 0x1.c9e930p-2f);
  p = fmc_fmaf(p, m, -0x1.784dfcp+0f);
  p = fmc_fmaf(p, m, 0x1.691c2ap+1f);
  p = fmc_fmaf(p, m, -0x1.bde52cp+0f);
  return k < 1u << 13 ? FMC_NANF : fmc_fmaf(exponent, FMC_LN2_HIF, p);
}

static __device__ __forceinline__ void T(look_ahead)(T(run_log_u) * log_u, const fmc_keys *keys, uint32_t step,
                                                     int member, uint64_t number) {
  log_u->first = step / RUN_LOG_U_STEPS;
  fmc_words w = {log_u->first + (uint32_t)member, (uint32_t)FMC_PURPOSE_ACCEPT << 28, (uint32_t)number,
                 (uint32_t)(number >> 32)};
  w = fmc_philox_keyed(w, keys);
  if (IS_SINGLE) {
    log_u->of_0 = fmc_logf(fmc_uniform_of_wordf(w.w0));
    log_u->of_1 = fmc_logf(fmc_uniform_of_wordf(w.w1));
    log_u->of_2 = fmc_logf(fmc_uniform_of_wordf(w.w2));
    log_u->of_3 = fmc_logf(fmc_uniform_of_wordf(w.w3));
  } else {
    log_u->of_0 = T(rough_log_u)(w.w0);
    log_u->of_1 = T(rough_log_u)(w.w2);
  }
}

/* Decides as fmc_accept() with the exact log u does: where a float decides, the exact one lies on the same side. */
static __device__ __forceinline__ int T(decide_step)(REAL log_old, REAL log_new, const T(run_log_u) * log_u,
                                                     uint64_t seed, uint32_t step, uint64_t number, int group) {
  float mine = step & 1 ? log_u->of_1 : log_u->of_0;
  if (IS_SINGLE && step & 2)
    mine = step & 1 ? log_u->of_3 : log_u->of_2;
  float rough = group == 1 ? mine : __shfl_sync(0xffffffffu, mine, (int)(step / RUN_LOG_U_STEPS - log_u->first), group);
  REAL exact = (REAL)rough;
  if (!IS_SINGLE && !(fabs((double)(log_new - log_old) - (double)rough) > RUN_LOG_U_ERROR))
    exact = T(fmc_log_uniform)(seed, step, number);
  return T(fmc_accept)(log_old, log_new, exact);
}
