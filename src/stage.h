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

/* n_draws draws of n_chains x n_dim, one matrix after the other, into an array of doubles: draw k of chain i and dim d
 * goes to to[k + to_draws * (i + to_chains * d)]. */
void fmc_stage_draws(const void *from, size_t n_draws, size_t n_chains, size_t n_dim, double *to, size_t to_draws,
                     size_t to_chains, int single_precision, int n_threads);

#ifdef __cplusplus
}
#endif

#endif
