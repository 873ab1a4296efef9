/* Summaries of weighted samples, in host memory, for every backend: sums as a list of nodes, and the largest log
 * weights.
 *
 * Tile number t has the samples number FMC_TILE t .. FMC_TILE t + FMC_TILE - 1. A node is a row of core/weighted_sums.h
 * of FMC_SUMMARY_COLUMNS + n_columns numbers: an aligned run of 2^level whole tiles, or a part of one tile. Neighbours
 * are joined where they fill the next larger aligned run; so the same samples make the same nodes however they were
 * cut at borders of tiles. */
#ifndef FUSEDMC_WEIGHTED_H
#define FUSEDMC_WEIGHTED_H

#include "backend.h"
#include "core/weighted_sums.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NULL where there is no memory. */
fmc_is_summary *fmc_is_summary_new(size_t n_columns, size_t n_tail);
/* What that takes at first. */
size_t fmc_is_summary_bytes(size_t n_columns, size_t n_tail);
void fmc_is_summary_free(fmc_is_summary *summary);

/* Numbers of a row. */
size_t fmc_is_summary_width(const fmc_is_summary *summary);

/* The next node, in rising order of tiles: of any level, or a further part of the last tile. Zero where there is no
 * memory. */
int fmc_is_summary_push(fmc_is_summary *summary, const double *row);

size_t fmc_is_summary_n_nodes(const fmc_is_summary *summary);
/* Row after row. */
const double *fmc_is_summary_nodes(const fmc_is_summary *summary);

/* All nodes joined, from the last to the first, into a row; without any, max is -Inf and all else is 0. */
void fmc_is_summary_total(const fmc_is_summary *summary, double *row);

/* Log weights that may belong to the n_tail largest finite ones. Others need not be offered: those at or below the
 * threshold, and infinite or NaN ones, which are passed over. The order does not matter. */
void fmc_is_summary_offer(fmc_is_summary *summary, const double *log_weights, size_t n);
size_t fmc_is_summary_n_tail(const fmc_is_summary *summary);
/* Only larger log weights can belong to the tail: -Inf until n_tail are there, Inf where there is no tail. */
double fmc_is_summary_threshold(fmc_is_summary *summary);
/* The tail, at most n_tail numbers, falling; returns how many. */
size_t fmc_is_summary_tail(fmc_is_summary *summary, double *out);

#ifdef __cplusplus
}
#endif

#endif
