#include "cpu_dispatch.h"
#include "ffi.h"

SEXP ffi_cuda_n_devices(void) {
  char why[256] = "";
  SEXP n = PROTECT(Rf_ScalarInteger(fmc_cuda_n_devices(why, sizeof why)));
  SEXP values[] = {n, PROTECT(Rf_mkString(why)), PROTECT(Rf_ScalarInteger(ffi_default_threads()))};
  static const char *const names[] = {"n", "why", "threads"};
  SEXP list = ffi_list(3, names, values);
  UNPROTECT(3);
  return list;
}

static SEXP version(int code) {
  char text[32];
  snprintf(text, sizeof text, "%d.%d", code / 1000, code % 1000 / 10);
  return code ? Rf_mkString(text) : Rf_ScalarString(NA_STRING);
}

/* list(cuda, toolkit, driver, name, memory, capability, why, simd, threads, resident) */
SEXP ffi_backend_info(void) {
  char why[256] = "", text[32];
  int n = fmc_cuda_n_devices(why, sizeof why);
  SEXP name = PROTECT(Rf_allocVector(STRSXP, n)), memory = PROTECT(Rf_allocVector(REALSXP, n)),
       capability = PROTECT(Rf_allocVector(STRSXP, n)), resident = PROTECT(Rf_allocVector(REALSXP, n));
  for (int i = 0; i < n; i++) {
    fmc_context context = {0};
    fmc_device device = {{0}, 0, 0, 0};
    fmc_status status = fmc_cuda_device(i, &device, &context);
    snprintf(text, sizeof text, "%d.%d", device.major, device.minor);
    SET_STRING_ELT(name, i, status == FMC_OK ? Rf_mkChar(device.name) : NA_STRING);
    REAL(memory)[i] = status == FMC_OK ? device.memory_bytes : NA_REAL;
    SET_STRING_ELT(capability, i, status == FMC_OK ? Rf_mkChar(text) : NA_STRING);
    REAL(resident)[i] = fmc_cuda_resident_bytes(i);
  }
  static const char *const names[] = {"cuda",       "toolkit", "driver", "name",    "memory",
                                      "capability", "why",     "simd",   "threads", "resident"};
  SEXP values[] = {PROTECT(Rf_ScalarLogical(FMC_HAVE_CUDA)),
                   PROTECT(version(fmc_cuda_toolkit_version())),
                   PROTECT(version(fmc_cuda_driver_version())),
                   name,
                   memory,
                   capability,
                   PROTECT(Rf_mkString(why)),
                   PROTECT(Rf_mkString(fmc_cpu_kernels_now()->level)),
                   PROTECT(Rf_ScalarInteger(ffi_default_threads())),
                   resident};
  SEXP list = ffi_list(10, names, values);
  UNPROTECT(10);
  return list;
}

SEXP ffi_cuda_release(void) {
  fmc_cuda_release();
  return R_NilValue;
}
