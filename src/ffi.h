/* R's side of the seam: these files alone see R's headers and raise R's errors. */
#ifndef FUSEDMC_FFI_H
#define FUSEDMC_FFI_H

#define R_NO_REMAP
#define STRICT_R_HEADERS
#include <R.h>
#include <Rinternals.h>

#include "backend.h"

/* .Call entries */
SEXP ffi_mh_step(SEXP x, SEXP target, SEXP step_size, SEXP noise, SEXP u, SEXP rng, SEXP single, SEXP given, SEXP run);
SEXP ffi_is_weights(SEXP samples, SEXP target, SEXP proposal, SEXP log_weights, SEXP keep, SEXP single, SEXP run);
SEXP ffi_mh_run(SEXP x, SEXP log_density, SEXP targets, SEXP step_size, SEXP plan, SEXP sums, SEXP single,
                SEXP progress, SEXP parts);
SEXP ffi_log_density(SEXP x, SEXP density, SEXP single, SEXP run);
SEXP ffi_to_device(SEXP x, SEXP single, SEXP run);
SEXP ffi_from_device(SEXP pointer, SEXP run);
SEXP ffi_release_matrix(SEXP pointer);
SEXP ffi_on_device(SEXP pointer);
SEXP ffi_mixture_arrays(SEXP weights, SEXP means, SEXP sds, SEXP n_dim);
SEXP ffi_backend_info(void);
SEXP ffi_cuda_n_devices(void);
SEXP ffi_cuda_release(void);
SEXP ffi_set_simd(SEXP level);
SEXP ffi_philox_words(SEXP seed, SEXP purpose, SEXP step, SEXP block, SEXP chain);
SEXP ffi_standard_normal(SEXP words);
SEXP ffi_core_math(SEXP name, SEXP x, SEXP single);
SEXP ffi_lgamma_ratio(SEXP x, SEXP h);

/* `run` is list(backend, device, threads, cpu_ns), checked in R. */
const fmc_backend *ffi_backend(SEXP run);
void ffi_context(SEXP run, fmc_context *context);
/* The matrix on a GPU that an external pointer stands for; NULL where `samples` is none. */
const fmc_resident *ffi_resident(SEXP samples);
/* Threads to use by default: all of OpenMP's, one in a forked child, where OpenMP's are gone. */
int ffi_default_threads(void);
void ffi_remember_process(void);

/* A value that R turns into a classed error: list(status, message) of class fusedmc_failure. */
SEXP ffi_failure(fmc_status status, const fmc_context *context);

/* From a list of nodes as node() in R makes them. Memory is R's, until the call ends. */
void ffi_density(SEXP nodes, size_t n_dim, int single_precision, fmc_density *density);

/* A compiled density from what link_sources() in R made of it. */
void ffi_source(SEXP source, int single_precision, fmc_source *out);

/* The rows of a lower Cholesky factor, one after the other. Memory is R's, until the call ends. */
const double *ffi_factor_rows(const double *factor, size_t n_dim);

/* A named list; values are protected by the caller. */
SEXP ffi_list(int n, const char *const *names, const SEXP *values);

/* Sums and triangular matrices for the constants of densities: ffi_linear.c. */
SEXP ffi_core_sum(SEXP x);
SEXP ffi_core_sum_log(SEXP x);
SEXP ffi_core_cholesky(SEXP matrix);
SEXP ffi_core_inverse_factor(SEXP factor);

/* Draws, weights and their sums: ffi_importance.c. */
SEXP ffi_importance(SEXP size, SEXP samples, SEXP drawing, SEXP target, SEXP proposal, SEXP log_weights, SEXP moments,
                    SEXP keep, SEXP single, SEXP run);
SEXP ffi_join_nodes(SEXP nodes);
SEXP ffi_total_nodes(SEXP nodes);

/* Resampling: ffi_resample.c. */
SEXP ffi_resample(SEXP weights, SEXP is_log, SEXP n, SEXP method, SEXP rng, SEXP piece, SEXP run);

/* Compiled densities: ffi_source.c. */
SEXP ffi_simd_level(void);
SEXP ffi_device_capability(SEXP device);
SEXP ffi_nvrtc_version(SEXP where);
SEXP ffi_nvrtc_compile(SEXP text, SEXP capability, SEXP include_dir, SEXP where);

#endif
