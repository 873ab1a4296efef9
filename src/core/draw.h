/* Draws from a mixture of multivariate normals and Student t: the words, and what is made of them before it meets a
 * mean. draw_point.h makes the point.
 *
 * Sample number `sample` takes the place of the chain, and the purpose is FMC_PURPOSE_DRAW. c0 says what for:
 *   0: block b has the normals of dims 4 b .. 4 b + 3
 *   1: words 0 and 1 of block 0 choose the component; those of block 15 serve shapes below 1
 *   2 + attempt: block 0 has an attempt at the chi-square of a t */
#ifndef FUSEDMC_CORE_DRAW_H
#define FUSEDMC_CORE_DRAW_H

#include "math.h"
#include "normal.h"
#include "philox.h"

#define FMC_DRAW_NORMALS 0
#define FMC_DRAW_UNIFORMS 1
#define FMC_DRAW_ATTEMPTS 2
#define FMC_DRAW_COMPONENT_BLOCK 0
#define FMC_DRAW_SHAPE_BLOCK 15

FMC_FN fmc_words fmc_draw_words(uint64_t seed, uint64_t sample, uint32_t use, uint32_t block) {
  return fmc_words_for(seed, FMC_PURPOSE_DRAW, use, block, sample);
}

/* In the open interval (0, 1), from the top 52 bits of two words: (k + 0.5) * 2^-52, exact. */
FMC_FN double fmc_draw_uniform(uint32_t high, uint32_t low) {
  uint64_t k = ((uint64_t)high << 32 | low) >> 12;
  return (fmc_from_bits(0x3ff0000000000000u | k) - 1.0) + 0x1p-53;
}

/* The first component whose cumulated weight is above the uniform; the last one, should rounding leave none. */
FMC_FN size_t fmc_draw_component_at(const double *cumulative, size_t count, double u) {
  size_t low = 0, high = count - 1;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (u < cumulative[middle])
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

FMC_FN size_t fmc_draw_component(const double *cumulative, size_t count, uint64_t seed, uint64_t sample) {
  if (count == 1)
    return 0;
  fmc_words w = fmc_draw_words(seed, sample, FMC_DRAW_UNIFORMS, FMC_DRAW_COMPONENT_BLOCK);
  return fmc_draw_component_at(cumulative, count, fmc_draw_uniform(w.w0, w.w1));
}

/* One attempt at a gamma of shape d + 1/3, by a normal z and a uniform u: the factor v of d v, or 0 where it is
 * rejected. Marsaglia and Tsang (2000), "A simple method for generating gamma variables", ACM TOMS 26. Their log v - v
 * + 1 is written in t = c z, v = (1 + t)^3: nothing cancels where d is large. */
FMC_FN double fmc_gamma_attempt(double d, double c, double z, double u) {
  double t = c * z, v = (1.0 + t) * (1.0 + t) * (1.0 + t);
  double rest = 3.0 * fmc_log1p(t) - t * (3.0 + t * (3.0 + t));
  int accepted = (t > -1.0) & (fmc_log(u) < 0.5 * z * z + d * rest);
  return accepted ? v : 0.0;
}

/* A gamma of shape df / 2, half a chi-square: d and c of its attempts. With df below 2 they are those of df + 2. */
typedef struct {
  double half, d, c;
} fmc_gamma_shape;

FMC_FN fmc_gamma_shape fmc_gamma_shape_of(double df) {
  fmc_gamma_shape shape;
  shape.half = 0.5 * df;
  shape.d = (shape.half < 1.0 ? shape.half + 1.0 : shape.half) - 1.0 / 3.0;
  shape.c = 1.0 / fmc_sqrt(9.0 * shape.d);
  return shape;
}

/* The factor v of the first attempt from number `attempt` on that is accepted. One in twenty fails, so 100 never do. */
FMC_FN double fmc_gamma_attempts(const fmc_gamma_shape *shape, uint32_t attempt, uint64_t seed, uint64_t sample,
                                 const float (*table)[4]) {
  double v = 0.0;
  for (; v == 0.0 && attempt < 100; attempt++) {
    fmc_words w = fmc_draw_words(seed, sample, FMC_DRAW_ATTEMPTS + attempt, 0);
    v = fmc_gamma_attempt(shape->d, shape->c, (double)fmc_normal(w.w0, table), fmc_draw_uniform(w.w2, w.w3));
  }
  return v == 0.0 ? 1.0 : v;
}

/* sqrt(df / chi-square), from the factor v. It is kept finite, so that a normal of 0 gives no NaN. */
FMC_FN double fmc_gamma_stretch(const fmc_gamma_shape *shape, double v, double df, uint64_t seed, uint64_t sample) {
  double stretch = fmc_sqrt(shape->half / (shape->d * v));
  if (shape->half < 1.0) { /* a gamma of shape `half` is one of shape half + 1 times u^(1 / half) */
    fmc_words w = fmc_draw_words(seed, sample, FMC_DRAW_UNIFORMS, FMC_DRAW_SHAPE_BLOCK);
    stretch *= fmc_exp(-fmc_log(fmc_draw_uniform(w.w0, w.w1)) / df);
  }
  return stretch < 0x1.fffffffffffffp1023 ? stretch : 0x1.fffffffffffffp1023;
}

/* From this df on a t stretches by 1, to the normals' own precision. */
#define FMC_DRAW_NORMAL_DF 0x1p60

/* What a t stretches its normals by. */
FMC_FN double fmc_draw_stretch(double df, uint64_t seed, uint64_t sample, const float (*table)[4]) {
  if (!(df < FMC_DRAW_NORMAL_DF))
    return 1.0;
  fmc_gamma_shape shape = fmc_gamma_shape_of(df);
  return fmc_gamma_stretch(&shape, fmc_gamma_attempts(&shape, 0, seed, sample, table), df, seed, sample);
}

#endif
