/* log |Gamma(x)| with one result on every machine, as math.h has it: branch-free, from operations that IEEE 754 fixes,
 * the float functions without double arithmetic, any NaN in or out FMC_NAN.
 *
 * The coefficients come from tools/fit_math.R.
 *
 * The largest error measured, for float over every argument against the double function, for double over 2 10^7 of
 * them, dense where formulas meet, against quadruple precision. It is in ulps of the result for x > 0, also next to
 * the zeros at 1 and 2; for x < 0, where the other zeros are lost in a difference, in ulps of the largest of 1,
 * |the result| and log Gamma(|x|).
 *
 *            x > 0   x < 0
 *   double   2.98    3.07
 *   float    2.87    3.08
 *
 * fmc_lgamma_ratio(x, h): 5.7 2^-52 (1 + |result| + h), over 5 10^6 pairs with 10^-5 <= x <= 10^300 and h <= 10^5; 2 of
 * that from x = 1 on.
 */
#ifndef FUSEDMC_CORE_GAMMA_H
#define FUSEDMC_CORE_GAMMA_H

#include "math.h"

/* log(2 pi) / 2 */
#define FMC_HALF_LOG_2PI 0x1.d67f1c864beb5p-1
#define FMC_HALF_LOG_2PIF 0x1.d67f1cp-1f

/* log Gamma(1 + t) = t (c + t P(t)) for t in [-0.25, 0.35], c the negative of Euler's constant in two parts. */
FMC_FN double fmc_lgamma_at_1(double t) {
  double p = 0x1.ca0e2bc72f77cp-6;
  p = fmc_fma(p, t, -0x1.de594d3695f51p-5);
  p = fmc_fma(p, t, 0x1.0342e01408f51p-4);
  p = fmc_fma(p, t, -0x1.e8fcdd7373d37p-5);
  p = fmc_fma(p, t, 0x1.f8d1979dac236p-5);
  p = fmc_fma(p, t, -0x1.103c8c0d22f6p-4);
  p = fmc_fma(p, t, 0x1.24c918e3524c7p-4);
  p = fmc_fma(p, t, -0x1.3b2ebbce150ep-4);
  p = fmc_fma(p, t, 0x1.55697afaf357cp-4);
  p = fmc_fma(p, t, -0x1.748b7c1ecd6ep-4);
  p = fmc_fma(p, t, 0x1.9a01e6dbdf7cap-4);
  p = fmc_fma(p, t, -0x1.c80674b5a95d8p-4);
  p = fmc_fma(p, t, 0x1.010b36b442682p-3);
  p = fmc_fma(p, t, -0x1.2703a1d5e60d1p-3);
  p = fmc_fma(p, t, 0x1.5b40cb0fec228p-3);
  p = fmc_fma(p, t, -0x1.a8b9c17ab1386p-3);
  p = fmc_fma(p, t, 0x1.151322ac7d9afp-2);
  p = fmc_fma(p, t, -0x1.9a4d55beab2a6p-2);
  p = fmc_fma(p, t, 0x1.a51a6625307d3p-1);
  return fmc_fma(t, -0x1.2788cfc6fb619p-1, t * fmc_fma(t, p, 0x1.6cb90701fbfabp-58));
}

FMC_FN float fmc_lgamma_at_1f(float t) {
  float p = 0x1.29c8c8p-4f;
  p = fmc_fmaf(p, t, -0x1.ef2c64p-4f);
  p = fmc_fmaf(p, t, 0x1.0ad3f8p-3f);
  p = fmc_fmaf(p, t, -0x1.26b36ep-3f);
  p = fmc_fmaf(p, t, 0x1.5accfap-3f);
  p = fmc_fmaf(p, t, -0x1.a8b65cp-3f);
  p = fmc_fmaf(p, t, 0x1.1513f8p-2f);
  p = fmc_fmaf(p, t, -0x1.9a4d5ep-2f);
  p = fmc_fmaf(p, t, 0x1.a51a66p-1f);
  return fmc_fmaf(t, -0x1.2788dp-1f, t * fmc_fmaf(t, p, 0x1.c824f4p-28f));
}

/* log Gamma(2 + u) = u (c + u P(u)) for u in [-0.65, 0.5], c = 1 - Euler's constant in two parts. */
FMC_FN double fmc_lgamma_at_2(double u) {
  double p = 0x1.6163e3ffcbb24p-23;
  p = fmc_fma(p, u, -0x1.283b90761c901p-24);
  p = fmc_fma(p, u, 0x1.949ceebd0be16p-24);
  p = fmc_fma(p, u, -0x1.0f070394d43c3p-21);
  p = fmc_fma(p, u, 0x1.0e20cc962cb7fp-20);
  p = fmc_fma(p, u, -0x1.0db15072c7295p-19);
  p = fmc_fma(p, u, 0x1.24ca6350ffcf6p-18);
  p = fmc_fma(p, u, -0x1.3d028cda7b8dcp-17);
  p = fmc_fma(p, u, 0x1.5814b270e09ddp-16);
  p = fmc_fma(p, u, -0x1.78dba3018c4f4p-15);
  p = fmc_fma(p, u, 0x1.a1278ed20f89fp-14);
  p = fmc_fma(p, u, -0x1.d3fd5c32d7119p-13);
  p = fmc_fma(p, u, 0x1.0b36afb540628p-11);
  p = fmc_fma(p, u, -0x1.38ac5c12c409p-10);
  p = fmc_fma(p, u, 0x1.7add6ead70ec7p-9);
  p = fmc_fma(p, u, -0x1.e404fc21b6a6cp-8);
  p = fmc_fma(p, u, 0x1.51322ac7d8677p-6);
  p = fmc_fma(p, u, -0x1.13e001a5575b2p-4);
  p = fmc_fma(p, u, 0x1.4a34cc4a60fa6p-2);
  return fmc_fma(u, 0x1.b0ee6072093cep-2, u * fmc_fma(u, p, 0x1.6cb90701fbfabp-58));
}

FMC_FN float fmc_lgamma_at_2f(float u) {
  float p = 0x1.834b5p-13f;
  p = fmc_fmaf(p, u, -0x1.015402p-12f);
  p = fmc_fmaf(p, u, 0x1.e348fp-12f);
  p = fmc_fmaf(p, u, -0x1.37f5f2p-10f);
  p = fmc_fmaf(p, u, 0x1.7c3dp-9f);
  p = fmc_fmaf(p, u, -0x1.e404dcp-8f);
  p = fmc_fmaf(p, u, 0x1.512e52p-6f);
  p = fmc_fmaf(p, u, -0x1.13e004p-4f);
  p = fmc_fmaf(p, u, 0x1.4a34cep-2f);
  return fmc_fmaf(u, 0x1.b0ee6p-2f, u * fmc_fmaf(u, p, 0x1.c824f4p-28f));
}

/* What Stirling's formula (x - 1/2) log(x) - x + log(2 pi) / 2 lacks, for x >= 8: S(1 / x^2) / x. */
FMC_FN double fmc_stirling_rest(double x) {
  const double inverse = 1.0 / x;
  const double w = inverse * inverse;
  double p = 0x1.46a0008d209dep-8;
  p = fmc_fma(p, w, -0x1.ee7516845ae97p-10);
  p = fmc_fma(p, w, 0x1.b9213490348p-11);
  p = fmc_fma(p, w, -0x1.381332c489e55p-11);
  p = fmc_fma(p, w, 0x1.a01a015e9802cp-11);
  p = fmc_fma(p, w, -0x1.6c16c16c10ab5p-9);
  p = fmc_fma(p, w, 0x1.5555555555555p-4);
  return inverse * p;
}

FMC_FN float fmc_stirling_restf(float x) {
  const float inverse = 1.0f / x;
  const float w = inverse * inverse;
  float p = -0x1.6a1b3cp-9f;
  p = fmc_fmaf(p, w, 0x1.555546p-4f);
  return inverse * p;
}

/* sin(pi r) / (pi r) for |r| <= 1/2. */
FMC_FN double fmc_sin_ratio(double r) {
  const double square = r * r;
  double p = 0x1.07438071b74cap-22;
  p = fmc_fma(p, square, -0x1.d3e6a46a53be3p-18);
  p = fmc_fma(p, square, 0x1.3746a186a9e13p-13);
  p = fmc_fma(p, square, -0x1.33816997c039p-9);
  p = fmc_fma(p, square, 0x1.ac6805cc89aa3p-6);
  p = fmc_fma(p, square, -0x1.86a8e4720a1dcp-3);
  p = fmc_fma(p, square, 0x1.9f9cb402bc429p-1);
  p = fmc_fma(p, square, -0x1.a51a6625307d3p+0);
  p = fmc_fma(p, square, 0x1p+0);
  return p;
}

FMC_FN float fmc_sin_ratiof(float r) {
  const float square = r * r;
  float p = -0x1.240644p-9f;
  p = fmc_fmaf(p, square, 0x1.abcf44p-6f);
  p = fmc_fmaf(p, square, -0x1.86a61cp-3f);
  p = fmc_fmaf(p, square, 0x1.9f9ca8p-1f);
  p = fmc_fmaf(p, square, -0x1.a51a66p+0f);
  p = fmc_fmaf(p, square, 0x1p+0f);
  return p;
}

/* log |Gamma(x)| for finite x >= -1/4. From 8 on by Stirling's formula. Below, Gamma(1 + t) = t Gamma(t) leads to a
 * 1 + t in [0.75, 2.5), whose t = x or x - n is exact, and to the zero of log Gamma next to it. */
FMC_FN double fmc_lgamma_right(double x) {
  const int large = x >= 8.0;
  const int small = x < 0.75;
  double t = small ? x : x - 1.0;
  double product = 1.0;
  for (int i = 0; i < 6; i++) {
    const int above = t >= 1.5;
    product = above ? product * t : product;
    t = above ? t - 1.0 : t;
  }
  const double near = t < 0.35 ? fmc_lgamma_at_1(t) : fmc_lgamma_at_2(t - 1.0);
  const double size = x < 0.0 ? -x : x;
  const double below = small ? size : product;
  const double log_of = fmc_log(large ? x : below);
  const double stirling = fmc_fma(x - 0.5, log_of, -x) + (FMC_HALF_LOG_2PI + fmc_stirling_rest(x));
  const double shifted = small ? near - log_of : near + log_of;
  return large ? stirling : shifted;
}

FMC_FN float fmc_lgamma_rightf(float x) {
  const int large = x >= 8.0f;
  const int small = x < 0.75f;
  float t = small ? x : x - 1.0f;
  float product = 1.0f;
  for (int i = 0; i < 6; i++) {
    const int above = t >= 1.5f;
    product = above ? product * t : product;
    t = above ? t - 1.0f : t;
  }
  const float near = t < 0.35f ? fmc_lgamma_at_1f(t) : fmc_lgamma_at_2f(t - 1.0f);
  const float size = x < 0.0f ? -x : x;
  const float below = small ? size : product;
  const float log_of = fmc_logf(large ? x : below);
  const float stirling = fmc_fmaf(x - 0.5f, log_of, -x) + (FMC_HALF_LOG_2PIF + fmc_stirling_restf(x));
  const float shifted = small ? near - log_of : near + log_of;
  return large ? stirling : shifted;
}

/* Left of -1/4 by Gamma(-z) Gamma(z) = -pi / (z sin(pi z)); r is z less the nearest integer, exactly. */
FMC_FN double fmc_lgamma(double x) {
  const int left = x < -0.25;
  const double z = left ? -x : x;
  const double right = fmc_lgamma_right(z);
  const double nearest = z < 0x1p52 ? (z + 0x1p52) - 0x1p52 : z;
  const double r = z - nearest;
  const double distance = r < 0.0 ? -r : r;
  const double turned = -fmc_log(z * distance * fmc_sin_ratio(r)) - right;
  const double reflected = r != 0.0 ? turned : FMC_INF;
  const double finite = left ? reflected : right;
  const double y = z < FMC_INF ? finite : FMC_INF;
  return x == x ? y : FMC_NAN;
}

FMC_FN float fmc_lgammaf(float x) {
  const int left = x < -0.25f;
  const float z = left ? -x : x;
  const float right = fmc_lgamma_rightf(z);
  const float nearest = z < 0x1p23f ? (z + 0x1p23f) - 0x1p23f : z;
  const float r = z - nearest;
  const float distance = r < 0.0f ? -r : r;
  const float turned = -fmc_logf(z * distance * fmc_sin_ratiof(r)) - right;
  const float reflected = r != 0.0f ? turned : FMC_INFF;
  const float finite = left ? reflected : right;
  const float y = z < FMC_INFF ? finite : FMC_INFF;
  return x == x ? y : FMC_NANF;
}

/* log Gamma(x + h) - log Gamma(x) - h log(x) for x > 0 and finite h >= 0: 0 at x = Inf, NaN where h / x
 * overflows. Nothing large cancels: with y = x for x >= 8 Stirling's formula leaves
 *   (y + h - 1/2) log1p(h / y) - h + rest(y + h) - rest(y);
 * a smaller x moves to y = x + n by Gamma(x + 1) = x Gamma(x), which adds
 *   h log(y / x) - log1p(excess),  1 + excess = the product of 1 + h / (x + i) for i < n. */
FMC_FN double fmc_lgamma_ratio(double x, double h) {
  double y = x;
  double excess = 0.0;
  for (int i = 1; i <= 8; i++) {
    const int small = y < 8.0;
    const double q = h / y;
    excess = small ? excess + fmc_fma(excess, q, q) : excess;
    y = small ? x + i : y;
  }
  const double moved = h * fmc_log(y / x) - fmc_log1p(excess);
  const double stirling =
      fmc_fma(y + (h - 0.5), fmc_log1p(h / y), -h) + (fmc_stirling_rest(y + h) - fmc_stirling_rest(y));
  const double finite = stirling + moved;
  const double value = x < FMC_INF ? finite : 0.0;
  return (x > 0.0) & (h >= 0.0) & (h < FMC_INF) & (value == value) ? value : FMC_NAN;
}

#endif
