/* Philox4x32-10: four 32-bit words as a pure function of a 128-bit counter and a 64-bit key.
 * Salmon, Moraes, Dror, Shaw (2011), "Parallel random numbers: as easy as 1, 2, 3", SC'11.
 *
 * The key is the seed; the counter says what the words are for (inst/design/random-numbers.md):
 *   c0 = step, c1 = purpose << 28 | block, (c2, c3) = chain or sample, low word first. */
#ifndef FUSEDMC_CORE_PHILOX_H
#define FUSEDMC_CORE_PHILOX_H

#include "macros.h"

enum { FMC_PURPOSE_NOISE = 0, FMC_PURPOSE_ACCEPT = 1, FMC_PURPOSE_DRAW = 2, FMC_PURPOSE_RESAMPLE = 3 };

#define FMC_PHILOX_M0 0xD2511F53u
#define FMC_PHILOX_M1 0xCD9E8D57u
#define FMC_PHILOX_W0 0x9E3779B9u
#define FMC_PHILOX_W1 0xBB67AE85u

typedef struct {
  uint32_t w0, w1, w2, w3;
} fmc_words;

FMC_FN fmc_words fmc_philox_round(fmc_words c, uint32_t k0, uint32_t k1) {
  uint64_t p0 = (uint64_t)FMC_PHILOX_M0 * c.w0, p1 = (uint64_t)FMC_PHILOX_M1 * c.w2;
  fmc_words r = {(uint32_t)(p1 >> 32) ^ c.w1 ^ k0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ c.w3 ^ k1, (uint32_t)p0};
  return r;
}

FMC_FN fmc_words fmc_philox(fmc_words c, uint64_t seed) {
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
#ifdef __CUDACC__
#pragma unroll
#endif
  for (int round = 0; round < 10; round++) {
    c = fmc_philox_round(c, k0, k1);
    k0 += FMC_PHILOX_W0;
    k1 += FMC_PHILOX_W1;
  }
  return c;
}

/* The keys of the rounds, two each, for loops that need many words of one seed. */
typedef struct {
  uint32_t key[20];
} fmc_keys;

FMC_FN fmc_keys fmc_keys_of(uint64_t seed) {
  fmc_keys keys;
  for (uint32_t round = 0; round < 10; round++) {
    keys.key[2 * round] = (uint32_t)seed + round * FMC_PHILOX_W0;
    keys.key[2 * round + 1] = (uint32_t)(seed >> 32) + round * FMC_PHILOX_W1;
  }
  return keys;
}

FMC_FN fmc_words fmc_philox_keyed(fmc_words c, const fmc_keys *keys) {
#ifdef __CUDACC__
#pragma unroll
#endif
  for (int round = 0; round < 10; round++)
    c = fmc_philox_round(c, keys->key[2 * round], keys->key[2 * round + 1]);
  return c;
}

FMC_FN fmc_words fmc_words_for(uint64_t seed, uint32_t purpose, uint32_t step, uint32_t block, uint64_t chain) {
  fmc_words c = {step, purpose << 28 | block, (uint32_t)chain, (uint32_t)(chain >> 32)};
  return fmc_philox(c, seed);
}

/* Acceptance uniforms lie in the open interval (0, 1). Double: the top 52 bits of two words; a counter serves two
 * steps. */
FMC_FN double fmc_accept_uniform(uint64_t seed, uint32_t step, uint64_t chain) {
  fmc_words w = fmc_words_for(seed, FMC_PURPOSE_ACCEPT, step >> 1, 0, chain);
  uint32_t high = step & 1 ? w.w2 : w.w0, low = step & 1 ? w.w3 : w.w1;
  uint64_t k = ((uint64_t)high << 32 | low) >> 12;
  return (fmc_from_bits(0x3ff0000000000000u | k) - 1.0) + 0x1p-53; /* (k + 0.5) * 2^-52, exact */
}

/* (k + 0.5) * 2^-23 with k the top 23 bits, exact. */
FMC_FN float fmc_uniform_of_wordf(uint32_t word) { return (fmc_from_bitsf(0x3f800000u | word >> 9) - 1.0f) + 0x1p-24f; }

/* Single: one word; a counter serves four steps. */
FMC_FN float fmc_accept_uniformf(uint64_t seed, uint32_t step, uint64_t chain) {
  fmc_words w = fmc_words_for(seed, FMC_PURPOSE_ACCEPT, step >> 2, 0, chain);
  uint32_t low = step & 1 ? w.w1 : w.w0, high = step & 1 ? w.w3 : w.w2;
  return fmc_uniform_of_wordf(step & 2 ? high : low);
}

#endif
