/* The CPU's kernels of resampling; read by cpu_kernels_impl.h alone. */

#define FMC_RANGE_LANES 32 /* running largest values side by side */

static size_t weight_range(const double *weights, size_t n, int is_log, double *max) {
  double top[FMC_RANGE_LANES], largest = -FMC_INF;
  uint64_t bad[FMC_RANGE_LANES] = {0}, n_bad = 0;
  for (int lane = 0; lane < FMC_RANGE_LANES; lane++)
    top[lane] = -FMC_INF;
  for (size_t row = 0; row < n; row += FMC_RANGE_LANES) {
    size_t width = n - row < FMC_RANGE_LANES ? n - row : FMC_RANGE_LANES;
    FMC_SIMD
    for (size_t lane = 0; lane < width; lane++) {
      double weight = weights[row + lane];
      double good = fmc_weight_bad(weight, is_log) ? -FMC_INF : weight;
      bad[lane] += (uint64_t)fmc_weight_bad(weight, is_log);
      top[lane] = good > top[lane] ? good : top[lane];
    }
  }
  for (int lane = 0; lane < FMC_RANGE_LANES; lane++) {
    largest = top[lane] > largest ? top[lane] : largest;
    n_bad += bad[lane];
  }
  *max = largest;
  return (size_t)n_bad;
}

static uint64_t whole_weights(const double *weights, size_t n, const fmc_weight_scale *to, uint64_t *whole) {
  const fmc_weight_scale scale = *to;
  uint64_t sum = 0;
  if (scale.is_log) {
    FMC_SIMD
    for (size_t i = 0; i < n; i++)
      whole[i] = fmc_whole_of_log(weights[i], scale);
  } else {
    FMC_SIMD
    for (size_t i = 0; i < n; i++)
      whole[i] = fmc_whole_of_natural(weights[i], scale);
  }
  for (size_t i = 0; i < n; i++)
    sum += whole[i];
  return sum;
}

static void resample_positions(const fmc_resample_plan *plan, size_t first, size_t n, uint64_t *positions) {
  const fmc_resample_plan local = *plan;
  if (local.method == FMC_SYSTEMATIC) {
    for (size_t j = 0; j < n; j++)
      positions[j] = fmc_stratum_position(&local, first + j, local.common);
    return;
  }
  FMC_SIMD
  for (size_t j = 0; j < n; j++)
    positions[j] = fmc_resample_random(&local, first + j);
  for (size_t j = 0; local.method == FMC_STRATIFIED && j < n; j++)
    positions[j] = fmc_stratum_position(&local, first + j, positions[j]);
}
