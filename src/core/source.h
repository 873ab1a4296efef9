/* Densities whose formula is the user's own C, compiled when it is given. Template over REAL; without REAL, the types
 * alone.
 *
 * A node's `source` is an fmc_source_cpu. Compiled code works on strips as the core does, in the precision of the call,
 * and has the data from `values`, an entry per item. A GPU calls such code from kernels of its own (source_kernels.h):
 * no thread of the others comes here. */
#ifndef FUSEDMC_CORE_SOURCE_H
#define FUSEDMC_CORE_SOURCE_H

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
