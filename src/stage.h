/* Copies between R's matrices and staging memory, by several threads. */
#ifndef FUSEDMC_STAGE_H
#define FUSEDMC_STAGE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Rows first .. first + n - 1 of an n_rows x n_dim matrix of doubles, from or to n x n_dim doubles or floats. */
void fmc_stage_in(const double *matrix, size_t n_rows, size_t n_dim, size_t first, size_t n, void *to,
                  int single_precision, int n_threads);
void fmc_stage_out(const void *from, double *matrix, size_t n_rows, size_t n_dim, size_t first, size_t n,
                   int single_precision, int n_threads);

#ifdef __cplusplus
}
#endif

#endif
