/* Sums and triangular matrices for the constants of densities: what R's own sum(), log(), chol() and backsolve() give
 * differs between machines. Every order of addition depends on the size alone. Memory is R's, so a jump out of an
 * interrupt loses nothing. */
#include <math.h>
#include <string.h>

#include "core/core.h"
#include "ffi.h"

#define ROWS_PER_CHECK 32 /* between looks for an interrupt */

/* Neumaier's compensated sum, terms in rising order: value() gives sum + lost. */
typedef struct {
  double sum, lost;
} running_sum;

static void add_term(running_sum *s, double term) {
  double next = s->sum + term;
  double larger = fabs(s->sum) > fabs(term) ? s->sum : term, smaller = larger == s->sum ? term : s->sum;
  s->lost += (larger - next) + smaller;
  s->sum = next;
}

SEXP ffi_core_sum(SEXP x) {
  running_sum s = {0, 0};
  const double *values = REAL_RO(x);
  for (R_xlen_t i = 0; i < XLENGTH(x); i++)
    add_term(&s, values[i]);
  return Rf_ScalarReal(s.sum + s.lost);
}

SEXP ffi_core_sum_log(SEXP x) {
  running_sum s = {0, 0};
  const double *values = REAL_RO(x);
  for (R_xlen_t i = 0; i < XLENGTH(x); i++)
    add_term(&s, fmc_log(values[i]));
  return Rf_ScalarReal(s.sum + s.lost);
}

/* L_ij for i = j .. n - 1 before the division: column -= sum over k < j, rising, of L_ik L_jk, each product and
 * difference rounded. Four k in a pass spare loads and stores, and change no bit. */
static void subtract_columns(const double *L, size_t n, size_t j, double *restrict column) {
  const double *from = L + j; /* of column 0, row j */
  size_t n_rows = n - j, k = 0;
  for (; k + 4 <= j; k += 4, from += 4 * n) {
    const double *f0 = from, *f1 = from + n, *f2 = from + 2 * n, *f3 = from + 3 * n;
    double s0 = f0[0], s1 = f1[0], s2 = f2[0], s3 = f3[0];
    FMC_SIMD
    for (size_t i = 0; i < n_rows; i++)
      column[i] = (((column[i] - s0 * f0[i]) - s1 * f1[i]) - s2 * f2[i]) - s3 * f3[i];
  }
  for (; k < j; k++, from += n) {
    double s = from[0];
    FMC_SIMD
    for (size_t i = 0; i < n_rows; i++)
      column[i] = column[i] - s * from[i];
  }
}

/* The lower factor of a symmetric matrix, of which the lower triangle is read: column by column, L_ij = (S_ij - sum
 * over k < j, rising, of L_ik L_jk) / L_jj. Returns list(factor, pivot): pivot is 0, or the first column, from 1, whose
 * pivot is not positive; the factor is then not complete. */
SEXP ffi_core_cholesky(SEXP matrix) {
  size_t n = (size_t)Rf_nrows(matrix);
  SEXP factor = PROTECT(Rf_allocMatrix(REALSXP, (int)n, (int)n));
  double *L = REAL(factor);
  const double *S = REAL_RO(matrix);
  size_t pivot = 0;
  memset(L, 0, n * n * sizeof *L);
  for (size_t j = 0; j < n && !pivot; j++) {
    double *column = L + j * n + j;
    memcpy(column, S + j * n + j, (n - j) * sizeof *column);
    subtract_columns(L, n, j, column);
    if (column[0] > 0) {
      double root = fmc_sqrt(column[0]);
      column[0] = root;
      for (size_t i = 1; i < n - j; i++)
        column[i] /= root;
    } else {
      pivot = j + 1;
    }
    if (j % ROWS_PER_CHECK == 0)
      R_CheckUserInterrupt();
  }
  static const char *const names[] = {"factor", "pivot"};
  SEXP values[] = {factor, PROTECT(Rf_ScalarInteger((int)pivot))};
  SEXP list = ffi_list(2, names, values);
  UNPROTECT(2);
  return list;
}

/* Packed rows of the inverse of a lower factor: row i, from 0, has i + 1 entries from i (i + 1) / 2 on. W_ij = (0 - sum
 * over k = j .. i - 1, rising, of L_ik W_kj) / L_ii. */
SEXP ffi_core_inverse_factor(SEXP factor) {
  size_t n = (size_t)Rf_nrows(factor);
  SEXP inverse = PROTECT(Rf_allocVector(REALSXP, (R_xlen_t)(n * (n + 1) / 2)));
  double *W = REAL(inverse);
  const double *L = REAL_RO(factor);
  for (size_t i = 0; i < n; i++) {
    double *row = W + i * (i + 1) / 2;
    memset(row, 0, i * sizeof *row);
    for (size_t k = 0; k < i; k++) {
      const double *above = W + k * (k + 1) / 2;
      double scale = L[k * n + i];
      FMC_SIMD
      for (size_t j = 0; j <= k; j++)
        row[j] = row[j] - scale * above[j];
    }
    for (size_t j = 0; j < i; j++)
      row[j] /= L[i * n + i];
    row[i] = 1 / L[i * n + i];
    if (i % ROWS_PER_CHECK == 0)
      R_CheckUserInterrupt();
  }
  UNPROTECT(1);
  return inverse;
}
