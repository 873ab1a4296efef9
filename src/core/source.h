/* Densities whose formula is the user's own C, compiled when it is given. Template over REAL; without REAL, the types
 * alone.
 *
 * A node's `source` is an fmc_source_cpu. Compiled code works on strips as the core does, in the precision of the call,
 * and has the data from `values`, an entry per item. A GPU calls such code from kernels of its own (source_kernels.h):
 * no thread of the others comes here. */
#ifndef FUSEDMC_CORE_SOURCE_H
#define FUSEDMC_CORE_SOURCE_H

#include <stddef.h>
#include <stdint.h>

/* An item of the data: a number, or an array in the type that the code sees. */
typedef struct {
  const void *array;
  double number;
  int integer;
  int n, nrow, ncol;
} fmc_source_value;

typedef void (*fmc_source_function)(const void *values, const void *x, size_t stride, int n, void *out);

typedef struct {
  fmc_source_function function;
  const fmc_source_value *values;
} fmc_source_cpu;

/* Dims up to which compiled code has a kernel for a whole step. */
#define FMC_SOURCE_STEP_DIMS 64

/* A step of n_chains chains on the GPU, with noise from the generator and a step size per dim. Columns of x and x_new
 * are n_chains long; numbers are in the precision of the call. */
typedef struct {
  size_t n_chains;
  const void *x;
  const double *u; /* may be NULL: the generator */
  uint64_t seed, first_chain;
  uint32_t step;
  void *x_new, *log_density, *log_alpha;
  int *accepted;
  union {
    double f64[FMC_SOURCE_STEP_DIMS];
    float f32[FMC_SOURCE_STEP_DIMS];
  } step_size;
} fmc_source_mh_args;

#endif

#ifdef REAL
FMC_FN void T(fmc_leaf_source)(const T(fmc_node) * node, const REAL *x, size_t stride, int n, REAL *out) {
#ifdef __CUDACC__
  (void)node;
  (void)x;
  (void)stride;
  for (int i = 0; i < n; i++)
    out[i] = (REAL)FMC_NAN;
#else
  const fmc_source_cpu *compiled = (const fmc_source_cpu *)node->source;
  compiled->function(compiled->values, x, stride, n, out);
#endif
}
#endif
