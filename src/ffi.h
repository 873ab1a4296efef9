/* R's side of the seam: these files alone see R's headers and raise R's errors. */
#ifndef FUSEDMC_FFI_H
#define FUSEDMC_FFI_H

#define R_NO_REMAP
#define STRICT_R_HEADERS
#include <R.h>
#include <Rinternals.h>

#include "backend.h"

/* .Call entries */
SEXP ffi_mh_step(SEXP x, SEXP target, SEXP step_size, SEXP noise, SEXP u, SEXP rng, SEXP single, SEXP run);
SEXP ffi_is_weights(SEXP samples, SEXP target, SEXP proposal, SEXP log_weights, SEXP keep, SEXP single, SEXP run);
SEXP ffi_backend_info(void);
SEXP ffi_cuda_n_devices(void);
SEXP ffi_cuda_release(void);
SEXP ffi_set_simd(SEXP level);
SEXP ffi_philox_words(SEXP seed, SEXP purpose, SEXP step, SEXP block, SEXP chain);
SEXP ffi_standard_normal(SEXP words);
SEXP ffi_core_math(SEXP name, SEXP x, SEXP single);

/* `run` is list(backend, device, threads, cpu_ns), checked in R. */
const fmc_backend *ffi_backend(SEXP run);
void ffi_context(SEXP run, fmc_context *context);
/* Threads to use by default: all of OpenMP's, one in a forked child, where OpenMP's are gone. */
int ffi_default_threads(void);
void ffi_remember_process(void);

/* A value that R turns into a classed error: list(status, message) of class fusedmc_failure. */
SEXP ffi_failure(fmc_status status, const fmc_context *context);

/* From list(weights, means, sds): n_components that sum to 1, and matrices n_components x n_dim. Memory is R's, until
 * the call ends. */
void ffi_mixture(SEXP density, size_t n_dim, fmc_mixture *mixture);

/* A named list; values are protected by the caller. */
SEXP ffi_list(int n, const char *const *names, const SEXP *values);

#endif
