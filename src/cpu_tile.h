/* Weights of a tile on the CPU, in the order of core/weighted_sums.h. Strips of a tile's places are whole but for the
 * first and the last, where the samples of a call may begin or end. */

typedef struct {
  double w[FMC_TILE], scale[FMC_TILE]; /* of the sample at each place */
  double factor[FMC_TILE_LANES];       /* brings a lane to the tile's largest log weight */
} tile_weights;

/* Sum of the lanes as a tree of neighbours; lanes is overwritten. */
static double tree_sum(double *lanes) {
  for (int stride = 1; stride < FMC_TILE_LANES; stride *= 2)
    for (int i = 0; i < FMC_TILE_LANES; i += 2 * stride)
      lanes[i] = lanes[i] + lanes[i + stride];
  return lanes[0];
}

/* Brings the lanes to the tile's largest log weight and adds them. */
static double joined_lanes(double *lanes, const double *factor) {
  FMC_SIMD
  for (int i = 0; i < FMC_TILE_LANES; i++)
    lanes[i] = fmc_rescaled(lanes[i], factor[i]);
  return tree_sum(lanes);
}

/* Counts of log weights, into a row; returns the place of the first that is NaN or +Inf, FMC_TILE where there is none.
 */
static size_t count_log_weights(const fmc_cpu_tile *tile, double *row) {
  size_t end = tile->begin + tile->n, n_bad = 0, n_zero = 0, place = FMC_TILE;
  for (size_t i = tile->begin; i < end; i++) {
    n_bad += (size_t)fmc_log_weight_bad(tile->log_weights[i]);
    n_zero += tile->log_weights[i] == -FMC_INF;
  }
  for (size_t i = tile->begin; n_bad > 0 && i < end && place == FMC_TILE; i++)
    if (fmc_log_weight_bad(tile->log_weights[i]))
      place = i;
  row[FMC_SUMMARY_FIRST] = (double)(tile->number / FMC_TILE);
  row[FMC_SUMMARY_LEVEL] = 0;
  row[FMC_SUMMARY_N] = (double)tile->n;
  row[FMC_SUMMARY_N_BAD] = (double)n_bad;
  row[FMC_SUMMARY_N_ZERO] = (double)n_zero;
  return place;
}

/* n samples of a strip, whose lanes come one after the other. */
FMC_FN void weigh_run(const double *log_weights, double *w, double *scale, double *max, double *sum,
                      double *sum_squares, size_t n) {
  FMC_SIMD
  for (size_t i = 0; i < n; i++) {
    double f, v = fmc_online_weight(&max[i], log_weights[i], &f);
    w[i] = v;
    scale[i] = f;
    sum[i] = fmc_fma(sum[i], f, v);
    sum_squares[i] = fmc_fma(sum_squares[i], f * f, v * v);
  }
}

/* The weights of a tile, their sums and the largest log weight, into a row. */
static void weigh_tile(const fmc_cpu_tile *tile, tile_weights *to, double *row) {
  double max[FMC_TILE_LANES], sum[FMC_TILE_LANES], sum_squares[FMC_TILE_LANES], factor_squared[FMC_TILE_LANES];
  double top = -FMC_INF;
  size_t end = tile->begin + tile->n;
  for (int i = 0; i < FMC_TILE_LANES; i++) {
    max[i] = -FMC_INF;
    sum[i] = sum_squares[i] = 0;
  }
  for (size_t low = tile->begin, n; low < end; low += n) {
    size_t lane = low % FMC_TILE_LANES;
    n = FMC_STRIP - low % FMC_STRIP < end - low ? FMC_STRIP - low % FMC_STRIP : end - low;
    const double *log_weights = tile->log_weights + low;
    double *w = to->w + low, *scale = to->scale + low;
    if (n == FMC_STRIP) /* a loop of known length needs no counting */
      weigh_run(log_weights, w, scale, max + lane, sum + lane, sum_squares + lane, FMC_STRIP);
    else
      weigh_run(log_weights, w, scale, max + lane, sum + lane, sum_squares + lane, n);
  }
  for (int i = 0; i < FMC_TILE_LANES; i++)
    top = max[i] > top ? max[i] : top;
  FMC_SIMD
  for (int i = 0; i < FMC_TILE_LANES; i++) {
    to->factor[i] = fmc_rescale_factor(max[i], top);
    factor_squared[i] = to->factor[i] * to->factor[i];
  }
  row[FMC_SUMMARY_MAX] = top;
  row[FMC_SUMMARY_SUM] = joined_lanes(sum, to->factor);
  row[FMC_SUMMARY_SUM_SQUARES] = joined_lanes(sum_squares, factor_squared);
}

/* Log weights above the threshold, moved to `out`; returns how many. Infinite ones never are. */
static size_t above(const double *log_weights, size_t n, double threshold, double *out) {
  size_t found = 0;
  for (size_t i = 0; i < n; i++) {
    out[found] = log_weights[i];
    found += (log_weights[i] > threshold) & (log_weights[i] < FMC_INF);
  }
  return found;
}
