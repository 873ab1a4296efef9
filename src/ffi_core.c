/* The core's pieces, for the tests. */
#include "core/gamma.h"
#include "cpu_dispatch.h"
#include "ffi.h"

SEXP ffi_set_simd(SEXP level) {
  SEXP before = PROTECT(Rf_mkString(fmc_cpu_kernels_now()->level));
  if (!fmc_cpu_use(CHAR(STRING_ELT(level, 0))))
    Rf_error("this build or this processor has no SIMD level \"%s\"", CHAR(STRING_ELT(level, 0)));
  UNPROTECT(1);
  return before;
}

/* Vectors of one length; an n x 4 matrix of words. */
SEXP ffi_philox_words(SEXP seed, SEXP purpose, SEXP step, SEXP block, SEXP chain) {
  int n = (int)XLENGTH(chain);
  SEXP out = PROTECT(Rf_allocMatrix(REALSXP, n, 4));
  for (int i = 0; i < n; i++) {
    uint32_t words[4];
    fmc_cpu_kernels_now()->words((uint64_t)REAL_RO(seed)[i], (uint32_t)REAL_RO(purpose)[i], (uint32_t)REAL_RO(step)[i],
                                 (uint32_t)REAL_RO(block)[i], (uint64_t)REAL_RO(chain)[i], words);
    for (int j = 0; j < 4; j++)
      REAL(out)[i + (R_xlen_t)j * n] = words[j];
  }
  UNPROTECT(1);
  return out;
}

SEXP ffi_standard_normal(SEXP words) {
  R_xlen_t n = XLENGTH(words);
  uint32_t *word = (uint32_t *)R_alloc((size_t)n, sizeof(uint32_t));
  for (R_xlen_t i = 0; i < n; i++)
    word[i] = (uint32_t)REAL_RO(words)[i];
  SEXP out = PROTECT(Rf_allocVector(REALSXP, n));
  fmc_cpu_kernels_now()->normals(word, (size_t)n, REAL(out));
  UNPROTECT(1);
  return out;
}

SEXP ffi_core_math(SEXP name, SEXP x, SEXP single) {
  SEXP out = PROTECT(Rf_allocVector(REALSXP, XLENGTH(x)));
  const char *function = CHAR(STRING_ELT(name, 0));
  if (!fmc_cpu_kernels_now()->math(function, Rf_asLogical(single), REAL_RO(x), (size_t)XLENGTH(x), REAL(out)))
    Rf_error("the core has no function \"%s\"", function);
  UNPROTECT(1);
  return out;
}

/* Vectors of one length. */
SEXP ffi_lgamma_ratio(SEXP x, SEXP h) {
  SEXP out = PROTECT(Rf_allocVector(REALSXP, XLENGTH(x)));
  for (R_xlen_t i = 0; i < XLENGTH(x); i++)
    REAL(out)[i] = fmc_lgamma_ratio(REAL_RO(x)[i], REAL_RO(h)[i]);
  UNPROTECT(1);
  return out;
}
