/* A standard normal as a function of one 32-bit word: z = Q(word).
 *
 * The top bit is the sign. The rest, v = word << 1 | 1, becomes a float; its exponent and top four mantissa bits choose
 * a cubic for -qnorm(v / 2^33), the other mantissa bits are the cubic's argument in [0, 1). The tails end at |z|
 * = 6.34: a symmetric proposal is exact whatever its shape. */
#ifndef FUSEDMC_CORE_NORMAL_H
#define FUSEDMC_CORE_NORMAL_H

#include "macros.h"

FMC_FN uint32_t fmc_normal_bits(uint32_t word) { return fmc_bitsf((float)(word << 1 | 1u)); }

/* Row of the table of normal_table.h. */
FMC_FN uint32_t fmc_normal_row(uint32_t word) { return (fmc_normal_bits(word) >> 19) - (127u << 4); }

FMC_FN float fmc_normal_cubic(uint32_t word, float c0, float c1, float c2, float c3) {
  float t = fmc_from_bitsf((fmc_normal_bits(word) & 0x7ffffu) << 4 | 0x3f800000u) - 1.0f;
  float z = fmc_fmaf(fmc_fmaf(fmc_fmaf(c3, t, c2), t, c1), t, c0);
  return fmc_from_bitsf(fmc_bitsf(z) | (word & 0x80000000u));
}

FMC_FN float fmc_normal(uint32_t word, const float (*table)[4]) {
  const float *c = table[fmc_normal_row(word)];
  return fmc_normal_cubic(word, c[0], c[1], c[2], c[3]);
}

#endif
