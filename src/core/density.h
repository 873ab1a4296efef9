/* Log density of a strip of points. Template over REAL.
 *
 * A density is a program in postfix order on a small stack: leaves push their log density, operators combine what is on
 * top. Most are a single leaf. */

typedef struct {
  size_t n_dim, n_nodes;
  const T(fmc_node) * node;
} T(fmc_density);

#define FMC_LEAF(name)                                                                                                 \
  case FMC_KIND_##name:                                                                                                \
    T(fmc_leaf_##name)(node, x, stride, n, out);                                                                       \
    break;
FMC_FN void T(fmc_leaf)(const T(fmc_node) * node, const REAL *x, size_t stride, int n, REAL *out) {
  switch (node->kind) { FMC_LEAVES(FMC_LEAF) }
}
#undef FMC_LEAF

FMC_FN REAL T(fmc_tempered)(double beta, REAL value) { return beta == 0 ? (REAL)0 : (REAL)beta * value; }

/* An operator at one point: `value` and `scaled` are the stack's entries of that point, a level apart by `level`. */
FMC_FN void T(fmc_operate)(int kind, double number, REAL *value, REAL *scaled, size_t level) {
  switch (kind) {
  case FMC_KIND_temper:
    *value = T(fmc_tempered)(number, *value);
    break;
  case FMC_KIND_product:
    *(value - level) = *(value - level) + *value;
    break;
  case FMC_KIND_mix_first:
    *value = *value + (REAL)number;
    *scaled = 1;
    break;
  case FMC_KIND_mix_add:
    T(fmc_lse_add)(value - level, scaled - level, *value + (REAL)number);
    break;
  default:
    *value = *value + R_LOG(*scaled);
  }
}

/* How far an operator takes the top of the stack down. */
FMC_FN int T(fmc_pops)(int kind) { return kind == FMC_KIND_product || kind == FMC_KIND_mix_add; }

FMC_FN void T(fmc_log_density)(const T(fmc_density) * density, const REAL *x, size_t stride, int n, REAL *out) {
  if (density->n_nodes == 1) {
    T(fmc_leaf)(density->node, x, stride, n, out);
    return;
  }
  REAL value[FMC_MAX_DEPTH][FMC_STRIP], scaled[FMC_MAX_DEPTH][FMC_STRIP];
  int top = -1;
  for (size_t k = 0; k < density->n_nodes; k++) {
    const T(fmc_node) *node = density->node + k;
    if (fmc_is_leaf(node->kind)) {
      T(fmc_leaf)(node, x, stride, n, value[++top]);
      continue;
    }
    for (int i = 0; i < n; i++)
      T(fmc_operate)(node->kind, node->number[0], &value[top][i], &scaled[top][i], FMC_STRIP);
    top -= T(fmc_pops)(node->kind);
  }
  for (int i = 0; i < n; i++)
    out[i] = value[top][i];
}
