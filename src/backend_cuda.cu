/* The CUDA backend.
 *
 * A call's rows go through the GPU in chunks: while one chunk is computed, the next is staged into pinned memory and
 * the last is taken back. So device memory is bounded whatever the matrix, and rows never depend on their chunk. Two
 * slots, each with a stream, pinned memory and device memory, are kept from call to call. */
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <float.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend.h"
#include "stage.h"
#include "weighted.h"

#include "core/core.h"
#include "core/draw.h"
#include "core/normal_shared.h"
#include "core/resample.h"

#define FMC_DIM_GROUP 8       /* dims whose sums one block of threads keeps in registers */
#define FMC_REGISTER_DIMS 32  /* dims of a sample that one thread keeps in registers */
#define FMC_FEW_DIMS 16       /* dims of a proposal that one thread keeps in registers */
#define FMC_FEW_THREADS 128   /* threads of a block that does so */
#define FMC_FETCH_BYTES 16    /* of samples, copied at a time by the fused kernel */
#define FMC_FUSED_STATIC 4096 /* bytes of shared memory that it has beside what T(fused_shared_bytes) says, at most */
#define FMC_LARGEST_CHUNK ((size_t)1 << 30) /* samples of a chunk where none travel */

/* The largest of a block's values, for every thread. */
static __device__ double block_max(double value, double *shared) {
  for (int lane = 1; lane < 32; lane *= 2) {
    double other = __shfl_xor_sync(0xffffffffu, value, lane);
    value = other > value ? other : value;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0)
    shared[threadIdx.x / 32] = value;
  __syncthreads();
  for (int warp = 0; warp < FMC_TILE_LANES / 32; warp++)
    value = shared[warp] > value ? shared[warp] : value;
  return value;
}

#include "cuda_memory.h"

#include "cuda_chunks.h"

#include "cuda_resident.h"

#include "cuda_summary.h"

#include "cuda_source.h"

#include "cuda_run_common.h"

#include "cuda_resample.h"

#include "cuda_resample_calls.h"

#define IS_SINGLE (sizeof(REAL) == sizeof(float))
#define FMC_FEW_COMPONENTS (IS_SINGLE ? 24 : 12) /* of target and proposal, in the fused kernel's arguments */

/* What of a density's numbers the fused kernel need not load. */
enum {
  FEW_GENERAL,
  FEW_ALIKE,  /* sds but one of each component, whose dims all have it */
  FEW_CENTRED /* these, and the means of the only component, which are 0 */
};

#include "core/real_f64.h"
#include "core/draw_point.h"
#include "cuda_kernels.h"
#include "cuda_points.h"
#include "cuda_glm.h"
#include "cuda_density.h"
#include "cuda_calls.h"
#include "cuda_draw.h"
#include "cuda_sums.h"
#include "cuda_few.h"
#include "cuda_is_fused.h"
#include "cuda_is.h"
#include "cuda_log_density.h"
#include "cuda_run_log_u.h"
#include "cuda_run.h"
#include "cuda_run_parts.h"
#include "cuda_run_calls.h"
#include "core/real_end.h"

#include "core/real_f32.h"
#include "core/draw_point.h"
#include "cuda_kernels.h"
#include "cuda_points.h"
#include "cuda_glm.h"
#include "cuda_density.h"
#include "cuda_calls.h"
#include "cuda_draw.h"
#include "cuda_sums.h"
#include "cuda_few.h"
#include "cuda_is_fused.h"
#include "cuda_is.h"
#include "cuda_log_density.h"
#include "cuda_run_log_u.h"
#include "cuda_run.h"
#include "cuda_run_parts.h"
#include "cuda_run_calls.h"
#include "core/real_end.h"

/* A call in its precision, between enter() and leave(). */
#define CALL(name, job)                                                                                                \
  do {                                                                                                                 \
    int before;                                                                                                        \
    fmc_status status = enter(context, &before);                                                                       \
    if (status != FMC_OK)                                                                                              \
      return status;                                                                                                   \
    status = (job)->single_precision ? name##_f32(job, context) : name##_f64(job, context);                            \
    leave(before);                                                                                                     \
    return status;                                                                                                     \
  } while (0)

static fmc_status mh_step(const fmc_mh_step_job *job, fmc_context *context) { CALL(mh_step, job); }
static fmc_status is_weights(fmc_is_job *job, fmc_context *context) { CALL(is_weights, job); }
static fmc_status log_density(const fmc_log_density_job *job, fmc_context *context) { CALL(log_density, job); }
static fmc_status mh_run(fmc_mh_run_job *job, fmc_context *context) { CALL(mh_run, job); }

const fmc_backend fmc_backend_cuda = {"cuda", mh_step, is_weights, log_density, mh_run, resample};
