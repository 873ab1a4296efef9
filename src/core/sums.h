/* The canonical order of a sum. It depends on the length alone, so every launch shape gives the same bits.
 *
 * Dims come in blocks of four. Block b belongs to lane b mod n_lanes; a lane adds its dims in rising order, starting
 * from zero; the lanes' sums are added as a binary tree of neighbours: (0 + 1) + (2 + 3), ... */
#ifndef FUSEDMC_CORE_SUMS_H
#define FUSEDMC_CORE_SUMS_H

#include "macros.h"

#define FMC_BLOCK 4
#define FMC_MAX_LEVELS 11 /* of the lanes' tree: log2(1024) + 1 */

FMC_FN size_t fmc_n_blocks(size_t n_dim) { return (n_dim + FMC_BLOCK - 1) / FMC_BLOCK; }

/* A power of two: at most a warp's 32 lanes up to 4096 dims, a block's 1024 above. */
FMC_FN size_t fmc_n_lanes(size_t n_dim) {
  size_t most = n_dim <= 4096 ? 32 : 1024, n_lanes = 1;
  while (n_lanes < most && n_lanes * FMC_BLOCK < n_dim)
    n_lanes *= 2;
  return n_lanes;
}

#endif
