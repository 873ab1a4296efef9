/* The body of cpu_kernels_*.c. Before it is read, FMC_LEVEL names the build, FMC_KERNELS its table. */
#include <string.h>

#include "core/core.h"
#include "cpu_kernels.h"
#include "cpu_noise.h"

#ifndef __GNUC__
#define __builtin_prefetch(at, for_writing) ((void)(at))
#endif

/* A thread's next strip lies behind this one in every column. That is 256 bytes, too little for a processor to foresee;
 * unasked, a step whose matrices are not in the cache takes 1.7 times as long. */
static inline void prefetch_strip(const double *at) {
  for (int i = 0; i < FMC_STRIP; i += 8)
    __builtin_prefetch(at + i, 0);
}

static inline void prefetch_strip_to_write(double *at) {
  for (int i = 0; i < FMC_STRIP; i += 8)
    __builtin_prefetch(at + i, 1);
}

#include "core/real_f64.h"
#include "cpu_strip.h"
#include "cpu_run.h"
#include "core/real_end.h"

#include "core/real_f32.h"
#include "cpu_strip.h"
#include "cpu_run.h"
#include "core/real_end.h"

static void mh_strip(const fmc_mh_step_job *job, const void *target, size_t first, size_t n, void *scratch) {
  (job->single_precision ? mh_strip_f32 : mh_strip_f64)(job, target, first, n, scratch);
}

static void log_weights(const fmc_is_job *job, const void *target, const void *proposal, size_t first, size_t n,
                        double *out, void *scratch) {
  (job->single_precision ? log_weights_f32 : log_weights_f64)(job, target, proposal, first, n, out, scratch);
}

static void log_density(const fmc_log_density_job *job, const void *density, size_t first, size_t n, void *scratch) {
  (job->single_precision ? log_density_f32 : log_density_f64)(job, density, first, n, scratch);
}

static void run_strip(const fmc_mh_run_job *job, const void *target, size_t first, size_t n, size_t from, size_t to,
                      fmc_not_finite *bad, double *range, void *scratch) {
  (job->single_precision ? run_strip_f32 : run_strip_f64)(job, target, first, n, from, to, bad, range, scratch);
}

/* Sum of the lanes as a tree of neighbours; lanes is overwritten. */
static double tree_sum(double *lanes) {
  for (int stride = 1; stride < FMC_TILE_LANES; stride *= 2)
    for (int i = 0; i < FMC_TILE_LANES; i += 2 * stride)
      lanes[i] = lanes[i] + lanes[i + stride];
  return lanes[0];
}

/* Brings the lanes to the tile's largest log weight and adds them. */
static double joined_lanes(double *lanes, const double *factor) {
  FMC_SIMD
  for (int i = 0; i < FMC_TILE_LANES; i++)
    lanes[i] = fmc_rescaled(lanes[i], factor[i]);
  return tree_sum(lanes);
}

static void tile_sums(const fmc_is_job *job, size_t first, size_t n, const double *log_weights, fmc_weighted_sums *out,
                      void *scratch) {
  double *w = (double *)scratch, *scale = w + FMC_TILE;
  double max[FMC_TILE_LANES], sum[FMC_TILE_LANES], sum_squares[FMC_TILE_LANES], lanes[FMC_TILE_LANES];
  out->n_bad = 0;
  for (size_t i = 0; i < n; i++)
    out->n_bad += (size_t)fmc_log_weight_bad(log_weights[i]);
  for (int i = 0; i < FMC_TILE_LANES; i++) {
    max[i] = -FMC_INF;
    sum[i] = sum_squares[i] = 0;
  }
  for (size_t row = 0; row < n; row += FMC_TILE_LANES) {
    size_t width = n - row < FMC_TILE_LANES ? n - row : FMC_TILE_LANES;
    FMC_SIMD
    for (size_t i = 0; i < width; i++) {
      double f, v = fmc_online_weight(&max[i], log_weights[row + i], &f);
      w[row + i] = v;
      scale[row + i] = f;
      sum[i] = fmc_fma(sum[i], f, v);
      sum_squares[i] = fmc_fma(sum_squares[i], f * f, v * v);
    }
  }

  double top = -FMC_INF, factor[FMC_TILE_LANES], factor_squared[FMC_TILE_LANES];
  for (int i = 0; i < FMC_TILE_LANES; i++)
    top = max[i] > top ? max[i] : top;
  FMC_SIMD
  for (int i = 0; i < FMC_TILE_LANES; i++) {
    factor[i] = fmc_rescale_factor(max[i], top);
    factor_squared[i] = factor[i] * factor[i];
  }
  out->max = top;
  out->sum = joined_lanes(sum, factor);
  out->sum_squares = joined_lanes(sum_squares, factor_squared);

  if (!job->samples)
    return;
  for (size_t d = 0; d < job->n_dim; d++) {
    const double *x = job->samples + d * job->n + first;
    memset(lanes, 0, sizeof lanes);
    for (size_t row = 0; row < n; row += FMC_TILE_LANES) {
      size_t width = n - row < FMC_TILE_LANES ? n - row : FMC_TILE_LANES;
      FMC_SIMD
      for (size_t i = 0; i < width; i++) {
        double xi = x[row + i];
        xi = job->single_precision ? (double)(float)xi : xi;
        lanes[i] = fmc_weighted_add(lanes[i], scale[row + i], w[row + i], xi);
      }
    }
    out->sum_x[d] = joined_lanes(lanes, factor);
  }
}

static void normalise(const double *log_weights, size_t n, double max, double sum, double *weights) {
  FMC_SIMD
  for (size_t i = 0; i < n; i++)
    weights[i] = fmc_normalised_weight(log_weights[i], max, sum);
}

#include "cpu_resample.h"

static void words(uint64_t seed, uint32_t purpose, uint32_t step, uint32_t block, uint64_t chain, uint32_t out[4]) {
  fmc_words w = fmc_words_for(seed, purpose, step, block, chain);
  out[0] = w.w0;
  out[1] = w.w1;
  out[2] = w.w2;
  out[3] = w.w3;
}

static void normals(const uint32_t *word, size_t n, double *out) {
  FMC_SIMD
  for (size_t i = 0; i < n; i++)
    out[i] = fmc_normal(word[i], fmc_normal_table);
}

#define MATH(name)                                                                                                     \
  static void math_##name(int single_precision, const double *x, size_t n, double *out) {                              \
    if (single_precision) {                                                                                            \
      FMC_SIMD                                                                                                         \
      for (size_t i = 0; i < n; i++)                                                                                   \
        out[i] = fmc_##name##f((float)x[i]);                                                                           \
    } else {                                                                                                           \
      FMC_SIMD                                                                                                         \
      for (size_t i = 0; i < n; i++)                                                                                   \
        out[i] = fmc_##name(x[i]);                                                                                     \
    }                                                                                                                  \
  }
MATH(log)
MATH(exp)
MATH(log1p)
MATH(expm1)
MATH(log1pexp)
MATH(lgamma)

static int math(const char *name, int single_precision, const double *x, size_t n, double *out) {
  static const struct {
    const char *name;
    void (*apply)(int, const double *, size_t, double *);
  } functions[] = {
      {"log", math_log},     {"exp", math_exp},           {"log1p", math_log1p},
      {"expm1", math_expm1}, {"log1pexp", math_log1pexp}, {"lgamma", math_lgamma},
  };
  for (size_t k = 0; k < sizeof functions / sizeof *functions; k++)
    if (!strcmp(functions[k].name, name)) {
      functions[k].apply(single_precision, x, n, out);
      return 1;
    }
  return 0;
}

const fmc_cpu_kernels FMC_KERNELS = {FMC_LEVEL, mh_strip,  log_weights,  log_density,   run_strip,
                                     tile_sums, normalise, weight_range, whole_weights, resample_positions,
                                     words,     normals,   math};
