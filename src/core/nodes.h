/* A node of a density. Template over REAL. What numbers, arrays, count and flags mean is the kind's own affair; it is
 * said at the top of the kind's header. */

typedef struct {
  int kind, flags;
  size_t n_dim, count;
  double number[FMC_NODE_NUMBERS];
  const REAL *array[FMC_NODE_ARRAYS]; /* NULL where there is none */
  const void *source;                 /* a compiled density: what source.h says */
} T(fmc_node);
