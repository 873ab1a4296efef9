/* Sums over importance weights in one stable pass.
 *
 * Samples come in tiles of 4096. Sample i of a tile belongs to lane i mod 256; a lane takes its samples in rising order
 * and keeps sums relative to the largest log weight it has seen. A tile's lanes are brought to the tile's largest and
 * added as a binary tree of neighbours; tiles are joined as a binary tree of neighbours over tile numbers. */
#ifndef FUSEDMC_CORE_WEIGHTED_SUMS_H
#define FUSEDMC_CORE_WEIGHTED_SUMS_H

#include "math.h"

#define FMC_TILE 4096
#define FMC_TILE_LANES 256
#define FMC_TILE_ROWS (FMC_TILE / FMC_TILE_LANES)

/* A log weight that is NaN or +Inf gets weight zero and is counted. */
FMC_FN int fmc_log_weight_bad(double log_weight) { return !(log_weight < FMC_INF); }

/* A lane meets its next sample, whose log weight is not bad: returns the sample's weight relative to the new largest
 * log weight *max, and in *scale the factor that brings the sums so far to it. One of the two is 1. Where both log
 * weights are -Inf their difference is NaN, and the weight 0. */
FMC_FN double fmc_online_good_weight(double *max, double log_weight, double *scale) {
  double old = *max, e = fmc_exp_below(-fmc_abs(old - log_weight));
  int larger = log_weight > old;
  *max = larger ? log_weight : old;
  *scale = larger ? e : 1.0;
  return larger ? 1.0 : e;
}

/* The same by how far the log weight is below the largest so far, where that is within FMC_EXP_NEAR of 0. */
FMC_FN double fmc_online_near_weight(double below, double *scale) {
  double e = fmc_exp_near(-fmc_abs(below)), w = below < 0 ? 1.0 : e;
  *scale = below < 0 ? e : 1.0;
  return w;
}

/* The same of any log weight; a bad one has weight 0. */
FMC_FN double fmc_online_weight(double *max, double log_weight, double *scale) {
  log_weight = fmc_log_weight_bad(log_weight) ? -FMC_INF : log_weight;
  return fmc_online_good_weight(max, log_weight, scale);
}

/* Zero weight on a non-finite sample contributes nothing, and a scale that has underflowed takes what was there with
 * it. */
FMC_FN double fmc_weighted_add(double sum, double scale, double w, double x) {
  double term = w > 0 ? w * x : 0.0, kept = scale > 0 ? sum : 0.0;
  return fmc_fma(kept, scale, term);
}

/* The factor that brings sums relative to `from` to the larger `to`; 1 where both are -Inf and the sums are 0. */
FMC_FN double fmc_rescale_factor(double from, double to) {
  double e = fmc_exp(from - to);
  return from == to ? 1.0 : e;
}

FMC_FN double fmc_rescaled(double sum, double factor) { return factor > 0 ? sum * factor : 0.0; }

/* A sum over earlier and one over later samples; f and g bring them to the larger of their largest log weights. */
FMC_FN double fmc_joined(double earlier, double f, double later, double g) {
  return fmc_rescaled(earlier, f) + fmc_rescaled(later, g);
}

/* The summary of an aligned run of 2^level tiles, or of a part of one tile at level 0, is a row of doubles: these, then
 * the columns, which are sums of w x over dims and of w times second moments. Sums are relative to `max`, sums of
 * squares to it twice. */
enum {
  FMC_SUMMARY_FIRST, /* number of the first tile */
  FMC_SUMMARY_LEVEL,
  FMC_SUMMARY_N,      /* samples */
  FMC_SUMMARY_N_BAD,  /* log weights that are NaN or +Inf */
  FMC_SUMMARY_N_ZERO, /* log weights that are -Inf */
  FMC_SUMMARY_MAX,
  FMC_SUMMARY_SUM,
  FMC_SUMMARY_SUM_SQUARES,
  FMC_SUMMARY_COLUMNS
};

/* Second moments of x - shift: none, squares, or all products by rows of the lower triangle. */
enum { FMC_MOMENTS_NONE, FMC_MOMENTS_SQUARES, FMC_MOMENTS_PRODUCTS };

FMC_FN size_t fmc_n_moments(size_t n_dim, int moments) {
  return moments == FMC_MOMENTS_PRODUCTS ? n_dim * (n_dim + 1) / 2 : moments == FMC_MOMENTS_SQUARES ? n_dim : 0;
}

/* A second moment's factor for fmc_weighted_add(): each operation is rounded. */
FMC_FN double fmc_moment(double x, double shift_x, double y, double shift_y) { return (x - shift_x) * (y - shift_y); }

/* A normalised weight: exp(log weight - max) / sum. */
FMC_FN double fmc_normalised_weight(double log_weight, double max, double sum) {
  double w = fmc_exp(log_weight - max) / sum;
  return fmc_log_weight_bad(log_weight) ? 0.0 : w;
}

#endif
