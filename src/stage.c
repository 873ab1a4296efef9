#include "stage.h"

#include <string.h>

/* Numbers a thread copies at a time; a copy this small is not worth a second thread. */
#define PIECE ((size_t)1 << 14)

static void copy_in(const double *from, void *to, size_t offset, size_t n, int single_precision) {
  if (!single_precision) {
    memcpy((double *)to + offset, from, n * sizeof(double));
    return;
  }
  float *floats = (float *)to + offset;
  for (size_t i = 0; i < n; i++)
    floats[i] = (float)from[i];
}

static void copy_out(const void *from, double *to, size_t offset, size_t n, int single_precision) {
  if (!single_precision) {
    memcpy(to, (const double *)from + offset, n * sizeof(double));
    return;
  }
  const float *floats = (const float *)from + offset;
  for (size_t i = 0; i < n; i++)
    to[i] = floats[i];
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Each column falls into pieces; a unit is one piece of one column. */
void fmc_stage_in(const double *matrix, size_t n_rows, size_t n_dim, size_t first, size_t n, void *to,
                  int single_precision, int n_threads) {
  size_t per_column = (n + PIECE - 1) / PIECE, n_units = per_column * n_dim;
#ifdef _OPENMP
#pragma omp parallel for num_threads(n_threads) schedule(static) if (n_threads > 1 && n * n_dim > PIECE)
#endif
  for (size_t unit = 0; unit < n_units; unit++) {
    size_t d = unit / per_column, start = unit % per_column * PIECE, count = smaller(PIECE, n - start);
    copy_in(matrix + d * n_rows + first + start, to, d * n + start, count, single_precision);
  }
}

void fmc_stage_out(const void *from, double *matrix, size_t n_rows, size_t n_dim, size_t first, size_t n,
                   int single_precision, int n_threads) {
  size_t per_column = (n + PIECE - 1) / PIECE, n_units = per_column * n_dim;
#ifdef _OPENMP
#pragma omp parallel for num_threads(n_threads) schedule(static) if (n_threads > 1 && n * n_dim > PIECE)
#endif
  for (size_t unit = 0; unit < n_units; unit++) {
    size_t d = unit / per_column, start = unit % per_column * PIECE, count = smaller(PIECE, n - start);
    copy_out(from, matrix + d * n_rows + first + start, d * n + start, count, single_precision);
  }
}

#define CHAINS_PER_UNIT 64

static void copy_draws(const void *from, size_t n_draws, size_t n_chains, size_t n_dim, size_t d, size_t first,
                       size_t n, double *to, size_t to_draws, size_t to_chains, int single_precision) {
  for (size_t i = first; i < first + n; i++) {
    double *line = to + to_draws * (i + to_chains * d);
    for (size_t k = 0; k < n_draws; k++) {
      size_t at = (k * n_dim + d) * n_chains + i;
      line[k] = single_precision ? (double)((const float *)from)[at] : ((const double *)from)[at];
    }
  }
}

void fmc_stage_draws(const void *from, size_t n_draws, size_t n_chains, size_t n_dim, double *to, size_t to_draws,
                     size_t to_chains, int single_precision, int n_threads) {
  size_t per_column = (n_chains + CHAINS_PER_UNIT - 1) / CHAINS_PER_UNIT, n_units = per_column * n_dim;
#ifdef _OPENMP
#pragma omp parallel for num_threads(n_threads)                                                                        \
    schedule(static) if (n_threads > 1 && n_chains * n_dim * n_draws > PIECE)
#endif
  for (size_t unit = 0; unit < n_units; unit++) {
    size_t first = unit % per_column * CHAINS_PER_UNIT;
    copy_draws(from, n_draws, n_chains, n_dim, unit / per_column, first, smaller(CHAINS_PER_UNIT, n_chains - first), to,
               to_draws, to_chains, single_precision);
  }
}
