/* Joining the sums of tiles, in host memory, for every backend. */
#ifndef FUSEDMC_WEIGHTED_H
#define FUSEDMC_WEIGHTED_H

#include "backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The tree of tiles, filled from the left: level l holds the sums of 2^l tiles that wait for their neighbour. */
typedef struct fmc_tile_tree fmc_tile_tree;

/* NULL where there is no memory. */
fmc_tile_tree *fmc_tile_tree_new(size_t n_dim);
void fmc_tile_tree_free(fmc_tile_tree *tree);
/* The next tile's sums. */
void fmc_tile_tree_push(fmc_tile_tree *tree, const fmc_weighted_sums *tile);
/* What has been pushed, joined; without any, max is -Inf and the sums are 0. */
void fmc_tile_tree_total(fmc_tile_tree *tree, fmc_weighted_sums *total);

#ifdef __cplusplus
}
#endif

#endif
