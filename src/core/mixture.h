/* Mixture of products of normals, at a strip of points. Template over REAL.
 *
 *   log p(x) = log sum_k exp(log_const_k - q_k / 2),  q_k = sum_d ((x_d - mean_kd) * inv_sd_kd)^2
 * with log_const_k = log w_k - sum_d log sd_kd - n_dim / 2 log(2 pi). A single normal is a mixture of one. Components
 * of weight zero are left out by the caller.
 *
 * count: components. array: log_const (count), mean, inv_sd (count x n_dim, a component's dims side by side). */

#define FMC_MIXTURE_LOG_CONST 0
#define FMC_MIXTURE_MEAN 1
#define FMC_MIXTURE_INV_SD 2

FMC_FN REAL T(fmc_log_component)(REAL log_const, REAL squares) { return R_FMA((REAL)-0.5, squares, log_const); }

/* fmc_lse_add() with the same sum for terms that are never Inf, and NaN in all components or in none. Where both are
 * -Inf, or NaN, any e will do: max says it all. */
FMC_FN void T(fmc_mixture_add)(REAL *max, REAL *scaled, REAL log_term) {
  T(fmc_lse_join)(max, scaled, log_term, R_EXP_BELOW(-R_ABS(*max - log_term)));
}

/* The log density, from a sum that lies between 1 and the number of components. */
FMC_FN REAL T(fmc_mixture_total)(REAL max, REAL scaled) { return max + R_LOG_NORMAL(scaled); }

FMC_FN void T(fmc_leaf_mixture)(const T(fmc_node) * node, const REAL *x, size_t stride, int n, REAL *out) {
  REAL squares[FMC_STRIP], scaled[FMC_STRIP];
  for (size_t k = 0; k < node->count; k++) {
    size_t row = k * node->n_dim;
    REAL log_const = node->array[FMC_MIXTURE_LOG_CONST][k];
    T(fmc_squares)
    (x, stride, n, node->n_dim, node->array[FMC_MIXTURE_MEAN] + row, node->array[FMC_MIXTURE_INV_SD] + row, squares);
    if (k == 0) {
      FMC_SIMD
      for (int i = 0; i < n; i++) {
        out[i] = T(fmc_log_component)(log_const, squares[i]);
        scaled[i] = 1;
      }
    } else {
      FMC_SIMD
      for (int i = 0; i < n; i++)
        T(fmc_mixture_add)(&out[i], &scaled[i], T(fmc_log_component)(log_const, squares[i]));
    }
  }
  if (node->count > 1) {
    FMC_SIMD
    for (int i = 0; i < n; i++)
      out[i] = T(fmc_mixture_total)(out[i], scaled[i]);
  }
}
