/* What the kernels that evaluate densities work on. Template over REAL; read by backend_cuda.cu alone. */

/* Points to evaluate: n rows of x, and where there is an x_new, n more. Matrices are column-major. Without an x_new
 * there may be fewer points than rows. */
typedef struct {
  size_t n, n_points;
  const REAL *x, *x_new;
} T(points);

/* A density whose arrays lie on the device; the nodes themselves are on the host. */
typedef struct {
  size_t n_nodes;
  int depth;
  const T(fmc_node) * node;
} T(program);

/* Where a program's values lie: levels of n_points each. */
typedef struct {
  REAL *value, *scaled;
  double *partial; /* sums over segments of observations */
} T(stack);

static __device__ __forceinline__ const REAL *T(point)(const T(points) & p, size_t i) {
  return i < p.n ? p.x + i : p.x_new + (i - p.n);
}
