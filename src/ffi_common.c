#include <string.h>
#include <unistd.h>

#include "core/core.h"
#include "ffi.h"

#ifdef _OPENMP
#include <omp.h>
#endif

/* Work that is worth a thread: waking one costs up to a fifth of it, and on a busy machine more. */
#define NS_PER_THREAD 5e5

static pid_t process = 0;

void ffi_remember_process(void) { process = getpid(); }

int ffi_default_threads(void) {
#ifdef _OPENMP
  return getpid() == process ? omp_get_max_threads() : 1;
#else
  return 1;
#endif
}

static void check_interrupt(void *unused) {
  (void)unused;
  R_CheckUserInterrupt();
}

/* R_CheckUserInterrupt jumps; under R_ToplevelExec the jump ends here. */
static int interrupted(void) { return !R_ToplevelExec(check_interrupt, NULL); }

const fmc_backend *ffi_backend(SEXP run) {
  const char *name = CHAR(STRING_ELT(VECTOR_ELT(run, 0), 0));
  return strcmp(name, "cuda") ? &fmc_backend_cpu : &fmc_backend_cuda;
}

void ffi_context(SEXP run, fmc_context *context) {
  memset(context, 0, sizeof *context);
  context->device = Rf_asInteger(VECTOR_ELT(run, 1));
  context->n_threads = ffi_default_threads();
  int wanted = Rf_asInteger(VECTOR_ELT(run, 2));
  if (wanted != NA_INTEGER && wanted < context->n_threads)
    context->n_threads = wanted;
  context->cpu_ns = Rf_asReal(VECTOR_ELT(run, 3));
  if (context->cpu_ns < NS_PER_THREAD * context->n_threads)
    context->n_threads = context->cpu_ns < 2 * NS_PER_THREAD ? 1 : (int)(context->cpu_ns / NS_PER_THREAD);
  context->interrupted = interrupted;
  context->reclaim = R_gc;
}

SEXP ffi_list(int n, const char *const *names, const SEXP *values) {
  SEXP list = PROTECT(Rf_allocVector(VECSXP, n)), list_names = PROTECT(Rf_allocVector(STRSXP, n));
  for (int i = 0; i < n; i++) {
    SET_VECTOR_ELT(list, i, values[i]);
    SET_STRING_ELT(list_names, i, Rf_mkChar(names[i]));
  }
  Rf_setAttrib(list, R_NamesSymbol, list_names);
  UNPROTECT(2);
  return list;
}

SEXP ffi_failure(fmc_status status, const fmc_context *context) {
  const char *kind = status == FMC_ERROR_MEMORY        ? "memory"
                     : status == FMC_ERROR_DEVICE      ? "device"
                     : status == FMC_ERROR_INTERRUPTED ? "interrupted"
                                                       : "cuda";
  static const char *const names[] = {"status", "message", "bytes"};
  SEXP values[] = {PROTECT(Rf_mkString(kind)), PROTECT(Rf_mkString(context->message)),
                   PROTECT(Rf_ScalarReal((double)context->bytes))};
  SEXP failure = PROTECT(ffi_list(3, names, values));
  Rf_setAttrib(failure, R_ClassSymbol, PROTECT(Rf_mkString("fusedmc_failure")));
  UNPROTECT(5);
  return failure;
}
