/* Resampling in integers: exact, so in any order and on any machine the same. See inst/design/resampling.md.
 *
 * A weight is a whole number W, the largest 2^bits; with `total` their sum, below 2^62, weight i owns the numbers from
 * W_1 + ... + W_{i-1} up to W_1 + ... + W_i - 1. A draw is a number from 0 to total - 1, its position. */
#ifndef FUSEDMC_CORE_RESAMPLE_H
#define FUSEDMC_CORE_RESAMPLE_H

#include "math.h"
#include "philox.h"

/* As R numbers them. */
enum { FMC_SYSTEMATIC = 0, FMC_STRATIFIED = 1, FMC_MULTINOMIAL = 2, FMC_RESIDUAL = 3 };

/* Bits of the largest of n weights: their sum is at most 2^61, and a weight is exact in a double. */
FMC_FN int fmc_weight_bits(uint64_t n) {
  int log2_n = 0;
  while (log2_n < 61 && (uint64_t)1 << log2_n < n)
    log2_n++;
  return 61 - log2_n < 52 ? 61 - log2_n : 52;
}

/* A weight may be a log weight, -Inf included, or natural: finite and not negative. */
FMC_FN int fmc_weight_bad(double weight, int is_log) { return !(weight < FMC_INF && (is_log || weight >= 0)); }

/* How numbers become whole: exp(weight - max) or weight itself, times two powers of two. */
typedef struct {
  int is_log;
  double max, scale, scale_more;
} fmc_weight_scale;

FMC_FN double fmc_power_of_two(int exponent) { return fmc_from_bits((uint64_t)(exponent + 1023) << 52); }

/* `max` is finite, or 0 among natural weights only where all are. Of natural weights the largest gets `bits` bits:
 * powers of two alone scale them, so that they stay what they are. */
FMC_FN fmc_weight_scale fmc_weight_scale_of(double max, int is_log, int bits) {
  fmc_weight_scale to = {is_log, max, fmc_power_of_two(bits), 1.0};
  if (is_log)
    return to;
  int exponent = bits, half;
  if (max < 0x1p-1022) { /* subnormal */
    max = max * 0x1p54;
    exponent += 54;
  }
  exponent -= (int)(fmc_bits(max) >> 52) - 1022; /* max is below 2^bits once scaled */
  half = exponent / 2;
  to.scale = fmc_power_of_two(half);
  to.scale_more = fmc_power_of_two(exponent - half);
  return to;
}

/* floor(x) for x from 0 to 2^52. */
FMC_FN uint64_t fmc_whole(double x) {
  const double shifted = x + 0x1p52;
  const uint64_t nearest = fmc_bits(shifted) - 0x4330000000000000u;
  return nearest - (uint64_t)(shifted - 0x1p52 > x);
}

FMC_FN uint64_t fmc_whole_of_log(double log_weight, fmc_weight_scale to) {
  return fmc_whole(fmc_exp(log_weight - to.max) * to.scale);
}

FMC_FN uint64_t fmc_whole_of_natural(double weight, fmc_weight_scale to) {
  return fmc_whole(weight * to.scale * to.scale_more);
}

/* floor(a b / 2^64) */
FMC_FN uint64_t fmc_high_product(uint64_t a, uint64_t b) {
#ifdef __CUDA_ARCH__
  return __umul64hi(a, b);
#else
  const uint64_t a_high = a >> 32, a_low = a & 0xffffffffu, b_high = b >> 32, b_low = b & 0xffffffffu;
  const uint64_t middle = a_high * b_low + (a_low * b_low >> 32);
  const uint64_t other = a_low * b_high + (middle & 0xffffffffu);
  return a_high * b_high + (middle >> 32) + (other >> 32);
#endif
}

/* floor((a b + c) / d) and the remainder, for a quotient up to 2^50 and a, b, c, d below 2^62. Doubles miss it by one
 * at most, so the remainder lies between -d and 2 d: 64 bits tell it. */
FMC_FN uint64_t fmc_quotient(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t *remainder) {
  const double near = ((double)(int64_t)a * (double)(int64_t)b + (double)(int64_t)c) / (double)(int64_t)d;
  const int64_t quotient = (int64_t)near;
  const int64_t rest = (int64_t)(a * b + c - (uint64_t)quotient * d);
  const int64_t by = rest < 0 ? -1 : rest >= (int64_t)d;
  *remainder = (uint64_t)(rest - by * (int64_t)d);
  return (uint64_t)(quotient + by);
}

/* What the positions of n draws depend on; n is at most 2^50. Draw j, from 0, takes the words of draw number
 * first + j. */
typedef struct {
  int method;
  uint32_t step;
  uint64_t n, seed, first, total;
  uint64_t share, rest; /* total = share n + rest */
  uint64_t common;      /* of systematic resampling: what is random in all positions */
} fmc_resample_plan;

/* A whole number from 0 to total - 1: floor(r total / 2^64) of a 64-bit r. */
FMC_FN uint64_t fmc_resample_random(const fmc_resample_plan *plan, uint64_t draw) {
  const fmc_words w = fmc_words_for(plan->seed, FMC_PURPOSE_RESAMPLE, plan->step, 0, plan->first + draw);
  return fmc_high_product((uint64_t)w.w0 << 32 | w.w1, plan->total);
}

FMC_FN fmc_resample_plan fmc_resample_plan_of(int method, uint64_t n, uint64_t total, uint64_t seed, uint32_t step,
                                              uint64_t first) {
  fmc_resample_plan plan = {method, step, n, seed, first, total, n > 0 ? total / n : 0, n > 0 ? total % n : 0, 0};
  plan.common = fmc_resample_random(&plan, 0);
  return plan;
}

/* floor((draw total + random) / n): `draw` equal parts, and a place in the next. */
FMC_FN uint64_t fmc_stratum_position(const fmc_resample_plan *plan, uint64_t draw, uint64_t random) {
  uint64_t unused, whole = random / plan->n;
  return draw * plan->share + whole + fmc_quotient(draw, plan->rest, random - whole * plan->n, plan->n, &unused);
}

/* The position of a draw of systematic, stratified or multinomial resampling. */
FMC_FN uint64_t fmc_resample_position(const fmc_resample_plan *plan, uint64_t draw) {
  if (plan->method == FMC_SYSTEMATIC)
    return fmc_stratum_position(plan, draw, plan->common);
  const uint64_t random = fmc_resample_random(plan, draw);
  return plan->method == FMC_STRATIFIED ? fmc_stratum_position(plan, draw, random) : random;
}

/* Residual resampling: the copies that weight W gets outright, and what is left for drawing. Copies are floor(n W /
 * total); the remainders sum to total times the number of draws left, and are shifted to stay below 2^62. */
FMC_FN uint64_t fmc_residual_copies(uint64_t weight, const fmc_resample_plan *plan, uint64_t *remainder) {
  return fmc_quotient(plan->n, weight, 0, plan->total, remainder);
}

FMC_FN int fmc_bit_length(uint64_t x) {
  int length = 0;
  while (length < 64 && x >> length > 0)
    length++;
  return length;
}

FMC_FN int fmc_residual_shift(uint64_t n_left, uint64_t total) {
  const int bits = fmc_bit_length(n_left) + fmc_bit_length(total);
  return bits > 62 ? bits - 62 : 0;
}

/* The first i from `from` on with cumulated[i] > position; `to` where there is none before it. */
FMC_FN size_t fmc_resample_search(const uint64_t *cumulated, size_t from, size_t to, uint64_t position) {
  while (from < to) {
    const size_t middle = from + (to - from) / 2;
    if (cumulated[middle] > position)
      to = middle;
    else
      from = middle + 1;
  }
  return from;
}

#endif
