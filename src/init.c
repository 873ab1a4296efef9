#include <R_ext/Rdynload.h>
#include <R_ext/Visibility.h>

#include "ffi.h"

#define ENTRY(name, n_args)                                                                                            \
  { #name, (DL_FUNC)&name, n_args }

static const R_CallMethodDef entries[] = {
    ENTRY(ffi_mh_step, 9),        ENTRY(ffi_is_weights, 7),      ENTRY(ffi_backend_info, 0),
    ENTRY(ffi_cuda_n_devices, 0), ENTRY(ffi_cuda_release, 0),    ENTRY(ffi_set_simd, 1),
    ENTRY(ffi_philox_words, 5),   ENTRY(ffi_standard_normal, 1), ENTRY(ffi_core_math, 3),
    ENTRY(ffi_lgamma_ratio, 2),   ENTRY(ffi_mh_run, 9),          ENTRY(ffi_log_density, 4),
    ENTRY(ffi_to_device, 3),      ENTRY(ffi_from_device, 2),     ENTRY(ffi_release_matrix, 1),
    ENTRY(ffi_on_device, 1),      ENTRY(ffi_mixture_arrays, 4),  ENTRY(ffi_core_sum, 1),
    ENTRY(ffi_core_sum_log, 1),   ENTRY(ffi_core_cholesky, 1),   ENTRY(ffi_core_inverse_factor, 1),
    ENTRY(ffi_resample, 7),       ENTRY(ffi_importance, 10),     ENTRY(ffi_join_nodes, 1),
    ENTRY(ffi_total_nodes, 1),    ENTRY(ffi_simd_level, 0),      ENTRY(ffi_device_capability, 1),
    ENTRY(ffi_nvrtc_version, 1),  ENTRY(ffi_nvrtc_compile, 4),   {NULL, NULL, 0},
};

void attribute_visible R_init_fusedmc(DllInfo *dll) {
  R_registerRoutines(dll, NULL, entries, NULL, NULL);
  R_useDynamicSymbols(dll, FALSE);
  R_forceSymbols(dll, TRUE);
  ffi_remember_process();
}
