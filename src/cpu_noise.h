/* Noise for a strip of chains: what core/philox.h and core/normal.h say, in the shape that processors like.
 *
 * Compilers turn neither a 32 x 32 -> 64 bit product nor a table look-up into good vector code, so both are said
 * outright: a chain's words travel in 64-bit lanes, where the product is one instruction, and table rows are loaded
 * whole and transposed. Same bits as fmc_words_for() and fmc_normal(), for every build; the tests compare them. */
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
typedef __m512 fmc_floats;
#define FLOATS_LOW(a, b) _mm512_unpacklo_ps(a, b)
#define FLOATS_HIGH(a, b) _mm512_unpackhi_ps(a, b)
#define PAIRS_LOW(a, b) _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)))
#define PAIRS_HIGH(a, b) _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)))
#define FLOATS_STORE(p, a) _mm512_storeu_ps(p, a)

/* Table rows row[0], row[4], row[8] and row[12], a quarter each. */
static inline __m512 rows_of(const uint32_t *row) {
  __m512 rows = _mm512_castps128_ps512(_mm_loadu_ps(fmc_normal_table[row[0]]));
  rows = _mm512_insertf32x4(rows, _mm_loadu_ps(fmc_normal_table[row[4]]), 1);
  rows = _mm512_insertf32x4(rows, _mm_loadu_ps(fmc_normal_table[row[8]]), 2);
  return _mm512_insertf32x4(rows, _mm_loadu_ps(fmc_normal_table[row[12]]), 3);
}
#elif defined(__AVX2__)
typedef __m256i fmc_lanes;
#define LANES_SET(x) _mm256_set1_epi64x((long long)(x))
#define LANES_MUL(a, b) _mm256_mul_epu32(a, b)
#define LANES_XOR(a, b) _mm256_xor_si256(a, b)
#define LANES_HIGH(a) _mm256_srli_epi64(a, 32)
#define LANES_LOAD(p) _mm256_loadu_si256((const __m256i *)(p))
#define LANES_STORE(p, a) _mm256_storeu_si256((__m256i *)(p), a)
typedef __m256 fmc_floats;
#define FLOATS_LOW(a, b) _mm256_unpacklo_ps(a, b)
#define FLOATS_HIGH(a, b) _mm256_unpackhi_ps(a, b)
#define PAIRS_LOW(a, b) _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)))
#define PAIRS_HIGH(a, b) _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(a), _mm256_castps_pd(b)))
#define FLOATS_STORE(p, a) _mm256_storeu_ps(p, a)

/* Table rows row[0] and row[4], a half each. */
static inline __m256 rows_of(const uint32_t *row) {
  __m256 rows = _mm256_castps128_ps256(_mm_loadu_ps(fmc_normal_table[row[0]]));
  return _mm256_insertf128_ps(rows, _mm_loadu_ps(fmc_normal_table[row[4]]), 1);
}
#endif

/* Words of FMC_STRIP chains; the low half of each entry counts. */
static inline void noise_words(uint64_t seed, uint32_t purpose, uint32_t step, uint32_t block, uint64_t first_chain,
                               uint64_t word[FMC_BLOCK][FMC_STRIP]) {
#ifdef LANES_SET
  uint64_t chain[FMC_STRIP];
  for (int i = 0; i < FMC_STRIP; i++)
    chain[i] = first_chain + (uint64_t)i;
  const fmc_lanes m0 = LANES_SET(FMC_PHILOX_M0), m1 = LANES_SET(FMC_PHILOX_M1);
  for (size_t i = 0; i < FMC_STRIP; i += sizeof(fmc_lanes) / 8) {
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    fmc_lanes c0 = LANES_SET(step), c1 = LANES_SET(purpose << 28 | block);
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
    fmc_words w = fmc_words_for(seed, purpose, step, block, first_chain + (uint64_t)i);
    word[0][i] = w.w0;
    word[1][i] = w.w1;
    word[2][i] = w.w2;
    word[3][i] = w.w3;
  }
#endif
}

/* Coefficients of a block's words: c[k][i] for word i, from its table row. */
static inline void noise_coefficients(const uint32_t *row, float c[4][FMC_BLOCK * FMC_STRIP]) {
#ifdef LANES_SET
  for (size_t i = 0; i < FMC_BLOCK * FMC_STRIP; i += sizeof(fmc_floats) / sizeof(float)) {
    /* Four rows side by side are transposed, each quarter of the vectors by itself. */
    fmc_floats r0 = rows_of(row + i), r1 = rows_of(row + i + 1), r2 = rows_of(row + i + 2), r3 = rows_of(row + i + 3);
    fmc_floats low01 = FLOATS_LOW(r0, r1), low23 = FLOATS_LOW(r2, r3);
    fmc_floats high01 = FLOATS_HIGH(r0, r1), high23 = FLOATS_HIGH(r2, r3);
    FLOATS_STORE(c[0] + i, PAIRS_LOW(low01, low23));
    FLOATS_STORE(c[1] + i, PAIRS_HIGH(low01, low23));
    FLOATS_STORE(c[2] + i, PAIRS_LOW(high01, high23));
    FLOATS_STORE(c[3] + i, PAIRS_HIGH(high01, high23));
  }
#else
  for (size_t i = 0; i < FMC_BLOCK * FMC_STRIP; i++)
    for (int k = 0; k < 4; k++)
      c[k][i] = fmc_normal_table[row[i]][k];
#endif
}

/* Normals of a block's words. */
static inline void noise_normals(uint64_t word[FMC_BLOCK][FMC_STRIP], float z[FMC_BLOCK][FMC_STRIP]) {
  float c[4][FMC_BLOCK * FMC_STRIP];
  uint32_t row[FMC_BLOCK * FMC_STRIP];
  const uint64_t *words = word[0];
  float *normals = z[0];
  FMC_SIMD
  for (int i = 0; i < FMC_BLOCK * FMC_STRIP; i++)
    row[i] = fmc_normal_row((uint32_t)words[i]);
  noise_coefficients(row, c);
  FMC_SIMD
  for (int i = 0; i < FMC_BLOCK * FMC_STRIP; i++)
    normals[i] = fmc_normal_cubic((uint32_t)words[i], c[0][i], c[1][i], c[2][i], c[3][i]);
}

#endif
