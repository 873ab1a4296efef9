/* exp(x) for x <= 0 where it is only added to 1: what counts is the absolute error, below 2^-53 (2^-24 in float), so
 * one constant for ln 2 is enough in double and the last bits of the polynomial are not looked after. Beyond the clamp
 * the result stays at 2^-1010 (2^-116), which changes no sum. A NaN is taken for minus infinity. 2^n is normal, so one
 * product does.
 *
 * The coefficients are those of math.h. */
#ifndef FUSEDMC_CORE_EXP_NEGATIVE_H
#define FUSEDMC_CORE_EXP_NEGATIVE_H

#include "math.h"

FMC_FN double fmc_exp_negative_f64(double x) {
  const double within = x > -700.0 ? x : -700.0;
  const double magic = 0x1.8p52 + 1023.0;
  const double shifted = fmc_fma(within, FMC_1_LN2, magic);
  const double n = shifted - magic;
  const double r = fmc_fma(-n, FMC_LN2_HI, within);
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
  q = fmc_fma(q, r, 1.0);
  q = fmc_fma(q, r, 1.0);
  return q * fmc_from_bits(fmc_bits(shifted) << 52);
}

FMC_FN float fmc_exp_negative_f32(float x) {
  const float within = x > -80.0f ? x : -80.0f;
  const float magic = 0x1.8p23f + 127.0f;
  const float shifted = fmc_fmaf(within, FMC_1_LN2F, magic);
  const float n = shifted - magic;
  const float r = fmc_fmaf(-n, FMC_LN2_HIF, within);
  float q = 0x1.6b655p-10f;
  q = fmc_fmaf(q, r, 0x1.1228d2p-7f);
  q = fmc_fmaf(q, r, 0x1.555722p-5f);
  q = fmc_fmaf(q, r, 0x1.5554aep-3f);
  q = fmc_fmaf(q, r, 0x1.fffffep-2f);
  q = fmc_fmaf(q, r, 1.0f);
  q = fmc_fmaf(q, r, 1.0f);
  return q * fmc_from_bitsf(fmc_bitsf(shifted) << 23);
}

#endif
