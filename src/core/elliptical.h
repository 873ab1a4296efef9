/* Stub, until the leaf is written. */
FMC_FN void T(fmc_leaf_elliptical)(const T(fmc_node) * node, const REAL *x, size_t stride, int n, REAL *out) {
  (void)node;
  (void)x;
  (void)stride;
  for (int i = 0; i < n; i++)
    out[i] = (REAL)FMC_NAN;
}
