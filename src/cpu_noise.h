/* Noise for a strip of chains: what core/philox.h and core/normal.h say, in the shape that processors like.
 *
 * Compilers turn neither a 32 x 32 -> 64 bit product nor a table look-up into good vector code, so both are said
 * outright: a chain's words travel in 64-bit lanes, where the product is one instruction, and a normal's table row is
 * copied whole before the cubic is evaluated. Same bits as fmc_words_for() and fmc_normal(), for every build; the tests
 * compare them. */
#ifndef FUSEDMC_CPU_NOISE_H
#define FUSEDMC_CPU_NOISE_H

#include "core/core.h"
#include "core/normal_table.h"

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
typedef __m512i fmc_lanes;
#define LANES_SET(x) _mm512_set1_epi64((long long)(x))
#define LANES_MUL(a, b) _mm512_mul_epu32(a, b)
#define LANES_XOR(a, b) _mm512_xor_si512(a, b)
#define LANES_HIGH(a) _mm512_srli_epi64(a, 32)
#define LANES_LOAD(p) _mm512_loadu_si512(p)
#define LANES_STORE(p, a) _mm512_storeu_si512(p, a)
#elif defined(__AVX2__)
typedef __m256i fmc_lanes;
#define LANES_SET(x) _mm256_set1_epi64x((long long)(x))
#define LANES_MUL(a, b) _mm256_mul_epu32(a, b)
#define LANES_XOR(a, b) _mm256_xor_si256(a, b)
#define LANES_HIGH(a) _mm256_srli_epi64(a, 32)
#define LANES_LOAD(p) _mm256_loadu_si256((const __m256i *)(p))
#define LANES_STORE(p, a) _mm256_storeu_si256((__m256i *)(p), a)
#endif

/* Words of FMC_STRIP chains; the low half of each entry counts. */
static inline void noise_words(uint64_t seed, uint32_t step, uint32_t block, uint64_t first_chain,
                               uint64_t word[FMC_BLOCK][FMC_STRIP]) {
#ifdef LANES_SET
  uint64_t chain[FMC_STRIP];
  for (int i = 0; i < FMC_STRIP; i++)
    chain[i] = first_chain + (uint64_t)i;
  const fmc_lanes m0 = LANES_SET(FMC_PHILOX_M0), m1 = LANES_SET(FMC_PHILOX_M1);
  for (size_t i = 0; i < FMC_STRIP; i += sizeof(fmc_lanes) / 8) {
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    fmc_lanes c0 = LANES_SET(step), c1 = LANES_SET((uint32_t)FMC_PURPOSE_NOISE << 28 | block);
    fmc_lanes c2 = LANES_LOAD(chain + i), c3 = LANES_HIGH(c2);
    for (int round = 0; round < 10; round++) {
      fmc_lanes p0 = LANES_MUL(m0, c0), p1 = LANES_MUL(m1, c2);
      c0 = LANES_XOR(LANES_XOR(LANES_HIGH(p1), c1), LANES_SET(k0));
      c2 = LANES_XOR(LANES_XOR(LANES_HIGH(p0), c3), LANES_SET(k1));
      c1 = p1;
      c3 = p0;
      k0 += FMC_PHILOX_W0;
      k1 += FMC_PHILOX_W1;
    }
    LANES_STORE(word[0] + i, c0);
    LANES_STORE(word[1] + i, c1);
    LANES_STORE(word[2] + i, c2);
    LANES_STORE(word[3] + i, c3);
  }
#else
  for (int i = 0; i < FMC_STRIP; i++) {
    fmc_words w = fmc_words_for(seed, FMC_PURPOSE_NOISE, step, block, first_chain + (uint64_t)i);
    word[0][i] = w.w0;
    word[1][i] = w.w1;
    word[2][i] = w.w2;
    word[3][i] = w.w3;
  }
#endif
}

/* Normals of a block's words. Rows are copied for all of them before any is read: the copies are narrower than the
 * reads, and a processor makes a read wait for the narrower writes it covers. */
static inline void noise_normals(uint64_t word[FMC_BLOCK][FMC_STRIP], float z[FMC_BLOCK][FMC_STRIP]) {
  float row[FMC_BLOCK * FMC_STRIP][4];
  uint32_t offset[FMC_BLOCK * FMC_STRIP];
  const uint64_t *words = word[0];
  float *normals = z[0];
  FMC_SIMD
  for (int i = 0; i < FMC_BLOCK * FMC_STRIP; i++)
    offset[i] = fmc_normal_row((uint32_t)words[i]);
  for (int i = 0; i < FMC_BLOCK * FMC_STRIP; i++)
    memcpy(row[i], fmc_normal_table[offset[i]], sizeof row[i]);
  FMC_SIMD
  for (int i = 0; i < FMC_BLOCK * FMC_STRIP; i++)
    normals[i] = fmc_normal_cubic((uint32_t)words[i], row[i][0], row[i][1], row[i][2], row[i][3]);
}

#endif
