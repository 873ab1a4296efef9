/* Sums of squares and log-sum-exps of a strip of points. Template over REAL. */

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

/* log-sum-exp, one component at a time and in their order: the sum so far is exp(max) * scaled. e is the smaller of the
 * two relative to the larger. */
FMC_FN void T(fmc_lse_join)(REAL *max, REAL *scaled, REAL log_term, REAL e) {
  int larger = log_term > *max;
  *scaled = larger ? R_FMA(*scaled, e, 1) : *scaled + e;
  *max = larger ? log_term : *max;
}

FMC_FN void T(fmc_lse_add)(REAL *max, REAL *scaled, REAL log_term) {
  REAL e = R_EXP(-R_ABS(*max - log_term));
  T(fmc_lse_join)(max, scaled, log_term, *max == log_term ? 1 : e); /* 1 also where both are -Inf */
}
