/* A standard normal as a function of one 32-bit word: z = Q(word).
 *
 * The top bit is the sign. The rest, v = word << 1 | 1, becomes a float; its exponent and top four mantissa bits choose a
 * cubic for -qnorm(v / 2^33), the other mantissa bits are the cubic's argument in [0, 1). The tails end at |z| = 6.34: a
 * symmetric proposal is exact whatever its shape. */
#ifndef FUSEDMC_CORE_NORMAL_H
#define FUSEDMC_CORE_NORMAL_H

#include "macros.h"

FMC_FN float fmc_normal(uint32_t word, const float (*table)[4]) {
  uint32_t bits = fmc_bitsf((float)(word << 1 | 1u));
  const float *c = table[(bits >> 19) - (127u << 4)];
  float t = fmc_from_bitsf((bits & 0x7ffffu) << 4 | 0x3f800000u) - 1.0f;
  float z = fmc_fmaf(fmc_fmaf(fmc_fmaf(c[3], t, c[2]), t, c[1]), t, c[0]);
  return fmc_from_bitsf(fmc_bitsf(z) | (word & 0x80000000u));
}

#endif
