dnl The C flags: which ones keep floating point to the letter of IEEE 754, and which make the SIMD builds.

dnl FMC_TRY_FLAGS(FLAGS, PROGRAM, IF-ACCEPTED, [IF-NOT])
dnl Compiles PROGRAM with FLAGS after R's own, warnings being errors: clang only warns of a flag that it does not know.
AC_DEFUN([FMC_TRY_FLAGS], [
  AC_MSG_CHECKING([whether $CC accepts $1])
  fmc_saved=$CFLAGS
  CFLAGS="$CFLAGS $1 -Werror"
  AC_COMPILE_IFELSE([$2], [fmc_accepted=yes], [fmc_accepted=no])
  CFLAGS=$fmc_saved
  AC_MSG_RESULT([$fmc_accepted])
  AS_IF([test "$fmc_accepted" = yes], [$3], [$4])
])

m4_define([FMC_DOUBLE_PROGRAM], [AC_LANG_PROGRAM([[#include <float.h>]], [[
  #if FLT_EVAL_METHOD != 0
  #error "double is not evaluated as double"
  #endif]])])

dnl FMC_ARITHMETIC
dnl Sets CORE_CFLAGS (every C file) and KERNEL_CFLAGS (on top, for the loops), and proves the first by running a program.
AC_DEFUN([FMC_ARITHMETIC], [
  CORE_CFLAGS=
  fmc_contract_off=no
  for fmc_flag in -fno-fast-math -ffp-contract=off -fno-math-errno -fno-trapping-math; do
    FMC_TRY_FLAGS([$fmc_flag], [AC_LANG_PROGRAM([], [])], [
      AS_VAR_APPEND([CORE_CFLAGS], [" $fmc_flag"])
      test "$fmc_flag" = -ffp-contract=off && fmc_contract_off=yes
    ])
  done

  # 32-bit x86 computes in 80 bits unless it is told otherwise.
  AC_MSG_CHECKING([whether double is evaluated as double])
  AC_COMPILE_IFELSE([FMC_DOUBLE_PROGRAM], [AC_MSG_RESULT([yes])], [
    AC_MSG_RESULT([no])
    FMC_TRY_FLAGS([-msse2 -mfpmath=sse], [FMC_DOUBLE_PROGRAM],
      [AS_VAR_APPEND([CORE_CFLAGS], [" -msse2 -mfpmath=sse"])],
      [AC_MSG_ERROR([this compiler evaluates double in more than 64 bits, and fusedmc needs exactly 64])])
  ])

  # With a = 1 + 2^-30, a * a - (1 + 2^-29) is 0 in two roundings and 2^-60 in one. Fast arithmetic drops the NaN test.
  AC_MSG_CHECKING([whether $CC keeps to IEEE 754 with R's flags and these])
  fmc_saved=$CFLAGS
  CFLAGS="$CFLAGS $CORE_CFLAGS"
  AC_RUN_IFELSE([AC_LANG_PROGRAM([[
    static volatile double a = 1.0 + 0x1p-30, b = -(1.0 + 0x1p-29), zero = 0.0;
    static double multiply_add(double x, double y, double z) { return x * y + z; }]], [[
    #ifdef __FAST_MATH__
    #error "fast arithmetic is on"
    #endif
    double x = zero / zero;
    return multiply_add(a, a, b) != 0.0 || x == x;]])],
    [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     AC_MSG_ERROR([the compiler fuses, reorders or drops floating-point operations even with '$CORE_CFLAGS':
       look for -ffast-math or the like in R's CFLAGS and in ~/.R/Makevars])],
    [AC_MSG_RESULT([not tried: cross compiling])])
  CFLAGS=$fmc_saved

  KERNEL_CFLAGS=
  for fmc_flag in -O3 -fopenmp-simd; do
    FMC_TRY_FLAGS([$fmc_flag], [AC_LANG_PROGRAM([], [])], [AS_VAR_APPEND([KERNEL_CFLAGS], [" $fmc_flag"])])
  done
  AC_SUBST([CORE_CFLAGS])
  AC_SUBST([KERNEL_CFLAGS])
])

m4_define([FMC_AVX2_PROGRAM], [AC_LANG_PROGRAM([[#include <immintrin.h>]], [[
  #ifndef __x86_64__
  #error "not x86-64"
  #endif
  __m256d x = _mm256_set1_pd(1.0);
  x = _mm256_fmadd_pd(x, x, x);
  return _mm256_movemask_pd(x);]])])

m4_define([FMC_AVX512_PROGRAM], [AC_LANG_PROGRAM([[#include <immintrin.h>]], [[
  #ifndef __x86_64__
  #error "not x86-64"
  #endif
  __m512d x = _mm512_set1_pd(1.0);
  x = _mm512_fmadd_pd(x, x, x);
  return (int)_mm512_movepi64_mask(_mm512_castpd_si512(x));]])])

dnl FMC_SIMD
dnl Sets AVX2_CFLAGS and AVX512_CFLAGS (empty where the build is not made), fmc_simd_defines and fmc_simd (for people).
AC_DEFUN([FMC_SIMD], [
  AVX2_CFLAGS=
  AVX512_CFLAGS=
  fmc_simd=baseline
  fmc_simd_defines=
  # Without -ffp-contract=off nothing would stop the compiler from fusing once it has FMA.
  if test "$fmc_contract_off" = yes; then
    fmc_flags='-mavx2 -mfma'
    FMC_TRY_FLAGS([$fmc_flags], [FMC_AVX2_PROGRAM], [
      AVX2_CFLAGS=$fmc_flags
      fmc_simd="$fmc_simd, AVX2"
      fmc_simd_defines=-DFMC_HAVE_AVX2=1
    ])
    fmc_flags='-mavx2 -mfma -mavx512f -mavx512dq -mavx512bw -mavx512vl -mprefer-vector-width=512'
    FMC_TRY_FLAGS([$fmc_flags], [FMC_AVX512_PROGRAM], [
      AVX512_CFLAGS=$fmc_flags
      fmc_simd="$fmc_simd, AVX-512"
      fmc_simd_defines="$fmc_simd_defines -DFMC_HAVE_AVX512=1"
    ])
  fi
  AC_SUBST([AVX2_CFLAGS])
  AC_SUBST([AVX512_CFLAGS])
])
