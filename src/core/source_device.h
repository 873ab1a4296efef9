/* What stands before the user's code where NVRTC compiles it: all that the kernels of source_kernels.h need, so that
 * macros of the user's change none of it. */
#ifndef FUSEDMC_CORE_SOURCE_DEVICE_H
#define FUSEDMC_CORE_SOURCE_DEVICE_H

#include "core.h"
#include "normal_shared.h"
#include "source.h"
#include "user.h"

/* Starts the copy of a number into shared memory; a GPU that cannot copies at once. */
template <class Number> static __device__ __forceinline__ void fmc_copy_async(Number *to, const Number *from) {
#if __CUDA_ARCH__ >= 800
  unsigned at = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(sizeof(Number)) : "memory");
#else
  *to = *from;
#endif
}

static __device__ __forceinline__ void fmc_copy_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Waits for all groups of copies but the last. */
static __device__ __forceinline__ void fmc_copy_wait_but_last() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group 1;" ::: "memory");
#endif
}

#endif
