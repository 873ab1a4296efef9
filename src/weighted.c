#include "weighted.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 8 /* nodes */

struct fmc_is_summary {
  size_t width, n_nodes, room;
  double *nodes;

  size_t n_tail, n_offered;
  double threshold;
  double *tail; /* 2 n_tail: all above the threshold that were offered; the largest are kept when it is full */
};

size_t fmc_is_summary_bytes(size_t n_columns, size_t n_tail) {
  return (FIRST_ROOM * (FMC_SUMMARY_COLUMNS + n_columns) + 2 * n_tail) * sizeof(double);
}

fmc_is_summary *fmc_is_summary_new(size_t n_columns, size_t n_tail) {
  fmc_is_summary *summary = calloc(1, sizeof *summary);
  if (!summary)
    return NULL;
  summary->width = FMC_SUMMARY_COLUMNS + n_columns;
  summary->room = FIRST_ROOM;
  summary->n_tail = n_tail;
  summary->threshold = n_tail ? -FMC_INF : FMC_INF;
  summary->nodes = malloc(FIRST_ROOM * summary->width * sizeof(double));
  summary->tail = malloc((n_tail ? 2 * n_tail : 1) * sizeof(double));
  if (!summary->nodes || !summary->tail) {
    fmc_is_summary_free(summary);
    return NULL;
  }
  return summary;
}

void fmc_is_summary_free(fmc_is_summary *summary) {
  if (summary) {
    free(summary->tail);
    free(summary->nodes);
  }
  free(summary);
}

size_t fmc_is_summary_width(const fmc_is_summary *summary) { return summary->width; }
size_t fmc_is_summary_n_nodes(const fmc_is_summary *summary) { return summary->n_nodes; }
const double *fmc_is_summary_nodes(const fmc_is_summary *summary) { return summary->nodes; }

/* later := earlier joined with later, at level 0. */
static void join(const double *earlier, double *later, size_t width) {
  double max = earlier[FMC_SUMMARY_MAX] > later[FMC_SUMMARY_MAX] ? earlier[FMC_SUMMARY_MAX] : later[FMC_SUMMARY_MAX];
  double f = fmc_rescale_factor(earlier[FMC_SUMMARY_MAX], max), g = fmc_rescale_factor(later[FMC_SUMMARY_MAX], max);
  later[FMC_SUMMARY_FIRST] = earlier[FMC_SUMMARY_FIRST];
  later[FMC_SUMMARY_LEVEL] = 0;
  later[FMC_SUMMARY_N] += earlier[FMC_SUMMARY_N];
  later[FMC_SUMMARY_N_BAD] += earlier[FMC_SUMMARY_N_BAD];
  later[FMC_SUMMARY_N_ZERO] += earlier[FMC_SUMMARY_N_ZERO];
  later[FMC_SUMMARY_MAX] = max;
  later[FMC_SUMMARY_SUM] = fmc_joined(earlier[FMC_SUMMARY_SUM], f, later[FMC_SUMMARY_SUM], g);
  later[FMC_SUMMARY_SUM_SQUARES] =
      fmc_joined(earlier[FMC_SUMMARY_SUM_SQUARES], f * f, later[FMC_SUMMARY_SUM_SQUARES], g * g);
  for (size_t c = FMC_SUMMARY_COLUMNS; c < width; c++)
    later[c] = fmc_joined(earlier[c], f, later[c], g);
}

static double n_tiles(const double *node) { return (double)((uint64_t)1 << (int)node[FMC_SUMMARY_LEVEL]); }

static int whole(const double *node) { return node[FMC_SUMMARY_N] == FMC_TILE * n_tiles(node); }

/* Two parts of one tile. */
static int same_tile(const double *a, const double *b) {
  return a[FMC_SUMMARY_LEVEL] == 0 && b[FMC_SUMMARY_LEVEL] == 0 && a[FMC_SUMMARY_FIRST] == b[FMC_SUMMARY_FIRST] &&
         a[FMC_SUMMARY_N] + b[FMC_SUMMARY_N] <= FMC_TILE;
}

/* The two halves of an aligned run of tiles. */
static int siblings(const double *a, const double *b) {
  double n = n_tiles(a);
  return a[FMC_SUMMARY_LEVEL] == b[FMC_SUMMARY_LEVEL] && b[FMC_SUMMARY_FIRST] == a[FMC_SUMMARY_FIRST] + n &&
         (uint64_t)a[FMC_SUMMARY_FIRST] % (2 * (uint64_t)n) == 0 && whole(a) && whole(b);
}

int fmc_is_summary_push(fmc_is_summary *summary, const double *row) {
  size_t width = summary->width;
  if (summary->n_nodes == summary->room) {
    double *more = realloc(summary->nodes, 2 * summary->room * width * sizeof(double));
    if (!more)
      return 0;
    summary->nodes = more;
    summary->room *= 2;
  }
  memcpy(summary->nodes + summary->n_nodes++ * width, row, width * sizeof(double));
  while (summary->n_nodes > 1) {
    double *last = summary->nodes + (summary->n_nodes - 1) * width, *before = last - width;
    int part = same_tile(before, last);
    if (!part && !siblings(before, last))
      break;
    double level = part ? 0 : before[FMC_SUMMARY_LEVEL] + 1;
    join(before, last, width);
    last[FMC_SUMMARY_LEVEL] = level;
    memcpy(before, last, width * sizeof(double));
    summary->n_nodes--;
  }
  return 1;
}

void fmc_is_summary_total(const fmc_is_summary *summary, double *row) {
  size_t width = summary->width, n = summary->n_nodes;
  memset(row, 0, width * sizeof(double));
  row[FMC_SUMMARY_MAX] = -FMC_INF;
  if (n == 0)
    return;
  memcpy(row, summary->nodes + (n - 1) * width, width * sizeof(double));
  for (size_t k = n - 1; k-- > 0;)
    join(summary->nodes + k * width, row, width);
}

/* Moves the `wanted` largest of n numbers to the front (Hoare's selection); none is NaN. */
static void select_largest(double *x, size_t n, size_t wanted) {
  size_t low = 0, high = n - 1;
  while (low < high) {
    double pivot = x[low + (high - low) / 2];
    size_t i = low, j = high;
    for (;;) {
      while (x[i] > pivot)
        i++;
      while (x[j] < pivot)
        j--;
      if (i >= j)
        break;
      double other = x[i];
      x[i++] = x[j];
      x[j--] = other;
    }
    /* x[low .. j] are at least, x[j + 1 .. high] at most the pivot; where i and j met on the pivot, it is x[j] */
    if (wanted <= j)
      high = j;
    else
      low = j + 1;
  }
}

static void keep_largest(fmc_is_summary *summary) {
  if (summary->n_offered <= summary->n_tail)
    return;
  select_largest(summary->tail, summary->n_offered, summary->n_tail);
  summary->n_offered = summary->n_tail;
}

static void raise_threshold(fmc_is_summary *summary) {
  if (summary->n_tail == 0 || summary->n_offered < summary->n_tail)
    return;
  keep_largest(summary);
  double least = FMC_INF;
  for (size_t i = 0; i < summary->n_tail; i++)
    least = summary->tail[i] < least ? summary->tail[i] : least;
  summary->threshold = least;
}

void fmc_is_summary_offer(fmc_is_summary *summary, const double *log_weights, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (!(log_weights[i] > summary->threshold && log_weights[i] < FMC_INF))
      continue;
    summary->tail[summary->n_offered++] = log_weights[i] + 0.0; /* -0 becomes 0: the order of offers leaves no trace */
    if (summary->n_offered == 2 * summary->n_tail)
      raise_threshold(summary);
  }
}

size_t fmc_is_summary_n_tail(const fmc_is_summary *summary) { return summary->n_tail; }

double fmc_is_summary_threshold(fmc_is_summary *summary) {
  raise_threshold(summary);
  return summary->threshold;
}

static int falling(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x < y) - (x > y);
}

size_t fmc_is_summary_tail(fmc_is_summary *summary, double *out) {
  keep_largest(summary);
  memcpy(out, summary->tail, summary->n_offered * sizeof(double));
  qsort(out, summary->n_offered, sizeof(double), falling);
  return summary->n_offered;
}
