/* The CPU's kernels: one source, built three times (cpu_kernels_*.c) and chosen at load. */
#ifndef FUSEDMC_CPU_KERNELS_H
#define FUSEDMC_CPU_KERNELS_H

#include "backend.h"
#include "core/resample.h"

/* The densities and the drawing of a job in its precision, NULL where it has none: fmc_density_f64 or _f32,
 * fmc_draw_plan_f64 or _f32. */
typedef struct {
  const void *target, *proposal, *drawing;
} fmc_cpu_is_parts;

/* The samples of a call that belong to one tile: n from place `begin` of the tile on, which is row `first` of the
 * call's. Place 0 is sample number `number`. */
typedef struct {
  uint64_t number;
  size_t first, begin, n;
  double *log_weights; /* of each place */
  void *x; /* strips of n_dim columns in the job's precision, where draws are to be summed: place i begins a strip at x
            * + i n_dim. Else NULL. */
} fmc_cpu_tile;

typedef struct {
  const char *level;
  /* One step of chains first .. first + n - 1, n at most FMC_STRIP. `target` is in the job's precision: a
   * fmc_density_f64 or a fmc_density_f32; or NULL, as in the job. */
  void (*mh_strip)(const fmc_mh_step_job *job, const void *target, size_t first, size_t n, void *scratch);
  /* Draws and weighs what is at places from .. to - 1 of a tile, as far as the job says. */
  void (*is_places)(const fmc_is_job *job, const fmc_cpu_is_parts *parts, const fmc_cpu_tile *tile, size_t from,
                    size_t to, void *scratch);
  /* Log densities of points first .. first + n - 1, n at most FMC_STRIP. */
  void (*log_density)(const fmc_log_density_job *job, const void *density, size_t first, size_t n, void *scratch);
  /* Steps from .. to - 1 of the job for chains first .. first + n - 1, n at most FMC_STRIP. Proposals that are not
   * finite are noted in *bad; `range` is extended. */
  void (*run_strip)(const fmc_mh_run_job *job, const void *target, size_t first, size_t n, size_t from, size_t to,
                    fmc_not_finite *bad, double *range, void *scratch);
  /* Sums of a tile whose log weights are there, into a row of core/weighted_sums.h. Returns the place of the first that
   * is NaN or +Inf, FMC_TILE where there is none. */
  size_t (*tile_sums)(const fmc_is_job *job, const fmc_cpu_tile *tile, double *row, void *scratch);
  /* Moves finite log weights above the threshold to `out`; returns how many. */
  size_t (*above)(const double *log_weights, size_t n, double threshold, double *out);
  void (*normalise)(const double *log_weights, size_t n, double max, double sum, double *weights);
  /* The largest of n weights that are none of the bad ones, -Inf where all are; returns the number of bad ones. */
  size_t (*weight_range)(const double *weights, size_t n, int is_log, double *max);
  /* Whole weights of n; returns their sum. */
  uint64_t (*whole_weights)(const double *weights, size_t n, const fmc_weight_scale *to, uint64_t *whole);
  /* Positions of draws first .. first + n - 1. */
  void (*resample_positions)(const fmc_resample_plan *plan, size_t first, size_t n, uint64_t *positions);
  /* For tests. */
  void (*words)(uint64_t seed, uint32_t purpose, uint32_t step, uint32_t block, uint64_t chain, uint32_t out[4]);
  void (*normals)(const uint32_t *words, size_t n, double *out);
  int (*math)(const char *name, int single_precision, const double *x, size_t n, double *out); /* 0: no such function */
} fmc_cpu_kernels;

/* Draws of a run that a thread collects before it stores them: a line of the array at a time. */
#define FMC_WAITING_DRAWS 8

/* Bytes of scratch that a thread needs for the kernels above. */
size_t fmc_cpu_mh_scratch(const fmc_mh_step_job *job);
size_t fmc_cpu_run_scratch(const fmc_mh_run_job *job);
size_t fmc_cpu_is_scratch(const fmc_is_job *job);
size_t fmc_cpu_log_density_scratch(const fmc_log_density_job *job);

extern const fmc_cpu_kernels fmc_cpu_kernels_baseline;
extern const fmc_cpu_kernels fmc_cpu_kernels_avx2;
extern const fmc_cpu_kernels fmc_cpu_kernels_avx512;

#endif
