/* Compiled densities: what link_sources() in R hands over, and what it asks. */
#include <stdio.h>
#include <string.h>

#include "core/macros.h"
#include "core/source.h"
#include "cpu_dispatch.h"
#include "ffi.h"
#include "nvrtc.h"

static void ffi_item(SEXP value, const char *name, fmc_source_item *item) {
  SEXP dim = Rf_getAttrib(value, R_DimSymbol);
  item->name = name;
  item->is_int = TYPEOF(value) == INTSXP;
  item->is_scalar = Rf_isNull(dim) && XLENGTH(value) == 1;
  item->n = (size_t)XLENGTH(value);
  item->nrow = Rf_isNull(dim) ? item->n : (size_t)INTEGER_RO(dim)[0];
  item->ncol = Rf_isNull(dim) ? 1 : (size_t)INTEGER_RO(dim)[1];
  item->values = item->is_int ? (const void *)INTEGER_RO(value) : (const void *)REAL_RO(value);
}

/* Doubles as the code sees them: as they are, as floats, or rounded to float and widened. */
static const void *array_for_code(const double *from, size_t n, int single_precision, int in_float) {
  if (!single_precision)
    return from;
  if (in_float) {
    float *to = (float *)R_alloc(n, sizeof *to);
    for (size_t i = 0; i < n; i++)
      to[i] = (float)from[i];
    return to;
  }
  double *to = (double *)R_alloc(n, sizeof *to);
  for (size_t i = 0; i < n; i++)
    to[i] = (float)from[i];
  return to;
}

static fmc_source_value value_for_code(const fmc_source_item *item, int single_precision, int in_float) {
  fmc_source_value value = {NULL, 0, 0, (int)item->n, (int)item->nrow, (int)item->ncol};
  if (item->is_scalar && item->is_int)
    value.integer = *(const int *)item->values;
  else if (item->is_scalar)
    value.number = single_precision ? (float)*(const double *)item->values : *(const double *)item->values;
  else if (item->is_int)
    value.array = item->values;
  else
    value.array = array_for_code((const double *)item->values, item->n, single_precision, in_float);
  return value;
}

/* list(key, in_float, cpu, cubin, items): cpu a native symbol's address or NULL, cubin raw or NULL, items a named list
 * of doubles and integers. Memory is R's, until the call ends. */
void ffi_source(SEXP source, int single_precision, fmc_source *out) {
  SEXP cpu = VECTOR_ELT(source, 2), cubin = VECTOR_ELT(source, 3), items = VECTOR_ELT(source, 4);
  SEXP names = Rf_getAttrib(items, R_NamesSymbol);
  size_t n = (size_t)XLENGTH(items);
  fmc_source_item *item = (fmc_source_item *)R_alloc(n, sizeof *item);
  memset(out, 0, sizeof *out);
  out->key = CHAR(STRING_ELT(VECTOR_ELT(source, 0), 0));
  out->in_float = Rf_asLogical(VECTOR_ELT(source, 1));
  out->n_items = n;
  out->items = item;
  for (size_t i = 0; i < n; i++)
    ffi_item(VECTOR_ELT(items, (R_xlen_t)i), CHAR(STRING_ELT(names, (R_xlen_t)i)), item + i);
  if (!Rf_isNull(cubin))
    out->cubin = RAW_RO(cubin);
  if (!Rf_isNull(cpu)) {
    fmc_source_cpu *compiled = (fmc_source_cpu *)R_alloc(1, sizeof *compiled);
    fmc_source_value *values = (fmc_source_value *)R_alloc(n, sizeof *values);
    for (size_t i = 0; i < n; i++)
      values[i] = value_for_code(item + i, single_precision, out->in_float);
    compiled->function = (fmc_source_function)R_ExternalPtrAddrFn(cpu);
    compiled->values = values;
    out->cpu_source = compiled;
  }
}

/* The CPU build in use. */
SEXP ffi_simd_level(void) { return Rf_mkString(fmc_cpu_kernels_now()->level); }

/* Compute capability of a GPU, such as 90; or why it cannot be told. */
SEXP ffi_device_capability(SEXP device) {
  fmc_context context = {0};
  fmc_device found;
  if (fmc_cuda_device(Rf_asInteger(device), &found, &context) != FMC_OK)
    return Rf_mkString(context.message);
  return Rf_ScalarInteger(10 * found.major + found.minor);
}

/* c(major, minor), or why there is no NVRTC. `where` is the path of its library, or "" to look for it. */
SEXP ffi_nvrtc_version(SEXP where) {
  int version[2];
  char why[1024] = "";
  if (!fmc_nvrtc_version(CHAR(STRING_ELT(where, 0)), version, why, sizeof why))
    return Rf_mkString(why);
  SEXP out = PROTECT(Rf_allocVector(INTSXP, 2));
  INTEGER(out)[0] = version[0];
  INTEGER(out)[1] = version[1];
  UNPROTECT(1);
  return out;
}

static SEXP string_or_empty(const char *text) { return Rf_mkString(text ? text : ""); }

static SEXP nvrtc_list(void *data) {
  static const char *const names[] = {"ok", "log", "code"};
  const fmc_nvrtc_result *result = (const fmc_nvrtc_result *)data;
  SEXP code = R_NilValue;
  if (result->code)
    code = Rf_allocVector(RAWSXP, (R_xlen_t)result->code_bytes);
  PROTECT(code);
  if (result->code)
    memcpy(RAW(code), result->code, result->code_bytes);
  SEXP values[] = {PROTECT(Rf_ScalarLogical(result->code != NULL)),
                   PROTECT(Rf_mkString(result->log ? result->log : "memory ran out")), code};
  SEXP list = ffi_list(3, names, values);
  UNPROTECT(3);
  return list;
}

static void free_nvrtc_result(void *data) { fmc_nvrtc_free((fmc_nvrtc_result *)data); }

/* list(ok, log, code): code is a cubin for the compute capability, or PTX where NVRTC is older than the GPU. */
SEXP ffi_nvrtc_compile(SEXP text, SEXP capability, SEXP include_dir, SEXP where) {
  fmc_nvrtc_result result;
  fmc_nvrtc_compile(CHAR(STRING_ELT(where, 0)), CHAR(STRING_ELT(text, 0)), Rf_asInteger(capability),
                    CHAR(STRING_ELT(include_dir, 0)), &result);
  return R_ExecWithCleanup(nvrtc_list, &result, free_nvrtc_result, &result);
}
