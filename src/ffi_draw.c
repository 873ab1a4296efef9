#include "core/core.h"
#include "core/draw.h"
#include "core/normal_table.h"
#include "ffi.h"

#include "core/real_f64.h"
#include "core/draw_point.h"
#include "core/real_end.h"

#define NUMBERS_PER_CHECK 1000000 /* between looks for an interrupt */

/* n samples, n x n_dim. rng: c(seed, offset). plan: list(cumulative, mean, factor, df or NULL, full), as
 * core/draw_point.h has them. All checked in R. */
SEXP ffi_draw(SEXP n, SEXP n_dim, SEXP rng, SEXP plan) {
  size_t rows = (size_t)Rf_asReal(n), dims = (size_t)Rf_asReal(n_dim), unchecked = 0;
  uint64_t seed = (uint64_t)REAL_RO(rng)[0], offset = (uint64_t)REAL_RO(rng)[1];
  SEXP df = VECTOR_ELT(plan, 3);
  const size_t group[] = {0, (size_t)XLENGTH(VECTOR_ELT(plan, 0))};
  fmc_draw_plan_f64 from = {
      .n_dim = dims,
      .count = group[1],
      .full = Rf_asLogical(VECTOR_ELT(plan, 4)),
      .cumulative = REAL_RO(VECTOR_ELT(plan, 0)),
      .mean = REAL_RO(VECTOR_ELT(plan, 1)),
      .factor = REAL_RO(VECTOR_ELT(plan, 2)),
      .df = Rf_isNull(df) ? NULL : REAL_RO(df),
      .n_groups = 1,
      .group = group,
  };
  SEXP out = PROTECT(Rf_allocMatrix(REALSXP, (int)rows, (int)dims));
  double *point = (double *)R_alloc(dims, sizeof(double)); /* columns of `out` lie too far apart to work in */
  for (size_t i = 0; i < rows; i++) {
    fmc_draw_point_f64(&from, seed, offset + i, fmc_normal_table, point, 1);
    for (size_t d = 0; d < dims; d++)
      REAL(out)[d * rows + i] = point[d];
    unchecked += dims * (from.full ? dims : 1);
    if (unchecked > NUMBERS_PER_CHECK) {
      unchecked = 0;
      R_CheckUserInterrupt();
    }
  }
  UNPROTECT(1);
  return out;
}
