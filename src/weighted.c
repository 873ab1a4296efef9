#include "weighted.h"

#include <stdlib.h>
#include <string.h>

#include "core/weighted_sums.h"

#define MAX_LEVELS 64 /* more than 2^63 tiles do not fit any index */

struct fmc_tile_tree {
  size_t n_dim, n_tiles;
  double *sum_x; /* MAX_LEVELS x n_dim */
  fmc_weighted_sums level[MAX_LEVELS];
};

fmc_tile_tree *fmc_tile_tree_new(size_t n_dim) {
  fmc_tile_tree *tree = calloc(1, sizeof *tree);
  if (!tree)
    return NULL;
  tree->n_dim = n_dim;
  tree->sum_x = calloc(MAX_LEVELS * (n_dim ? n_dim : 1), sizeof(double));
  if (!tree->sum_x) {
    free(tree);
    return NULL;
  }
  for (int l = 0; l < MAX_LEVELS; l++)
    tree->level[l].sum_x = tree->sum_x + (size_t)l * n_dim;
  return tree;
}

void fmc_tile_tree_free(fmc_tile_tree *tree) {
  if (tree)
    free(tree->sum_x);
  free(tree);
}

static void copy(fmc_weighted_sums *to, const fmc_weighted_sums *from, size_t n_dim) {
  double *sum_x = to->sum_x;
  *to = *from;
  to->sum_x = sum_x;
  if (n_dim)
    memcpy(sum_x, from->sum_x, n_dim * sizeof(double));
}

/* later := earlier joined with later. */
static void join(const fmc_weighted_sums *earlier, fmc_weighted_sums *later, size_t n_dim) {
  double max = earlier->max > later->max ? earlier->max : later->max;
  double f = fmc_rescale_factor(earlier->max, max), g = fmc_rescale_factor(later->max, max);
  later->max = max;
  later->sum = fmc_rescaled(earlier->sum, f) + fmc_rescaled(later->sum, g);
  later->sum_squares = fmc_rescaled(earlier->sum_squares, f * f) + fmc_rescaled(later->sum_squares, g * g);
  later->n_bad += earlier->n_bad;
  for (size_t d = 0; d < n_dim; d++)
    later->sum_x[d] = fmc_rescaled(earlier->sum_x[d], f) + fmc_rescaled(later->sum_x[d], g);
}

void fmc_tile_tree_push(fmc_tile_tree *tree, const fmc_weighted_sums *tile) {
  int waiting = 0;
  while (tree->n_tiles >> waiting & 1)
    waiting++;
  fmc_weighted_sums *sums = &tree->level[waiting]; /* free now, and where the joined sums will wait */
  copy(sums, tile, tree->n_dim);
  for (int l = 0; l < waiting; l++)
    join(&tree->level[l], sums, tree->n_dim);
  tree->n_tiles++;
}

void fmc_tile_tree_total(fmc_tile_tree *tree, fmc_weighted_sums *total) {
  total->max = -FMC_INF;
  total->sum = total->sum_squares = 0;
  total->n_bad = 0;
  for (size_t d = 0; d < tree->n_dim; d++)
    total->sum_x[d] = 0;
  int first = 1;
  for (int l = 0; l < MAX_LEVELS; l++) {
    if (!(tree->n_tiles >> l & 1))
      continue;
    if (first)
      copy(total, &tree->level[l], tree->n_dim);
    else
      join(&tree->level[l], total, tree->n_dim);
    first = 0;
  }
}
