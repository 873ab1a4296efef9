/* What the C code of density_source() may use, beside + - * / and its own functions. Everything here gives the same
 * bits on every machine. A function takes what it is given: float for a float, double for anything else.
 *
 *   fmc_log fmc_exp fmc_log1p fmc_expm1 fmc_log1pexp fmc_lgamma fmc_sqrt   of one number
 *   fmc_fma(a, b, c)                                                       a * b + c in one rounding
 *   FMC_INF FMC_NAN FMC_HALF_LOG_2PI M_PI                                  log(2 pi) / 2 is the third */
#ifndef FUSEDMC_CORE_USER_H
#define FUSEDMC_CORE_USER_H

#include "macros.h"
#include "math.h"
#include "gamma.h"

#ifndef M_PI
#define M_PI 3.14159265358979323846
#endif

#ifdef __cplusplus

#define FMC_GENERIC(name)                                                                                              \
  FMC_FN float name(float x) { return name##f(x); }                                                                    \
  template <class Other> FMC_FN double name(Other x) { return name((double)x); }
FMC_GENERIC(fmc_log)
FMC_GENERIC(fmc_exp)
FMC_GENERIC(fmc_log1p)
FMC_GENERIC(fmc_expm1)
FMC_GENERIC(fmc_log1pexp)
FMC_GENERIC(fmc_lgamma)
FMC_GENERIC(fmc_sqrt)
#undef FMC_GENERIC

/* The type of the sum decides, as in C. */
FMC_FN double fmc_fma_as(double, double a, double b, double c) { return fmc_fma(a, b, c); }
FMC_FN float fmc_fma_as(float, float a, float b, float c) { return fmc_fmaf(a, b, c); }
template <class Other> FMC_FN double fmc_fma_as(Other, double a, double b, double c) { return fmc_fma(a, b, c); }
template <class A, class B, class C> FMC_FN auto fmc_fma(A a, B b, C c) -> decltype(fmc_fma_as(a + b + c, a, b, c)) {
  return fmc_fma_as(a + b + c, a, b, c);
}

#else

#define FMC_GENERIC(name, x) _Generic((x), float : name##f, default : name)(x)
#define fmc_log(x) FMC_GENERIC(fmc_log, x)
#define fmc_exp(x) FMC_GENERIC(fmc_exp, x)
#define fmc_log1p(x) FMC_GENERIC(fmc_log1p, x)
#define fmc_expm1(x) FMC_GENERIC(fmc_expm1, x)
#define fmc_log1pexp(x) FMC_GENERIC(fmc_log1pexp, x)
#define fmc_lgamma(x) FMC_GENERIC(fmc_lgamma, x)
#define fmc_sqrt(x) FMC_GENERIC(fmc_sqrt, x)
#define fmc_fma(a, b, c) _Generic((a) + (b) + (c), float : fmc_fmaf, default : fmc_fma)(a, b, c)

#endif

#endif
