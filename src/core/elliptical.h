/* Mixture of multivariate normals and Student t, at a strip of points. Template over REAL.
 *
 *   log p(x) = log sum_k exp(log_const_k + g_k(q_k)),  q_k = |W_k (x - mean_k)|^2
 *   g_k(q) = -q / 2 where df_k is Inf, else -(df_k + n_dim) / 2 log(1 + q / df_k)
 * W_k is the inverse of the lower Cholesky factor of the scale matrix, or with a diagonal one the inverse scales.
 * log_const_k holds everything that is not in g_k, the log weight too. Components of weight zero are left out by the
 * caller.
 *
 * count: components. flags: FMC_ELLIPTICAL_FULL. array: log_const (count), mean (count x n_dim, a component's dims side
 * by side), W (count x n_dim, or count x n_dim (n_dim + 1) / 2: packed rows, row i from i (i + 1) / 2 on), df (count,
 * or none where all are normal). */

#define FMC_ELLIPTICAL_LOG_CONST 0
#define FMC_ELLIPTICAL_MEAN 1
#define FMC_ELLIPTICAL_W 2
#define FMC_ELLIPTICAL_DF 3

#ifndef FMC_ELLIPTICAL_FULL
#define FMC_ELLIPTICAL_FULL 1
#endif

/* Where q overflows, z is computed times this power of two, and log q has the double of its exponent more. */
#define FMC_ELLIPTICAL_EXPONENT ((int)sizeof(REAL) == 8 ? 540 : 70)
#define FMC_ELLIPTICAL_SCALE ((REAL)((int)sizeof(REAL) == 8 ? 0x1p-540 : 0x1p-70))
#define FMC_ELLIPTICAL_LARGE ((REAL)((int)sizeof(REAL) == 8 ? 0x1p1022 : 0x1p126))

/* x - mean, times scale, which is a power of two. */
FMC_FN REAL T(fmc_centred)(REAL x, REAL mean, REAL scale) { return x * scale - mean * scale; }

/* Adds the squares of rows row .. row + 3 of a full component, or of as many as there are. A row's dot product starts
 * at 0 and takes its terms in rising order; four rows side by side share their loads. */
FMC_FN void T(fmc_elliptical_rows)(const REAL *W, const REAL *mean, size_t n_dim, size_t row, const REAL *x,
                                   size_t stride, int n, REAL scale, REAL *sum) {
  const REAL *w0 = W + row * (row + 1) / 2;
  if (row + FMC_BLOCK <= n_dim) {
    const REAL *w1 = w0 + (row + 1), *w2 = w1 + (row + 2), *w3 = w2 + (row + 3);
    FMC_SIMD
    for (int i = 0; i < n; i++) {
      REAL z0 = 0, z1 = 0, z2 = 0, z3 = 0;
      for (size_t j = 0; j <= row; j++) {
        REAL c = T(fmc_centred)(x[j * stride + (size_t)i], mean[j], scale);
        z0 = R_FMA(w0[j], c, z0);
        z1 = R_FMA(w1[j], c, z1);
        z2 = R_FMA(w2[j], c, z2);
        z3 = R_FMA(w3[j], c, z3);
      }
      const REAL *rest = x + (row + 1) * stride + (size_t)i;
      REAL c1 = T(fmc_centred)(rest[0], mean[row + 1], scale);
      REAL c2 = T(fmc_centred)(rest[stride], mean[row + 2], scale);
      REAL c3 = T(fmc_centred)(rest[2 * stride], mean[row + 3], scale);
      z1 = R_FMA(w1[row + 1], c1, z1);
      z2 = R_FMA(w2[row + 2], c2, R_FMA(w2[row + 1], c1, z2));
      z3 = R_FMA(w3[row + 3], c3, R_FMA(w3[row + 2], c2, R_FMA(w3[row + 1], c1, z3)));
      sum[i] = R_FMA(z3, z3, R_FMA(z2, z2, R_FMA(z1, z1, R_FMA(z0, z0, sum[i]))));
    }
    return;
  }
  for (size_t r = row; r < n_dim; r++) {
    FMC_SIMD
    for (int i = 0; i < n; i++) {
      REAL z = 0;
      for (size_t j = 0; j <= r; j++)
        z = R_FMA(w0[j], T(fmc_centred)(x[j * stride + (size_t)i], mean[j], scale), z);
      sum[i] = R_FMA(z, z, sum[i]);
    }
    w0 += r + 1;
  }
}

/* One lane's share of q of component k, times the square of scale. The rows of W stand in the place of the dims of
 * sums.h. With a diagonal W and scale 1 this is fmc_lane_squares(), to the bit. */
FMC_FN void T(fmc_elliptical_lane)(const T(fmc_node) * node, size_t k, const REAL *x, size_t stride, int n,
                                   size_t n_lanes, size_t lane, REAL scale, REAL *sum) {
  size_t n_dim = node->n_dim;
  const REAL *mean = node->array[FMC_ELLIPTICAL_MEAN] + k * n_dim;
  const REAL *W = node->array[FMC_ELLIPTICAL_W];
  FMC_SIMD
  for (int i = 0; i < n; i++)
    sum[i] = 0;
  for (size_t d = lane * FMC_BLOCK; d < n_dim; d += n_lanes * FMC_BLOCK) {
    if (node->flags & FMC_ELLIPTICAL_FULL) {
      T(fmc_elliptical_rows)(W + k * (n_dim * (n_dim + 1) / 2), mean, n_dim, d, x, stride, n, scale, sum);
      continue;
    }
    size_t end = d + FMC_BLOCK < n_dim ? d + FMC_BLOCK : n_dim;
    for (size_t j = d; j < end; j++) {
      REAL inverse = W[k * n_dim + j];
      const REAL *xj = x + j * stride;
      FMC_SIMD
      for (int i = 0; i < n; i++) {
        REAL z = T(fmc_centred)(xj[i], mean[j], scale) * inverse;
        sum[i] = R_FMA(z, z, sum[i]);
      }
    }
  }
}

/* q of component k, times the square of scale: all lanes in turn, and their tree by a binary counter. */
FMC_FN void T(fmc_elliptical_squares)(const T(fmc_node) * node, size_t k, const REAL *x, size_t stride, int n,
                                      REAL scale, REAL *sum) {
  REAL waiting[FMC_MAX_LEVELS][FMC_STRIP]; /* [level]: the sum of 2^level lanes that waits for its neighbour */
  size_t n_lanes = fmc_n_lanes(node->n_dim);
  for (size_t lane = 0; lane < n_lanes; lane++) {
    T(fmc_elliptical_lane)(node, k, x, stride, n, n_lanes, lane, scale, sum);
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

/* A sum of squares that is NaN where no x is has met Inf - Inf or 0 * Inf: the point is far out. */
FMC_FN REAL T(fmc_elliptical_far)(REAL squares, const REAL *x, size_t stride, size_t n_dim) {
  int x_is_nan = 0;
  for (size_t d = 0; d < n_dim && squares != squares; d++)
    x_is_nan |= x[d * stride] != x[d * stride];
  return squares == squares || x_is_nan ? squares : (REAL)FMC_INF;
}

/* log_const + g(q): of a normal, and of a t with half = (df + n_dim) / 2. */
FMC_FN REAL T(fmc_normal_term)(REAL log_const, REAL squares) { return R_FMA((REAL)-0.5, squares, log_const); }

FMC_FN REAL T(fmc_t_term)(REAL log_const, REAL half, REAL log_stretch) { return R_FMA(-half, log_stretch, log_const); }

FMC_FN REAL T(fmc_t_half)(REAL df, size_t n_dim) { return (REAL)0.5 * (df + (REAL)n_dim); }

/* From where on a component's q has to be looked at again: q, or q / df, has overflowed or nearly so. A normal's q may
 * be Inf; a NaN is below no limit. */
FMC_FN REAL T(fmc_elliptical_limit)(REAL df) { return df < 1 ? df * FMC_ELLIPTICAL_LARGE : (REAL)FMC_INF; }

FMC_FN int T(fmc_elliptical_again)(REAL squares, REAL limit, int normal) {
  return normal ? squares != squares : !(squares < limit);
}

/* The term of such a point: there log(1 + q / df) is log q - log df. `scaled` is q times the square of the scale, and
 * counts where q itself has overflowed. */
FMC_FN REAL T(fmc_elliptical_far_term)(const T(fmc_node) * node, REAL log_const, REAL df, REAL squares, REAL scaled,
                                       const REAL *x, size_t stride) {
  if (df == (REAL)FMC_INF)
    return T(fmc_normal_term)(log_const, T(fmc_elliptical_far)(squares, x, stride, node->n_dim));
  REAL log_squares = R_LOG(squares);
  if (!(squares < (REAL)FMC_INF))
    log_squares =
        R_LOG(T(fmc_elliptical_far)(scaled, x, stride, node->n_dim)) + (REAL)(2 * FMC_ELLIPTICAL_EXPONENT * FMC_LN2_HI);
  return T(fmc_t_term)(log_const, T(fmc_t_half)(df, node->n_dim), log_squares - R_LOG(df));
}

/* The terms of component k. */
FMC_FN void T(fmc_elliptical_terms)(const T(fmc_node) * node, size_t k, const REAL *x, size_t stride, int n,
                                    REAL *term) {
  const REAL *dfs = node->array[FMC_ELLIPTICAL_DF];
  REAL log_const = node->array[FMC_ELLIPTICAL_LOG_CONST][k], df = dfs ? dfs[k] : (REAL)FMC_INF;
  REAL squares[FMC_STRIP], scaled[FMC_STRIP], limit = T(fmc_elliptical_limit)(df);
  int normal = df == (REAL)FMC_INF, again[FMC_STRIP], any = 0;
  T(fmc_elliptical_squares)(node, k, x, stride, n, (REAL)1, squares);
  if (normal) {
    FMC_SIMD
    for (int i = 0; i < n; i++) {
      term[i] = T(fmc_normal_term)(log_const, squares[i]);
      again[i] = T(fmc_elliptical_again)(squares[i], limit, 1);
    }
  } else {
    REAL half = T(fmc_t_half)(df, node->n_dim);
    FMC_SIMD
    for (int i = 0; i < n; i++) {
      term[i] = T(fmc_t_term)(log_const, half, R_LOG1P(squares[i] / df));
      again[i] = T(fmc_elliptical_again)(squares[i], limit, 0);
    }
  }
  for (int i = 0; i < n; i++)
    any |= again[i];
  if (!any)
    return;
  T(fmc_elliptical_squares)(node, k, x, stride, n, FMC_ELLIPTICAL_SCALE, scaled);
  for (int i = 0; i < n; i++)
    if (again[i])
      term[i] = T(fmc_elliptical_far_term)(node, log_const, df, squares[i], scaled[i], x + i, stride);
}

FMC_FN void T(fmc_leaf_elliptical)(const T(fmc_node) * node, const REAL *x, size_t stride, int n, REAL *out) {
  REAL term[FMC_STRIP], scaled[FMC_STRIP];
  T(fmc_elliptical_terms)(node, 0, x, stride, n, out);
  for (int i = 0; i < n; i++)
    scaled[i] = 1;
  for (size_t k = 1; k < node->count; k++) {
    T(fmc_elliptical_terms)(node, k, x, stride, n, term);
    FMC_SIMD
    for (int i = 0; i < n; i++)
      T(fmc_lse_add)(&out[i], &scaled[i], term[i]);
  }
  if (node->count > 1) {
    FMC_SIMD
    for (int i = 0; i < n; i++)
      out[i] += R_LOG(scaled[i]);
  }
}
