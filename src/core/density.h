/* Log densities of a strip of points. Template over REAL.
 *
 * Every built-in density here is a mixture of n_components products of normals; a single normal is a mixture of one.
 *   log p(x) = log sum_k exp(log_const_k - q_k / 2),  q_k = sum_d ((x_d - mean_kd) * inv_sd_kd)^2
 * with log_const_k = log w_k - sum_d log sd_kd - n_dim / 2 log(2 pi). Components of weight zero are left out by the
 * caller. */

typedef struct {
  size_t n_dim, n_components;
  const REAL *log_const, *mean, *inv_sd; /* n_components; n_components x n_dim, a component's dims side by side */
} T(fmc_density);

FMC_FN REAL T(fmc_square_add)(REAL sum, REAL x, REAL mean, REAL inv_sd) {
  REAL z = (x - mean) * inv_sd;
  return R_FMA(z, z, sum);
}

/* One lane's share of the sum of squares; see sums.h. */
FMC_FN void T(fmc_lane_squares)(const REAL *x, size_t stride, int n, size_t n_dim, size_t n_lanes, size_t lane,
                                const REAL *mean, const REAL *inv_sd, REAL *sum) {
  FMC_SIMD
  for (int i = 0; i < n; i++)
    sum[i] = 0;
  for (size_t d = lane * FMC_BLOCK; d < n_dim; d += n_lanes * FMC_BLOCK) {
    const REAL *xd = x + d * stride;
    if (d + FMC_BLOCK <= n_dim) {
      FMC_SIMD
      for (int i = 0; i < n; i++) {
        REAL s = T(fmc_square_add)(sum[i], xd[i], mean[d], inv_sd[d]);
        s = T(fmc_square_add)(s, xd[i + stride], mean[d + 1], inv_sd[d + 1]);
        s = T(fmc_square_add)(s, xd[i + 2 * stride], mean[d + 2], inv_sd[d + 2]);
        sum[i] = T(fmc_square_add)(s, xd[i + 3 * stride], mean[d + 3], inv_sd[d + 3]);
      }
    } else {
      for (size_t j = d; j < n_dim; j++, xd += stride) {
        FMC_SIMD
        for (int i = 0; i < n; i++)
          sum[i] = T(fmc_square_add)(sum[i], xd[i], mean[j], inv_sd[j]);
      }
    }
  }
}

/* The sum of squares of a component: all lanes in turn, and their tree by a binary counter. */
FMC_FN void T(fmc_squares)(const REAL *x, size_t stride, int n, size_t n_dim, const REAL *mean, const REAL *inv_sd,
                           REAL *sum) {
  REAL waiting[FMC_MAX_LEVELS][FMC_STRIP]; /* [level]: the sum of 2^level lanes that waits for its neighbour */
  size_t n_lanes = fmc_n_lanes(n_dim);
  for (size_t lane = 0; lane < n_lanes; lane++) {
    T(fmc_lane_squares)(x, stride, n, n_dim, n_lanes, lane, mean, inv_sd, sum);
    int level = 0;
    for (; lane >> level & 1; level++) {
      FMC_SIMD
      for (int i = 0; i < n; i++)
        sum[i] = waiting[level][i] + sum[i];
    }
    FMC_SIMD
    for (int i = 0; i < n; i++)
      waiting[level][i] = sum[i];
  }
}

/* log-sum-exp, one component at a time and in their order: the sum so far is exp(max) * scaled. */
FMC_FN void T(fmc_lse_add)(REAL *max, REAL *scaled, REAL log_term) {
  REAL gap = *max - log_term;
  REAL e = R_EXP(gap > 0 ? -gap : gap);
  e = *max == log_term ? 1 : e; /* also where both are -Inf */
  int larger = log_term > *max;
  *scaled = larger ? R_FMA(*scaled, e, 1) : *scaled + e;
  *max = larger ? log_term : *max;
}

FMC_FN REAL T(fmc_log_component)(REAL log_const, REAL squares) { return R_FMA((REAL)-0.5, squares, log_const); }

FMC_FN void T(fmc_log_density)(const T(fmc_density) * density, const REAL *x, size_t stride, int n, REAL *out) {
  REAL squares[FMC_STRIP], scaled[FMC_STRIP];
  for (size_t k = 0; k < density->n_components; k++) {
    size_t row = k * density->n_dim;
    REAL log_const = density->log_const[k];
    T(fmc_squares)(x, stride, n, density->n_dim, density->mean + row, density->inv_sd + row, squares);
    if (k == 0) {
      FMC_SIMD
      for (int i = 0; i < n; i++) {
        out[i] = T(fmc_log_component)(log_const, squares[i]);
        scaled[i] = 1;
      }
    } else {
      FMC_SIMD
      for (int i = 0; i < n; i++)
        T(fmc_lse_add)(&out[i], &scaled[i], T(fmc_log_component)(log_const, squares[i]));
    }
  }
  if (density->n_components > 1) {
    FMC_SIMD
    for (int i = 0; i < n; i++)
      out[i] += R_LOG(scaled[i]);
  }
}
