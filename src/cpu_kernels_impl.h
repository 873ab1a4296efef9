/* The body of cpu_kernels_*.c. Before it is read, FMC_LEVEL names the build, FMC_KERNELS its table. */
#include <string.h>

#include "core/core.h"
#include "cpu_kernels.h"
#include "core/draw.h"
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

#include "cpu_draw.h"
#include "cpu_tile.h"

#include "core/real_f64.h"
#include "cpu_strip.h"
#include "cpu_run.h"
#include "cpu_is.h"
#include "core/real_end.h"

#include "core/real_f32.h"
#include "cpu_strip.h"
#include "cpu_run.h"
#include "cpu_is.h"
#include "core/real_end.h"

static void mh_strip(const fmc_mh_step_job *job, const void *target, size_t first, size_t n, void *scratch) {
  (job->single_precision ? mh_strip_f32 : mh_strip_f64)(job, target, first, n, scratch);
}

static void is_places(const fmc_is_job *job, const fmc_cpu_is_parts *parts, const fmc_cpu_tile *tile, size_t from,
                      size_t to, void *scratch) {
  (job->single_precision ? is_places_f32 : is_places_f64)(job, parts, tile, from, to, scratch);
}

static size_t tile_sums(const fmc_is_job *job, const fmc_cpu_tile *tile, double *row, void *scratch) {
  return (job->single_precision ? tile_sums_f32 : tile_sums_f64)(job, tile, row, scratch);
}

static void log_density(const fmc_log_density_job *job, const void *density, size_t first, size_t n, void *scratch) {
  (job->single_precision ? log_density_f32 : log_density_f64)(job, density, first, n, scratch);
}

static void run_strip(const fmc_mh_run_job *job, const void *target, size_t first, size_t n, size_t from, size_t to,
                      fmc_not_finite *bad, double *range, void *scratch) {
  (job->single_precision ? run_strip_f32 : run_strip_f64)(job, target, first, n, from, to, bad, range, scratch);
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
MATH(log_normal)
MATH(exp_below)

static void math_exp_near(int single_precision, const double *x, size_t n, double *out) {
  (void)single_precision; /* there is none in single */
  for (size_t i = 0; i < n; i++)
    out[i] = fmc_exp_near(x[i]);
}

static int math(const char *name, int single_precision, const double *x, size_t n, double *out) {
  static const struct {
    const char *name;
    void (*apply)(int, const double *, size_t, double *);
  } functions[] = {
      {"log", math_log},
      {"exp", math_exp},
      {"log1p", math_log1p},
      {"expm1", math_expm1},
      {"log1pexp", math_log1pexp},
      {"lgamma", math_lgamma},
      {"log_normal", math_log_normal},
      {"exp_below", math_exp_below},
      {"exp_near", math_exp_near},
  };
  for (size_t k = 0; k < sizeof functions / sizeof *functions; k++)
    if (!strcmp(functions[k].name, name)) {
      functions[k].apply(single_precision, x, n, out);
      return 1;
    }
  return 0;
}

const fmc_cpu_kernels FMC_KERNELS = {FMC_LEVEL,          mh_strip, is_places, log_density,  run_strip,
                                     tile_sums,          above,    normalise, weight_range, whole_weights,
                                     resample_positions, words,    normals,   math};
