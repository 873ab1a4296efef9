/* Elementary functions with one result on every machine.
 *
 * Branch-free: every lane computes the general formula and a select puts the edge cases right, so that loops over
 * these functions vectorise. Only add, multiply, divide, fma, comparisons, 64-bit logical shifts and adds are used:
 * integers become doubles and back by adding 1.5 * 2^52 (2^23 in float), which every vector unit has. The float
 * functions use no double arithmetic. Any NaN in or out is FMC_NAN, one bit pattern.
 *
 * The coefficients come from tools/fit_math.R.
 *
 * The largest error measured, in ulps: for float over every argument, for double over 10^7 arguments or more of each
 * function, dense where its reductions meet, the worst of them checked with MPFR.
 *
 *            log   exp   log1p  expm1  log1pexp
 *   double   0.84  0.89  0.89   1.28   1.58
 *   float    0.78  0.90  0.88   1.22   1.60
 */
#ifndef FUSEDMC_CORE_MATH_H
#define FUSEDMC_CORE_MATH_H

#include "macros.h"

#define FMC_INFF fmc_from_bitsf(0x7f800000u)
#define FMC_NANF fmc_from_bitsf(0x7fc00000u)

/* ln 2 = hi + lo */
#define FMC_LN2_HI 0x1.62e42fefa39efp-1
#define FMC_LN2_LO 0x1.abc9e3b39803fp-56
#define FMC_1_LN2 0x1.71547652b82fep+0
#define FMC_LN2_HIF 0x1.62e43p-1f
#define FMC_LN2_LOF (-0x1.05c61p-29f)
#define FMC_1_LN2F 0x1.715476p+0f

FMC_FN double fmc_sqrt(double x) {
#ifdef __CUDA_ARCH__
  return __dsqrt_rn(x);
#else
  return sqrt(x);
#endif
}

FMC_FN float fmc_sqrtf(float x) {
#ifdef __CUDA_ARCH__
  return __fsqrt_rn(x);
#else
  return sqrtf(x);
#endif
}

/* k ln 2 + log(1 + f + f_lo) for f in [sqrt(1/2) - 1, sqrt(2) - 1] and f_lo below half an ulp of 1 + f.
 * With s = f / (2 + f), z = s^2: log(1 + f) = 2 atanh(s) = 2 s + s z P(z) = f - s (f - z P(z)). */
FMC_FN double fmc_log_sum(double k, double f, double f_lo) {
  const double s = f / (2.0 + f);
  const double z = s * s;
  double p = 0x1.2ec3e1af998d1p-3;
  p = fmc_fma(p, z, 0x1.39a8919a9e7fbp-3);
  p = fmc_fma(p, z, 0x1.7465f709e8f38p-3);
  p = fmc_fma(p, z, 0x1.c71c537fbe8a4p-3);
  p = fmc_fma(p, z, 0x1.2492493ffe728p-2);
  p = fmc_fma(p, z, 0x1.999999998249bp-2);
  p = fmc_fma(p, z, 0x1.555555555558ap-1);
  const double half_square = 0.5 * f * f;
  const double tail = fmc_fma(-0.5 * f, f, s * fmc_fma(z, p, half_square));
  return fmc_fma(k, FMC_LN2_HI, f + (tail + fmc_fma(k, FMC_LN2_LO, f_lo)));
}

FMC_FN float fmc_log_sumf(float k, float f, float f_lo) {
  float p = 0x1.11c874p-4f;
  p = fmc_fmaf(p, f, -0x1.dd651p-4f);
  p = fmc_fmaf(p, f, 0x1.e7a54ep-4f);
  p = fmc_fmaf(p, f, -0x1.fc4dap-4f);
  p = fmc_fmaf(p, f, 0x1.232cfap-3f);
  p = fmc_fmaf(p, f, -0x1.555ae4p-3f);
  p = fmc_fmaf(p, f, 0x1.99a546p-3f);
  p = fmc_fmaf(p, f, -0x1.00000ap-2f);
  p = fmc_fmaf(p, f, 0x1.555546p-2f);
  const float square = f * f;
  const float tail = fmc_fmaf(-0.5f * f, f, square * f * p);
  return fmc_fmaf(k, FMC_LN2_HIF, f + (tail + fmc_fmaf(k, FMC_LN2_LOF, f_lo)));
}

/* x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), for normal x > 0: adding 1 - sqrt(1/2) as integers moves the
 * steps of the exponent field from 1 to sqrt(1/2). `bias` is that of k in a double's mantissa. */
FMC_FN double fmc_log_biased(double x, double bias) {
  const uint64_t moved = fmc_bits(x) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
  const double k = fmc_from_bits((moved >> 52) | 0x4330000000000000u) - bias;
  const double f = fmc_from_bits((moved & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0;
  return fmc_log_sum(k, f, 0.0);
}

/* For normal x > 0. */
FMC_FN double fmc_log_normal(double x) { return fmc_log_biased(x, 0x1p52 + 1023.0); }

FMC_FN double fmc_log(double x) {
  const int tiny = x < 0x1p-1022;
  const double y = fmc_log_biased(tiny ? x * 0x1p54 : x, tiny ? 0x1p52 + 1023.0 + 54.0 : 0x1p52 + 1023.0);
  const double finite = x < FMC_INF ? y : x;
  const double edge = x == 0.0 ? -FMC_INF : FMC_NAN;
  return x > 0.0 ? finite : edge;
}

FMC_FN float fmc_log_biasedf(float x, float bias) {
  const uint32_t moved = fmc_bitsf(x) + (0x3f800000u - 0x3f3504f3u);
  const float k = fmc_from_bitsf((moved >> 23) | 0x4b000000u) - bias;
  const float f = fmc_from_bitsf((moved & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  return fmc_log_sumf(k, f, 0.0f);
}

FMC_FN float fmc_log_normalf(float x) { return fmc_log_biasedf(x, 0x1p23f + 127.0f); }

FMC_FN float fmc_logf(float x) {
  const int tiny = x < 0x1p-126f;
  const float y = fmc_log_biasedf(tiny ? x * 0x1p25f : x, tiny ? 0x1p23f + 127.0f + 25.0f : 0x1p23f + 127.0f);
  const float finite = x < FMC_INFF ? y : x;
  const float edge = x == 0.0f ? -FMC_INFF : FMC_NANF;
  return x > 0.0f ? finite : edge;
}

/* For finite x > -1. u + c = 1 + x exactly; then as fmc_log, with c scaled as u is. At k = 0 the sum f + f_lo is x
 * itself. */
FMC_FN double fmc_log1p_inside(double x) {
  const double u = 1.0 + x;
  const double back = u - 1.0;
  const double c = (1.0 - (u - back)) + (x - back);
  const uint64_t moved = fmc_bits(u) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
  const uint64_t exponent = moved >> 52;
  const double k = fmc_from_bits(exponent | 0x4330000000000000u) - (0x1p52 + 1023.0);
  const double head = fmc_from_bits((moved & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0;
  const double rest = 0.5 * c * fmc_from_bits((2047u - exponent) << 52);
  const double f = head + rest;
  const double y = fmc_log_sum(k, f, rest - (f - head));
  return (x < 0x1p-54) & (x > -0x1p-54) ? x : y;
}

FMC_FN double fmc_log1p(double x) {
  const double y = fmc_log1p_inside(x);
  const double finite = x < FMC_INF ? y : x;
  const double edge = x == -1.0 ? -FMC_INF : FMC_NAN;
  return x > -1.0 ? finite : edge;
}

FMC_FN float fmc_log1p_insidef(float x) {
  const float u = 1.0f + x;
  const float back = u - 1.0f;
  const float c = (1.0f - (u - back)) + (x - back);
  const uint32_t moved = fmc_bitsf(u) + (0x3f800000u - 0x3f3504f3u);
  const uint32_t exponent = moved >> 23;
  const float k = fmc_from_bitsf(exponent | 0x4b000000u) - (0x1p23f + 127.0f);
  const float head = fmc_from_bitsf((moved & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  const float rest = 0.5f * c * fmc_from_bitsf((255u - exponent) << 23);
  const float f = head + rest;
  const float y = fmc_log_sumf(k, f, rest - (f - head));
  return (x < 0x1p-25f) & (x > -0x1p-25f) ? x : y;
}

FMC_FN float fmc_log1pf(float x) {
  const float y = fmc_log1p_insidef(x);
  const float finite = x < FMC_INFF ? y : x;
  const float edge = x == -1.0f ? -FMC_INFF : FMC_NANF;
  return x > -1.0f ? finite : edge;
}

/* exp(r) - 1 - r_hi, where r = r_hi + r_lo is |r| <= ln(2) / 2: r^2 Q(r) + r_lo. */
FMC_FN double fmc_exp_rest(double r_hi, double r_lo) {
  const double r = r_hi + r_lo;
  double q = 0x1.ae7aaebae4521p-26;
  q = fmc_fma(q, r, 0x1.28a29df94b8a6p-22);
  q = fmc_fma(q, r, 0x1.71de7e5652f86p-19);
  q = fmc_fma(q, r, 0x1.a019a6966ef8ep-16);
  q = fmc_fma(q, r, 0x1.a01a017989e54p-13);
  q = fmc_fma(q, r, 0x1.6c16c17f3156ap-10);
  q = fmc_fma(q, r, 0x1.1111111118209p-7);
  q = fmc_fma(q, r, 0x1.5555555552109p-5);
  q = fmc_fma(q, r, 0x1.555555555553dp-3);
  q = fmc_fma(q, r, 0x1.0000000000005p-1);
  return fmc_fma(r * r, q, r_lo);
}

FMC_FN float fmc_exp_restf(float r_hi, float r_lo) {
  const float r = r_hi + r_lo;
  float q = 0x1.6b655p-10f;
  q = fmc_fmaf(q, r, 0x1.1228d2p-7f);
  q = fmc_fmaf(q, r, 0x1.555722p-5f);
  q = fmc_fmaf(q, r, 0x1.5554aep-3f);
  q = fmc_fmaf(q, r, 0x1.fffffep-2f);
  return fmc_fmaf(r * r, q, r_lo);
}

/* exp(x) = y 2^n, with x = n ln 2 + r: returns y, and in the low bits of *shifted n and 2046 more, so that no n is
 * negative there. */
FMC_FN double fmc_exp_reduced(double x, double *shifted) {
  const double magic = 0x1.8p52 + 2046.0;
  const double moved = fmc_fma(x, FMC_1_LN2, magic);
  const double n = moved - magic;
  const double r_hi = fmc_fma(-n, FMC_LN2_HI, x);
  *shifted = moved;
  return 1.0 + (r_hi + fmc_exp_rest(r_hi, n * -FMC_LN2_LO));
}

/* 2^n is applied in two halves: each is normal, and only the second product can overflow, underflow or round. Below the
 * clamp the result is 0, and x is at most 710 (89). A NaN is taken for minus infinity. */
FMC_FN double fmc_exp_below(double x) {
  const double within = x > -746.0 ? x : -746.0;
  double shifted;
  const double y = fmc_exp_reduced(within, &shifted);
  const uint64_t sum = fmc_bits(shifted) & 0xfffu;
  const uint64_t half = sum >> 1;
  return y * fmc_from_bits(half << 52) * fmc_from_bits((sum - half) << 52);
}

/* The same for -FMC_EXP_NEAR < x <= 0, where 2^n does no harm in one product. */
#define FMC_EXP_NEAR 700.0
FMC_FN double fmc_exp_near(double x) {
  double shifted;
  const double y = fmc_exp_reduced(x, &shifted);
  return y * fmc_from_bits((fmc_bits(shifted) << 52) - ((uint64_t)1023 << 52));
}

/* Beyond the clamps the result is Inf or 0; a NaN stays some number. */
FMC_FN double fmc_exp_any(double x) { return fmc_exp_below(x < 710.0 ? x : 710.0); }

FMC_FN double fmc_exp(double x) {
  const double y = fmc_exp_any(x);
  return x == x ? y : FMC_NAN;
}

FMC_FN float fmc_exp_belowf(float x) {
  const float within = x > -105.0f ? x : -105.0f;
  const float magic = 0x1.8p23f + 254.0f;
  const float shifted = fmc_fmaf(within, FMC_1_LN2F, magic);
  const float n = shifted - magic;
  const float r_hi = fmc_fmaf(-n, FMC_LN2_HIF, within);
  const float y = 1.0f + (r_hi + fmc_exp_restf(r_hi, n * -FMC_LN2_LOF));
  const uint32_t sum = fmc_bitsf(shifted) & 0x1ffu;
  const uint32_t half = sum >> 1;
  return y * fmc_from_bitsf(half << 23) * fmc_from_bitsf((sum - half) << 23);
}

FMC_FN float fmc_exp_anyf(float x) { return fmc_exp_belowf(x < 89.0f ? x : 89.0f); }

FMC_FN float fmc_expf(float x) {
  const float y = fmc_exp_anyf(x);
  return x == x ? y : FMC_NANF;
}

/* exp(x) - 1 = 2^n (exp(r) - 1) + (2^n - 1), as twice the same with 2^(n-1), which does not overflow. */
FMC_FN double fmc_expm1(double x) {
  double within = x < 710.0 ? x : 710.0;
  within = within > -40.0 ? within : -40.0;
  const double magic = 0x1.8p52 + 1022.0;
  const double shifted = fmc_fma(within, FMC_1_LN2, magic);
  const double n = shifted - magic;
  const double r_hi = fmc_fma(-n, FMC_LN2_HI, within);
  const double rest = fmc_exp_rest(r_hi, n * -FMC_LN2_LO);
  const double scale = fmc_from_bits(fmc_bits(shifted) << 52);
  const double y = 2.0 * fmc_fma(scale, rest, fmc_fma(scale, r_hi, scale - 0.5));
  const double general = (x < 0x1p-54) & (x > -0x1p-54) ? x : y;
  return x == x ? general : FMC_NAN;
}

FMC_FN float fmc_expm1f(float x) {
  float within = x < 89.0f ? x : 89.0f;
  within = within > -20.0f ? within : -20.0f;
  const float magic = 0x1.8p23f + 126.0f;
  const float shifted = fmc_fmaf(within, FMC_1_LN2F, magic);
  const float n = shifted - magic;
  const float r_hi = fmc_fmaf(-n, FMC_LN2_HIF, within);
  const float rest = fmc_exp_restf(r_hi, n * -FMC_LN2_LOF);
  const float scale = fmc_from_bitsf(fmc_bitsf(shifted) << 23);
  const float y = 2.0f * fmc_fmaf(scale, rest, fmc_fmaf(scale, r_hi, scale - 0.5f));
  const float general = (x < 0x1p-25f) & (x > -0x1p-25f) ? x : y;
  return x == x ? general : FMC_NANF;
}

/* log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)) */
FMC_FN double fmc_log1pexp(double x) {
  const double top = x > 0.0 ? x : 0.0;
  const double y = top + fmc_log1p_inside(fmc_exp_any(x > 0.0 ? -x : x));
  return x == x ? y : FMC_NAN;
}

FMC_FN float fmc_log1pexpf(float x) {
  const float top = x > 0.0f ? x : 0.0f;
  const float y = top + fmc_log1p_insidef(fmc_exp_anyf(x > 0.0f ? -x : x));
  return x == x ? y : FMC_NANF;
}

#endif
