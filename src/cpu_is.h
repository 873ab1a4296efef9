/* Samples of a tile on the CPU: drawn, weighed, summed. Template over REAL.
 *
 * Place i of a tile is sample number FMC_TILE t + i; a strip is FMC_STRIP places from a multiple of FMC_STRIP on. Draws
 * are made a strip at a time, whole even where the samples of a call begin or end inside it. */

#include "core/draw_point.h"

static inline void T(draw_components)(const T(fmc_draw_plan) * plan, uint64_t seed, uint64_t first,
                                      size_t component[FMC_STRIP]) {
  uint64_t word[FMC_BLOCK][FMC_STRIP];
  int chosen = plan->count > plan->n_groups; /* by uniforms */
  if (plan->count == 1) {
    memset(component, 0, FMC_STRIP * sizeof *component);
    return;
  }
  if (chosen)
    noise_words(seed, FMC_PURPOSE_DRAW, FMC_DRAW_UNIFORMS, FMC_DRAW_COMPONENT_BLOCK, first, word);
  for (size_t i = 0; i < FMC_STRIP; i++) {
    size_t g = plan->n_groups == 1 ? 0 : (first + i) % plan->n_groups, k = plan->group[g];
    double u = chosen ? fmc_draw_uniform((uint32_t)word[0][i], (uint32_t)word[1][i]) : 0;
    component[i] = k + fmc_draw_component_at(plan->cumulative + k, plan->group[g + 1] - k, u);
  }
}

static inline void T(draw_stretches)(const T(fmc_draw_plan) * plan, uint64_t seed, uint64_t first,
                                     const size_t component[FMC_STRIP], REAL stretch[FMC_STRIP]) {
  double df[FMC_STRIP], wide[FMC_STRIP];
  for (int i = 0; i < FMC_STRIP; i++) {
    df[i] = plan->df ? plan->df[component[i]] : FMC_INF;
    wide[i] = 1;
  }
  if (plan->df)
    draw_stretches(df, seed, first, wide);
  for (int i = 0; i < FMC_STRIP; i++)
    stretch[i] = (REAL)wide[i];
}

/* fmc_draw_place() for samples of one component. */
static inline void T(draw_place_alike)(const T(fmc_draw_plan) * plan, const REAL stretch[FMC_STRIP], REAL *x) {
  for (size_t i = plan->n_dim; i-- > 0;) {
    const REAL *row = plan->full ? plan->factor + i * (i + 1) / 2 : plan->factor + i,
               *z = plan->full ? x : x + i * FMC_STRIP;
    REAL mean = plan->mean[i], move[FMC_STRIP], *out = x + i * FMC_STRIP;
    FMC_SIMD
    for (int k = 0; k < FMC_STRIP; k++)
      move[k] = row[0] * z[k];
    for (size_t j = 1; plan->full && j <= i; j++) {
      REAL factor = row[j];
      const REAL *zj = x + j * FMC_STRIP;
      FMC_SIMD
      for (int k = 0; k < FMC_STRIP; k++)
        move[k] = move[k] + factor * zj[k];
    }
    FMC_SIMD
    for (int k = 0; k < FMC_STRIP; k++)
      out[k] = mean + move[k] * stretch[k];
  }
}

/* The same for independent dims of any components. */
static inline void T(draw_place_apart)(const T(fmc_draw_plan) * plan, const size_t component[FMC_STRIP],
                                       const REAL stretch[FMC_STRIP], REAL *x) {
  size_t at[FMC_STRIP];
  for (int i = 0; i < FMC_STRIP; i++)
    at[i] = component[i] * plan->n_dim;
  for (size_t d = 0; d < plan->n_dim; d++) {
    const REAL *mean = plan->mean + d, *sd = plan->factor + d;
    REAL *out = x + d * FMC_STRIP;
    FMC_SIMD
    for (int i = 0; i < FMC_STRIP; i++)
      out[i] = mean[at[i]] + sd[at[i]] * out[i] * stretch[i];
  }
}

/* Draws number `first` to first + FMC_STRIP - 1; dim d of draw i at x[d * FMC_STRIP + i]. */
static void T(draw_samples)(const T(fmc_draw_plan) * plan, uint64_t seed, uint64_t first, REAL *x) {
  size_t component[FMC_STRIP];
  REAL stretch[FMC_STRIP];
  float z[FMC_BLOCK][FMC_STRIP];
  for (size_t d = 0; d < plan->n_dim; d++) {
    if (d % FMC_BLOCK == 0)
      draw_normals(seed, FMC_DRAW_NORMALS, (uint32_t)(d / FMC_BLOCK), first, z);
    FMC_SIMD
    for (int i = 0; i < FMC_STRIP; i++)
      x[d * FMC_STRIP + (size_t)i] = z[d % FMC_BLOCK][i];
  }
  T(draw_components)(plan, seed, first, component);
  T(draw_stretches)(plan, seed, first, component, stretch);
  if (plan->count == 1)
    T(draw_place_alike)(plan, stretch, x);
  else if (!plan->full)
    T(draw_place_apart)(plan, component, stretch, x);
  else
    for (int i = 0; i < FMC_STRIP; i++)
      T(fmc_draw_place)(plan, component[i], stretch[i], x + i, FMC_STRIP);
}

/* Draws and weighs samples at places from .. to - 1 of a tile. */
static void T(is_places)(const fmc_is_job *job, const fmc_cpu_is_parts *parts, const fmc_cpu_tile *tile, size_t from,
                         size_t to, void *scratch) {
  REAL log_p[FMC_STRIP], log_q[FMC_STRIP];
  for (size_t start = from / FMC_STRIP * FMC_STRIP; start < to; start += FMC_STRIP) {
    size_t low = start < from ? from : start, high = start + FMC_STRIP < to ? start + FMC_STRIP : to;
    size_t row = tile->first + (low - tile->begin), n = high - low, lane = job->drawing ? low - start : 0;
    REAL *x = tile->x ? (REAL *)tile->x + start * job->n_dim : (REAL *)scratch;
    if (job->drawing)
      T(draw_samples)((const T(fmc_draw_plan) *)parts->drawing, job->seed, tile->number + start, x);
    else if (job->target)
      T(gather)(job->samples, job->n, job->n_dim, row, n, x);
    for (size_t d = 0; job->draws && d < job->n_dim; d++)
      for (size_t i = 0; i < n; i++)
        job->draws[d * job->n + row + i] = x[d * FMC_STRIP + lane + i];
    if (!job->target)
      continue;
    T(log_density_strip)(parts->target, x, log_p);
    T(log_density_strip)(parts->proposal, x, log_q);
    for (size_t i = 0; i < n; i++)
      tile->log_weights[low + i] = log_p[lane + i] - log_q[lane + i];
  }
}

/* Dim d of the samples from place `low` on, up to the end of its strip: REALs where they are drawn, else doubles. */
static inline const void *T(column)(const fmc_is_job *job, const fmc_cpu_tile *tile, size_t d, size_t low) {
  size_t lane = low % FMC_STRIP;
  if (job->drawing)
    return (const REAL *)tile->x + (low - lane) * job->n_dim + d * FMC_STRIP + lane;
  return job->samples + d * job->n + tile->first + (low - tile->begin);
}

FMC_FN double T(number)(const void *column, int drawn, size_t i) {
  return drawn ? (double)((const REAL *)column)[i] : (double)(REAL)((const double *)column)[i];
}

#define COLUMN_GROUP 8 /* columns whose lanes stay in the cache while a tile's strips go by */

/* Which dims a column is of: w x_i, or w times the second moment of i and j. */
typedef struct {
  size_t i, j;
  int moment;
} T(column_of);

static T(column_of) T(column_at)(const fmc_is_job *job, size_t c) {
  T(column_of) of = {c, c, c >= job->n_dim};
  if (!of.moment)
    return of;
  of.i = of.j = c - job->n_dim;
  if (job->moments == FMC_MOMENTS_PRODUCTS) { /* packed rows: row i begins at i (i + 1) / 2 */
    size_t m = of.i;
    for (of.i = 0; m > of.i; of.i++)
      m -= of.i + 1;
    of.j = m;
  }
  return of;
}

/* What is added to the lanes of a column, for samples of a strip that lie one after the other. */
typedef struct {
  const double *w, *scale;
  const void *x, *y;
  double shift_x, shift_y, *lanes;
} T(terms);

/* Loops with constants for the last three arguments need no counting and no choice. */
FMC_FN void T(add_terms)(const T(terms) * a, size_t n, int moment, int drawn) {
  FMC_SIMD
  for (size_t i = 0; i < n; i++) {
    double x = T(number)(a->x, drawn, i);
    x = moment ? fmc_moment(x, a->shift_x, T(number)(a->y, drawn, i), a->shift_y) : x;
    a->lanes[i] = fmc_weighted_add(a->lanes[i], a->scale[i], a->w[i], x);
  }
}

static void T(add_strip)(const T(terms) * terms, size_t n, int moment, int drawn) {
  if (n < FMC_STRIP)
    T(add_terms)(terms, n, moment, drawn);
  else if (drawn && moment)
    T(add_terms)(terms, FMC_STRIP, 1, 1);
  else if (drawn)
    T(add_terms)(terms, FMC_STRIP, 0, 1);
  else if (moment)
    T(add_terms)(terms, FMC_STRIP, 1, 0);
  else
    T(add_terms)(terms, FMC_STRIP, 0, 0);
}

/* Sums of a group of columns over a tile. */
static void T(column_sums)(const fmc_is_job *job, const fmc_cpu_tile *tile, const tile_weights *weights,
                           const T(column_of) * of, size_t n_columns, double *out) {
  double lanes[COLUMN_GROUP][FMC_TILE_LANES];
  size_t end = tile->begin + tile->n;
  memset(lanes, 0, sizeof lanes);
  for (size_t low = tile->begin, n; low < end; low += n) {
    n = FMC_STRIP - low % FMC_STRIP < end - low ? FMC_STRIP - low % FMC_STRIP : end - low;
    for (size_t c = 0; c < n_columns; c++) {
      T(terms)
      terms = {.w = weights->w + low,
               .scale = weights->scale + low,
               .x = T(column)(job, tile, of[c].i, low),
               .lanes = lanes[c] + low % FMC_TILE_LANES};
      if (of[c].moment) {
        terms.y = T(column)(job, tile, of[c].j, low);
        terms.shift_x = job->shift[of[c].i];
        terms.shift_y = job->shift[of[c].j];
      }
      T(add_strip)(&terms, n, of[c].moment, job->drawing != NULL);
    }
  }
  for (size_t c = 0; c < n_columns; c++)
    out[c] = joined_lanes(lanes[c], weights->factor);
}

/* Sums of a tile whose log weights are there, into a row; returns the place of the first bad log weight, FMC_TILE where
 * there is none. */
static size_t T(tile_sums)(const fmc_is_job *job, const fmc_cpu_tile *tile, double *row, void *scratch) {
  tile_weights *weights = (tile_weights *)scratch;
  size_t n_columns = job->n_dim + fmc_n_moments(job->n_dim, job->moments), bad = count_log_weights(tile, row);
  weigh_tile(tile, weights, row);
  for (size_t first = 0; first < n_columns; first += COLUMN_GROUP) {
    T(column_of) of[COLUMN_GROUP];
    size_t n = n_columns - first < COLUMN_GROUP ? n_columns - first : COLUMN_GROUP;
    for (size_t c = 0; c < n; c++)
      of[c] = T(column_at)(job, first + c);
    T(column_sums)(job, tile, weights, of, n, row + FMC_SUMMARY_COLUMNS + first);
  }
  return bad;
}
