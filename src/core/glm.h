/* Posterior of a regression's coefficients, at a strip of points. Template over REAL.
 *
 *   log p(b) = sum_o log p(y_o | eta_o) + log prior(b) + number[CONSTANT],  eta_o = offset_o + sum_j X_oj b_j
 *
 * What of the likelihood depends on b, by family:
 *   LOGIT_UNIT      -log(1 + exp(eta)). R turns the sign of the rows of X and of the offsets where y = 1.
 *   LOGIT_WEIGHTED  -w log(1 + exp(eta)), likewise: a row for the successes, one for the failures.
 *   POISSON         y eta - w exp(eta), where y holds w times the response
 *   GAUSSIAN        -(y - eta)^2 / 2, or with FMC_GLM_LOG_SIGMA -(y - eta)^2 / (2 sigma^2). R multiplies rows, offsets
 *                   and y by the root of their weight, and where sigma is known divides them by it.
 *
 * The prior is normal, or with FMC_GLM_T_PRIOR Student t; an inv_sd of 0 leaves a coefficient out of it. With
 * FMC_GLM_LOG_SIGMA the last dim is s = log sigma, and the density is that of (b, s): sigma has an exponential prior.
 *
 * count: observations (rows of X). array: X (count x n_coef, an observation's coefficients side by side), y, w, offset
 * (count each), prior_mean, prior_inv_sd (n_coef each). w is NULL where all are 1, offset where all are 0.
 *
 * The order of sums: observations come in blocks of FMC_OBS_BLOCK and are added in their order, the blocks' sums as a
 * binary tree of neighbours. Both in double. eta starts from the offset and takes the coefficients in their order. */
#include "exp_negative.h"

#define FMC_OBS_BLOCK 64
#define FMC_OBS_LEVELS 32 /* of the blocks' tree: room for 2^31 blocks */

#define FMC_GLM_LOGIT_UNIT 0
#define FMC_GLM_LOGIT_WEIGHTED 1
#define FMC_GLM_POISSON 2
#define FMC_GLM_GAUSSIAN 3
#define FMC_GLM_FAMILY 3 /* mask */
#define FMC_GLM_T_PRIOR 4
#define FMC_GLM_LOG_SIGMA 8

#define FMC_GLM_X 0
#define FMC_GLM_Y 1
#define FMC_GLM_W 2
#define FMC_GLM_OFFSET 3
#define FMC_GLM_PRIOR_MEAN 4
#define FMC_GLM_PRIOR_INV_SD 5

#define FMC_GLM_CONSTANT 0
#define FMC_GLM_PRIOR_DF 1
#define FMC_GLM_LOG_PRIOR_DF 2
#define FMC_GLM_PRIOR_RATE 3 /* of sigma */
#define FMC_GLM_N_SIGMA 4    /* the power of 1 / sigma in the density of (b, s): observations less 1 */

FMC_FN size_t T(fmc_glm_n_coef)(const T(fmc_node) * node) {
  return node->n_dim - ((node->flags & FMC_GLM_LOG_SIGMA) != 0);
}

FMC_FN size_t T(fmc_glm_n_blocks)(const T(fmc_node) * node) {
  return (node->count + FMC_OBS_BLOCK - 1) / FMC_OBS_BLOCK;
}

FMC_FN void T(fmc_glm_eta)(const REAL *row, REAL offset, size_t n_coef, const REAL *x, size_t stride, int n,
                           REAL *eta) {
  FMC_SIMD
  for (int i = 0; i < n; i++)
    eta[i] = offset;
  size_t j = 0;
  for (; j + 4 <= n_coef; j += 4) {
    const REAL *xj = x + j * stride;
    FMC_SIMD
    for (int i = 0; i < n; i++) {
      REAL e = R_FMA(row[j], xj[i], eta[i]);
      e = R_FMA(row[j + 1], xj[i + stride], e);
      e = R_FMA(row[j + 2], xj[i + 2 * stride], e);
      eta[i] = R_FMA(row[j + 3], xj[i + 3 * stride], e);
    }
  }
  for (; j < n_coef; j++) {
    const REAL *xj = x + j * stride;
    FMC_SIMD
    for (int i = 0; i < n; i++)
      eta[i] = R_FMA(row[j], xj[i], eta[i]);
  }
}

/* One observation more in a block's sum. A block begins with sum = 0 and product = 1.
 *
 * LOGIT_UNIT: log(1 + exp(eta)) = max(eta, 0) + log(1 + exp(-|eta|)), and the second terms are gathered as a product,
 * at most 2^64: one logarithm a block.
 * POISSON: an exp that overflows decides by itself, and y = 0 leaves an infinite eta out: no Inf - Inf, no 0 Inf. */
FMC_FN void T(fmc_glm_add)(int family, REAL eta, REAL y, REAL w, double *sum, REAL *product) {
  if (family == FMC_GLM_LOGIT_UNIT) {
    REAL e = T(fmc_exp_negative)(eta < 0 ? eta : -eta);
    *sum -= (double)(eta < 0 ? 0 : eta);
    *product = R_FMA(*product, e, *product);
  } else if (family == FMC_GLM_LOGIT_WEIGHTED) {
    *sum -= (double)(w * R_LOG1PEXP(eta));
  } else if (family == FMC_GLM_POISSON) {
    REAL mean = w * R_EXP(eta);
    REAL term = R_FMA(y, y == 0 ? 0 : eta, -mean);
    *sum += (double)(mean < (REAL)FMC_INF ? term : -mean);
  } else {
    double gap = (double)(y - eta);
    *sum = fmc_fma(gap, gap, *sum);
  }
}

FMC_FN double T(fmc_glm_block_sum)(int family, double sum, REAL product) {
  return family == FMC_GLM_LOGIT_UNIT ? sum - fmc_log((double)product) : sum;
}

/* `family` is a constant where this is called, so that every family has loops of its own. */
FMC_FN void T(fmc_glm_family_block)(int family, const T(fmc_node) * node, size_t block, const REAL *x, size_t stride,
                                    int n, double *value) {
  REAL eta[FMC_STRIP], product[FMC_STRIP];
  double sum[FMC_STRIP];
  size_t n_coef = T(fmc_glm_n_coef)(node), first = block * FMC_OBS_BLOCK;
  size_t end = node->count - first < FMC_OBS_BLOCK ? node->count : first + FMC_OBS_BLOCK;
  const REAL *ys = node->array[FMC_GLM_Y], *ws = node->array[FMC_GLM_W], *offsets = node->array[FMC_GLM_OFFSET];
  FMC_SIMD
  for (int i = 0; i < n; i++) {
    sum[i] = 0;
    product[i] = 1;
  }
  for (size_t o = first; o < end; o++) {
    REAL y = ys ? ys[o] : 0, w = ws ? ws[o] : 1, offset = offsets ? offsets[o] : 0;
    T(fmc_glm_eta)(node->array[FMC_GLM_X] + o * n_coef, offset, n_coef, x, stride, n, eta);
    FMC_SIMD
    for (int i = 0; i < n; i++)
      T(fmc_glm_add)(family, eta[i], y, w, &sum[i], &product[i]);
  }
  FMC_SIMD
  for (int i = 0; i < n; i++)
    value[i] = T(fmc_glm_block_sum)(family, sum[i], product[i]);
}

/* The sum of one block at each point. */
FMC_FN void T(fmc_glm_block)(const T(fmc_node) * node, size_t block, const REAL *x, size_t stride, int n,
                             double *value) {
  switch (node->flags & FMC_GLM_FAMILY) {
  case FMC_GLM_LOGIT_UNIT:
    T(fmc_glm_family_block)(FMC_GLM_LOGIT_UNIT, node, block, x, stride, n, value);
    break;
  case FMC_GLM_LOGIT_WEIGHTED:
    T(fmc_glm_family_block)(FMC_GLM_LOGIT_WEIGHTED, node, block, x, stride, n, value);
    break;
  case FMC_GLM_POISSON:
    T(fmc_glm_family_block)(FMC_GLM_POISSON, node, block, x, stride, n, value);
    break;
  default:
    T(fmc_glm_family_block)(FMC_GLM_GAUSSIAN, node, block, x, stride, n, value);
  }
}

/* log(1 + z^2 / df); where that overflows, 2 log|z| - log df is the same to the last bit. */
FMC_FN double T(fmc_glm_t_term)(double z, double df, double log_df) {
  double ratio = z * z / df;
  return ratio < FMC_INF ? fmc_log1p(ratio) : 2 * fmc_log(z < 0 ? -z : z) - log_df;
}

/* Sum of the above over the coefficients, in double, in the order that sums.h has for sums over dims. */
FMC_FN void T(fmc_glm_t_sum)(const T(fmc_node) * node, const REAL *x, size_t stride, int n, double *sum) {
  double waiting[FMC_MAX_LEVELS][FMC_STRIP];
  size_t n_coef = T(fmc_glm_n_coef)(node), n_lanes = fmc_n_lanes(n_coef);
  double df = node->number[FMC_GLM_PRIOR_DF], log_df = node->number[FMC_GLM_LOG_PRIOR_DF];
  for (size_t lane = 0; lane < n_lanes; lane++) {
    FMC_SIMD
    for (int i = 0; i < n; i++)
      sum[i] = 0;
    for (size_t d = lane * FMC_BLOCK; d < n_coef; d += n_lanes * FMC_BLOCK)
      for (size_t j = d; j < d + FMC_BLOCK && j < n_coef; j++) {
        double mean = (double)node->array[FMC_GLM_PRIOR_MEAN][j], inv_sd = (double)node->array[FMC_GLM_PRIOR_INV_SD][j];
        FMC_SIMD
        for (int i = 0; i < n; i++)
          sum[i] += T(fmc_glm_t_term)(((double)x[j * stride + i] - mean) * inv_sd, df, log_df);
      }
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

/* log prior of the coefficients without its constants. */
FMC_FN void T(fmc_glm_prior)(const T(fmc_node) * node, const REAL *x, size_t stride, int n, double *prior) {
  REAL squares[FMC_STRIP];
  const REAL *mean = node->array[FMC_GLM_PRIOR_MEAN], *inv_sd = node->array[FMC_GLM_PRIOR_INV_SD];
  if (!inv_sd) {
    for (int i = 0; i < n; i++)
      prior[i] = 0;
  } else if (node->flags & FMC_GLM_T_PRIOR) {
    double power = -0.5 * (node->number[FMC_GLM_PRIOR_DF] + 1);
    T(fmc_glm_t_sum)(node, x, stride, n, prior);
    for (int i = 0; i < n; i++)
      prior[i] = power * prior[i];
  } else {
    T(fmc_squares)(x, stride, n, T(fmc_glm_n_coef)(node), mean, inv_sd, squares);
    for (int i = 0; i < n; i++)
      prior[i] = -0.5 * (double)squares[i];
  }
}

/* From a sum of squares and s = log sigma to the log likelihood without its constants, and the Jacobian of s. It is
 * multiplied by 1 / sigma twice, as the square of that overflows sooner; a perfect fit stays one however small sigma.
 */
FMC_FN double T(fmc_glm_scaled)(double squares, double s, double n_sigma) {
  double inv_sigma = fmc_exp(-s);
  double fit = squares == 0 ? 0 : squares * inv_sigma * inv_sigma;
  return -0.5 * fit - n_sigma * s;
}

/* From the sum over observations to the log density. Where the prior is 0 the likelihood does not matter. */
FMC_FN void T(fmc_glm_finish)(const T(fmc_node) * node, const double *sum, const REAL *x, size_t stride, int n,
                              REAL *out) {
  double prior[FMC_STRIP];
  const double *number = node->number;
  const REAL *log_sigma = x + T(fmc_glm_n_coef)(node) * stride;
  T(fmc_glm_prior)(node, x, stride, n, prior);
  for (int i = 0; i < n; i++) {
    double likelihood = sum[i];
    if (node->flags & FMC_GLM_LOG_SIGMA) {
      likelihood = T(fmc_glm_scaled)(sum[i], (double)log_sigma[i], number[FMC_GLM_N_SIGMA]);
      prior[i] -= number[FMC_GLM_PRIOR_RATE] * fmc_exp((double)log_sigma[i]);
    } else if ((node->flags & FMC_GLM_FAMILY) == FMC_GLM_GAUSSIAN) {
      likelihood = -0.5 * sum[i];
    }
    double value = prior[i] == -FMC_INF ? prior[i] : likelihood + (prior[i] + number[FMC_GLM_CONSTANT]);
    out[i] = (REAL)(value == value ? value : FMC_NAN);
  }
}

FMC_FN void T(fmc_leaf_glm)(const T(fmc_node) * node, const REAL *x, size_t stride, int n, REAL *out) {
  double waiting[FMC_OBS_LEVELS][FMC_STRIP]; /* [level]: the sum of 2^level blocks that waits for its neighbour */
  double sum[FMC_STRIP];
  size_t n_blocks = T(fmc_glm_n_blocks)(node);
  for (size_t block = 0; block < n_blocks; block++) {
    T(fmc_glm_block)(node, block, x, stride, n, sum);
    int level = 0;
    for (; block >> level & 1; level++) {
      FMC_SIMD
      for (int i = 0; i < n; i++)
        sum[i] = waiting[level][i] + sum[i];
    }
    FMC_SIMD
    for (int i = 0; i < n; i++)
      waiting[level][i] = sum[i];
  }
  /* What still waits, from the lowest level up; of `sum` itself a copy waits there. */
  int lowest = 0;
  while (!(n_blocks >> lowest & 1))
    lowest++;
  for (int level = lowest + 1; level < FMC_OBS_LEVELS && n_blocks >> level; level++)
    if (n_blocks >> level & 1)
      for (int i = 0; i < n; i++)
        sum[i] = waiting[level][i] + sum[i];
  T(fmc_glm_finish)(node, sum, x, stride, n, out);
}
