/* What lets one source serve C99 and CUDA C++.
 *
 * Every function of the core is pure, takes no lock and allocates nothing. It uses only operations that IEEE 754 fixes
 * (+ - * /, sqrt, fma, integer and bit operations, comparisons), so a compiler that neither contracts nor reorders
 * (-ffp-contract=off, --fmad=false) must give the same bits on every machine. */
#ifndef FUSEDMC_CORE_MACROS_H
#define FUSEDMC_CORE_MACROS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define FMC_FN static __host__ __device__ __forceinline__
#elif defined(__GNUC__)
#define FMC_FN static inline __attribute__((always_inline, unused))
#else
#define FMC_FN static inline
#endif

#if defined(__GNUC__) && !defined(__CUDACC__)
#define FMC_SIMD _Pragma("omp simd")
#else
#define FMC_SIMD
#endif

/* One rounding: hardware where it exists, the C library's exact fma elsewhere. */
FMC_FN double fmc_fma(double a, double b, double c) {
#ifdef __CUDA_ARCH__
  return __fma_rn(a, b, c);
#else
  return fma(a, b, c);
#endif
}

FMC_FN float fmc_fmaf(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return fmaf(a, b, c);
#endif
}

/* A bit is cleared: no library is called. */
FMC_FN double fmc_abs(double x) { return fabs(x); }
FMC_FN float fmc_absf(float x) { return fabsf(x); }

FMC_FN uint64_t fmc_bits(double x) {
  uint64_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

FMC_FN double fmc_from_bits(uint64_t u) {
  double x;
  memcpy(&x, &u, sizeof x);
  return x;
}

FMC_FN uint32_t fmc_bitsf(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

FMC_FN float fmc_from_bitsf(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

#define FMC_INF fmc_from_bits(0x7ff0000000000000u)
#define FMC_NAN fmc_from_bits(0x7ff8000000000000u)

#endif
