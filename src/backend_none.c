/* What stands in for the CUDA backend in a build without it. */
#include <stdio.h>

#include "backend.h"

static const char *const why_not = "this build of fusedmc has no CUDA: it was installed without a CUDA toolkit";

static fmc_status none(fmc_context *context) {
  snprintf(context->message, sizeof context->message, "%s", why_not);
  return FMC_ERROR_CUDA;
}

static fmc_status mh_step(const fmc_mh_step_job *job, fmc_context *context) {
  (void)job;
  return none(context);
}

static fmc_status is_weights(fmc_is_job *job, fmc_context *context) {
  (void)job;
  return none(context);
}

static fmc_status log_density(const fmc_log_density_job *job, fmc_context *context) {
  (void)job;
  return none(context);
}

static fmc_status mh_run(fmc_mh_run_job *job, fmc_context *context) {
  (void)job;
  return none(context);
}

static fmc_status resample(fmc_resample_job *job, fmc_context *context) {
  (void)job;
  return none(context);
}

const fmc_backend fmc_backend_cuda = {"cuda", mh_step, is_weights, log_density, mh_run, resample};

int fmc_cuda_n_devices(char *why, size_t size) {
  snprintf(why, size, "%s", why_not);
  return 0;
}

fmc_status fmc_cuda_device(int device, fmc_device *out, fmc_context *context) {
  (void)device;
  (void)out;
  return none(context);
}

int fmc_cuda_driver_version(void) { return 0; }
int fmc_cuda_toolkit_version(void) { return 0; }

fmc_status fmc_cuda_upload(const double *x, fmc_resident *resident, fmc_context *context) {
  (void)x;
  (void)resident;
  return none(context);
}

fmc_status fmc_cuda_download(const fmc_resident *resident, double *x, fmc_context *context) {
  (void)x;
  (void)resident;
  return none(context);
}

void fmc_cuda_free_resident(fmc_resident *resident) { (void)resident; }

double fmc_cuda_resident_bytes(int device) {
  (void)device;
  return 0;
}

void fmc_cuda_release(void) {}
