/* What the calls of the CPU backend share. */
#ifndef FUSEDMC_CPU_CALL_H
#define FUSEDMC_CPU_CALL_H

#include "backend.h"
#include "core/core.h"
#include "core/draw.h"

#include "core/real_f64.h"
#include "core/draw_point.h"
#include "core/real_end.h"

#include "core/real_f32.h"
#include "core/draw_point.h"
#include "core/real_end.h"

fmc_status fmc_cpu_out_of_memory(fmc_context *context, size_t bytes);
fmc_status fmc_cpu_interrupted(fmc_context *context);

/* Threads for work in n_parts. */
int fmc_cpu_threads(size_t n_parts, const fmc_context *context);

/* Parts between two looks for an interrupt, for all threads together, where the call falls into n_parts. */
size_t fmc_cpu_parts_per_look(size_t n_parts, int n_threads, const fmc_context *context);

/* What a thread does, in nanoseconds, between two looks. */
#define FMC_CPU_NS_PER_LOOK 5e7

#define FMC_CPU_LINE 128 /* bytes: a cache line, and the one that processors fetch with it */

/* Each thread's scratch starts on a cache line of its own; vectors that straddle lines cost twice. */
static inline size_t fmc_cpu_padded(size_t bytes) { return (bytes + FMC_CPU_LINE - 1) / FMC_CPU_LINE * FMC_CPU_LINE; }

/* Of memory that has FMC_CPU_LINE bytes to spare. */
static inline char *fmc_cpu_aligned(char *memory) {
  return memory + (FMC_CPU_LINE - (uintptr_t)memory % FMC_CPU_LINE) % FMC_CPU_LINE;
}

/* A density in the job's precision, and the memory that it owns. */
typedef struct {
  union {
    fmc_density_f64 f64;
    fmc_density_f32 f32;
  } as;
  void *owned;
} fmc_cpu_density;

/* Zero where there is no memory. The caller frees `owned`. */
int fmc_cpu_density_new(const fmc_density *density, int single_precision, fmc_cpu_density *out);

/* What is drawn from in the job's precision, and the memory that it owns. */
typedef struct {
  union {
    fmc_draw_plan_f64 f64;
    fmc_draw_plan_f32 f32;
  } as;
  void *owned;
} fmc_cpu_drawing;

/* Zero where there is no memory. The caller frees `owned`. */
int fmc_cpu_drawing_new(const fmc_drawing *drawing, int single_precision, fmc_cpu_drawing *out);

/* Importance weights; in backend_cpu_is.c. */
fmc_status fmc_cpu_is_weights(fmc_is_job *job, fmc_context *context);

/* Many steps; in backend_cpu_run.c. */
fmc_status fmc_cpu_mh_run(fmc_mh_run_job *job, fmc_context *context);

/* In backend_cpu_resample.c. */
fmc_status fmc_cpu_resample(fmc_resample_job *job, fmc_context *context);

#endif
