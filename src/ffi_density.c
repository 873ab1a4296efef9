/* Densities from R: lists of nodes. */
#include <string.h>

#include "core/core.h"
#include "ffi.h"

/* Sum of log sd over dims with Neumaier's compensation: 10,000 terms lose no more than one. */
static double sum_log(const double *sd, size_t n, size_t stride) {
  double sum = 0, lost = 0;
  for (size_t d = 0; d < n; d++) {
    double term = fmc_log(sd[d * stride]), next = sum + term;
    double larger = sum * sum > term * term ? sum : term, smaller = larger == sum ? term : sum;
    lost += (larger - next) + smaller;
    sum = next;
  }
  return sum + lost;
}

/* The arrays of a node of kind mixture, list(log_const, mean, inv_sd), from weights that sum to 1 and means and sds
 * n_components x n_dim, or one number per component for all dims. Components of weight zero are left out. */
SEXP ffi_mixture_arrays(SEXP weights, SEXP means, SEXP sds, SEXP dims) {
  const double half_log_two_pi = 0x1.d67f1c864beb5p-1;
  const double *w = REAL_RO(weights), *m = REAL_RO(means), *s = REAL_RO(sds);
  size_t n_all = (size_t)XLENGTH(weights), n_dim = (size_t)Rf_asReal(dims), n = 0;
  size_t step_mean = (size_t)XLENGTH(means) == n_all ? 0 : n_all, step_sd = (size_t)XLENGTH(sds) == n_all ? 0 : n_all;
  for (size_t k = 0; k < n_all; k++)
    n += w[k] != 0;
  static const char *const names[] = {"log_const", "mean", "inv_sd"};
  SEXP log_const = PROTECT(Rf_allocVector(REALSXP, (R_xlen_t)n));
  SEXP mean = PROTECT(Rf_allocVector(REALSXP, (R_xlen_t)(n * n_dim)));
  SEXP inv_sd = PROTECT(Rf_allocVector(REALSXP, (R_xlen_t)(n * n_dim)));
  size_t at = 0;
  for (size_t k = 0; k < n_all; k++) {
    if (w[k] == 0)
      continue;
    REAL(log_const)[at] = fmc_log(w[k]) - sum_log(s + k, n_dim, step_sd) - (double)n_dim * half_log_two_pi;
    for (size_t d = 0; d < n_dim; d++) {
      REAL(mean)[at * n_dim + d] = m[d * step_mean + k];
      REAL(inv_sd)[at * n_dim + d] = 1 / s[d * step_sd + k];
    }
    at++;
  }
  SEXP values[] = {log_const, mean, inv_sd};
  SEXP list = ffi_list(3, names, values);
  UNPROTECT(3);
  return list;
}

static int kind_of(const char *name) {
#define NAME(name) #name,
  static const char *const names[] = {FMC_LEAVES(NAME) FMC_OPERATORS(NAME)};
#undef NAME
  for (int kind = 0; kind < FMC_N_KINDS; kind++)
    if (!strcmp(names[kind], name))
      return kind;
  Rf_error("a density has a node of unknown kind \"%s\"", name);
}

/* list(kind, count, flags, numbers, arrays, ns, source) */
static void ffi_node(SEXP list, size_t n_dim, int single_precision, fmc_node *node) {
  SEXP numbers = VECTOR_ELT(list, 3), arrays = VECTOR_ELT(list, 4), source = VECTOR_ELT(list, 6);
  memset(node, 0, sizeof *node);
  node->kind = kind_of(CHAR(STRING_ELT(VECTOR_ELT(list, 0), 0)));
  node->n_dim = n_dim;
  node->count = (size_t)Rf_asReal(VECTOR_ELT(list, 1));
  node->flags = Rf_asInteger(VECTOR_ELT(list, 2));
  if (XLENGTH(numbers) > FMC_NODE_NUMBERS || XLENGTH(arrays) > FMC_NODE_ARRAYS)
    Rf_error("a node of a density has too many numbers or arrays");
  for (R_xlen_t i = 0; i < XLENGTH(numbers); i++)
    node->number[i] = REAL_RO(numbers)[i];
  for (R_xlen_t i = 0; i < XLENGTH(arrays); i++) {
    SEXP array = VECTOR_ELT(arrays, i);
    if (Rf_isNull(array))
      continue;
    node->array[i] = REAL_RO(array);
    node->length[i] = (size_t)XLENGTH(array);
  }
  if (!Rf_isNull(source)) {
    fmc_source *compiled = (fmc_source *)R_alloc(1, sizeof *compiled);
    ffi_source(source, single_precision, compiled);
    node->source = compiled;
  }
}

void ffi_density(SEXP nodes, size_t n_dim, int single_precision, fmc_density *density) {
  size_t n = (size_t)XLENGTH(nodes);
  fmc_node *node = (fmc_node *)R_alloc(n, sizeof *node);
  int top = 0;
  density->n_dim = n_dim;
  density->n_nodes = n;
  density->node = node;
  density->depth = 0;
  for (size_t k = 0; k < n; k++) {
    ffi_node(VECTOR_ELT(nodes, (R_xlen_t)k), n_dim, single_precision, node + k);
    top += fmc_is_leaf(node[k].kind) ? 1 : -(node[k].kind == FMC_KIND_product || node[k].kind == FMC_KIND_mix_add);
    density->depth = top > density->depth ? top : density->depth;
  }
  if (density->depth > FMC_MAX_DEPTH)
    Rf_error("a density is nested too deep: %d values at once, %d at most", density->depth, FMC_MAX_DEPTH);
}
