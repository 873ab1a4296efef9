/* The seam between R's side (ffi_*.c) and what does the work (backend_*.c, backend_cuda.cu).
 *
 * No R headers on this side. A backend returns a status, says why in the context's message, and leaves nothing
 * allocated that the caller would have to free. All matrices are R's: column-major doubles, dim d of chain i at x[d * n
 * + i]. */
#ifndef FUSEDMC_BACKEND_H
#define FUSEDMC_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#include "core/kinds.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  FMC_OK = 0,
  FMC_ERROR_MEMORY,      /* host or device memory ran out; `bytes` were asked for */
  FMC_ERROR_CUDA,        /* no usable GPU, or a CUDA call failed */
  FMC_ERROR_DEVICE,      /* the device ordinal does not exist */
  FMC_ERROR_INTERRUPTED, /* the user asked to stop */
} fmc_status;

/* What a call may use, and where it says what went wrong. */
typedef struct {
  int n_threads;
  double cpu_ns;                   /* what the call would take one CPU thread, to a factor of two or so */
  int device;                      /* GPU ordinal, from 0 */
  int (*interrupted)(void);        /* nonzero: stop; asked between pieces of about 50 ms */
  void (*progress)(size_t n_done); /* told of steps that a run has done; may be NULL */
  void (*reclaim)(void);           /* frees what R no longer needs; called once before memory is given up on */
  char message[512];
  size_t bytes; /* with FMC_ERROR_MEMORY */
} fmc_context;

/* Data of a user's density, under the name that its code uses. */
typedef struct {
  const char *name;
  int is_int, is_scalar;
  size_t n, nrow, ncol;
  const void *values; /* doubles or ints, as R has them */
} fmc_source_item;

/* A user's density, compiled: for the CPU or for the GPU. */
typedef struct {
  const char *key;        /* of the compiled object: densities of the same code share it */
  int in_float;           /* the code computes in float */
  const void *cpu_source; /* what core/source.h takes */
  const void *cubin;
  size_t n_items;
  const fmc_source_item *items;
} fmc_source;

/* A node of a density; core/nodes.h has the same in the precision of a call. */
typedef struct {
  int kind, flags;
  size_t n_dim, count;
  double number[FMC_NODE_NUMBERS];
  const double *array[FMC_NODE_ARRAYS];
  size_t length[FMC_NODE_ARRAYS];
  const fmc_source *source; /* of a user's density alone */
} fmc_node;

/* A density in postfix order; see core/density.h. */
typedef struct {
  size_t n_dim, n_nodes;
  const fmc_node *node;
  int depth; /* values on the stack at most */
} fmc_density;

typedef struct {
  size_t n_chains, n_dim;
  const double *x;         /* n_chains x n_dim */
  const double *step_size; /* n_dim, or the lower Cholesky factor as n_dim rows of n_dim */
  int cholesky;
  const double *noise; /* n_chains x n_dim, or NULL: the generator */
  const double *u;     /* n_chains, or NULL: the generator */
  uint64_t seed, chain_offset;
  uint32_t step;
  int single_precision;
  const fmc_density *target; /* NULL: `given`, or with neither x_new gets the proposals and nothing else is done */
  const double *given_old, *given_new; /* log densities at x and at the proposals */

  double *x_new, *log_density, *log_alpha;
  int *accepted; /* FMC_REJECTED .. FMC_PROPOSAL_NOT_FINITE of core/core.h */
} fmc_mh_step_job;

/* Proposals whose log density is NaN or +Inf: how many, and step and row of the first. */
typedef struct {
  double n;
  uint32_t step;
  size_t row;
} fmc_not_finite;

/* More of these proposals; the first is that of the lowest step, and there of the lowest row. */
static inline void fmc_join_not_finite(fmc_not_finite *to, const fmc_not_finite *other) {
  if (other->n > 0 && (to->n == 0 || other->step < to->step || (other->step == to->step && other->row < to->row))) {
    to->step = other->step;
    to->row = other->row;
  }
  to->n += other->n;
}

/* Many steps of n_chains chains, which are rows of matrices of `stride` rows. A call may end early with
 * FMC_ERROR_INTERRUPTED: everything is then that of n_done steps. */
typedef struct {
  size_t n_chains, n_dim, stride;
  const double *step_size; /* as in a step */
  int cholesky;
  uint64_t seed, chain_offset;
  uint32_t first_step;
  size_t n_steps, thin;   /* every thin-th state is kept */
  size_t n_before, since; /* states kept before this call, and steps since the last of them, fewer than thin */
  int single_precision;
  const fmc_density *target;

  double *x;                 /* n_chains x n_dim: the start, then the last state */
  double *log_density;       /* n_chains: of x */
  double *n_accepted;        /* n_chains: accepted steps are added */
  fmc_not_finite not_finite; /* of this call */

  /* Kept states number store, 2 store, ... (over all calls) are stored: the k-th of this call, from 0, of chain i and
   * dim d at draws[k + n_draws * (i + stride * d)]. NULL: none. */
  double *draws;
  size_t store, n_draws;

  /* Summaries; see core/chain_sums.h. NULL: none. */
  double *sums;        /* FMC_N_SUMS matrices of stride x n_dim */
  const double *shift; /* n_dim */
  double *range;       /* n_dim pairs: smallest and largest kept state so far, over all chains */
  size_t batch;        /* kept states of a batch */

  size_t n_done;
} fmc_mh_run_job;

/* What samples are drawn from, as core/draw_point.h has it: sample number i comes from one of the components
 * group[i mod n_groups] .. group[i mod n_groups + 1] - 1; `cumulative` starts anew in each group. */
typedef struct {
  size_t n_dim, count;
  int full;
  const double *cumulative;    /* count */
  const double *mean, *factor; /* count x n_dim; count x n_dim, or full: count x n_dim (n_dim + 1) / 2 */
  const double *df;            /* count, or NULL where all are normal */
  size_t n_groups;
  const size_t *group; /* n_groups + 1 */
} fmc_drawing;

/* A matrix that stays on a GPU. */
typedef struct fmc_resident {
  size_t n, n_dim;
  int single_precision;
  int device;
  size_t stride, bytes;      /* columns are `stride` numbers apart */
  void *values;              /* NULL: none yet, or freed */
  struct fmc_resident *next; /* the CUDA backend's own */
} fmc_resident;

/* Sums over weighted samples; weighted.h. */
typedef struct fmc_is_summary fmc_is_summary;

/* Samples number offset .. offset + n - 1, weighed and summed. Where neither densities nor log weights are given,
 * draws are made and nothing is summed. */
typedef struct {
  size_t n, n_dim;              /* n_dim is 0 where there are no samples */
  uint64_t seed, offset;        /* offset + n is 2^63 at most */
  const double *samples;        /* n x n_dim, */
  const fmc_resident *resident; /* or on the GPU, */
  const fmc_drawing *drawing;   /* or drawn; or none of the three: log weights alone are summed */
  const fmc_density *target, *proposal;
  const double *given_log_weights; /* n, or NULL: log target - log proposal */
  int single_precision;
  int moments;         /* FMC_MOMENTS_ of core/weighted_sums.h */
  const double *shift; /* n_dim, where there are moments */

  double *draws;           /* what is drawn, n x n_dim, or NULL: not wanted */
  double *log_weights;     /* n, or NULL: not wanted */
  fmc_is_summary *summary; /* takes the sums; with a tail also the largest log weights. NULL: nothing is weighed */
  uint64_t first_bad;      /* number of the first sample whose log weight is NaN or +Inf; FMC_NO_SAMPLE: none */
} fmc_is_job;

#define FMC_NO_SAMPLE UINT64_MAX

typedef struct {
  size_t n, n_dim;
  const double *x;              /* n x n_dim, */
  const fmc_resident *resident; /* or on the GPU */
  const fmc_density *density;
  int single_precision;

  double *log_density; /* n */
} fmc_log_density_job;

/* Numbers, from 1, of n chosen weights; see core/resample.h. */
typedef struct {
  size_t n_weights, n;   /* n = 0: only the sum is wanted */
  const double *weights; /* log weights, or natural ones */
  int is_log, method;
  uint64_t seed, offset; /* offset: number of the first draw */
  uint32_t step;

  /* The weights may be a piece of n_all: the largest of all is then given, what those before them sum to, and the sum
   * of all, 0 where it is not known yet. A draw that falls outside the piece gets 0. Not for residual resampling. */
  int is_piece;
  size_t n_all;
  double max;
  uint64_t base, total;

  int *indices;         /* n, or NULL: */
  double *wide_indices; /* n, for more weights than an int can count */

  size_t n_bad; /* weights that are none: nothing else is done then */
  uint64_t sum; /* of the whole weights; 0: there is nothing to choose */
} fmc_resample_job;

typedef struct {
  char name[256];
  double memory_bytes;
  int major, minor;
} fmc_device;

typedef struct {
  const char *name;
  fmc_status (*mh_step)(const fmc_mh_step_job *job, fmc_context *context);
  fmc_status (*is_weights)(fmc_is_job *job, fmc_context *context);
  fmc_status (*log_density)(const fmc_log_density_job *job, fmc_context *context);
  fmc_status (*mh_run)(fmc_mh_run_job *job, fmc_context *context);
  fmc_status (*resample)(fmc_resample_job *job, fmc_context *context);
} fmc_backend;

extern const fmc_backend fmc_backend_cpu;
extern const fmc_backend fmc_backend_cuda; /* in a build without CUDA every entry says so */

/* Devices there are; 0 with a reason in `why`. Versions as CUDA codes them (13000 is 13.0), 0 where unknown. */
int fmc_cuda_n_devices(char *why, size_t size);
fmc_status fmc_cuda_device(int device, fmc_device *out, fmc_context *context);
int fmc_cuda_driver_version(void);
int fmc_cuda_toolkit_version(void);
/* From an n x n_dim matrix; n, n_dim and single_precision are set. Where it fails nothing is left allocated. */
fmc_status fmc_cuda_upload(const double *x, fmc_resident *resident, fmc_context *context);
fmc_status fmc_cuda_download(const fmc_resident *resident, double *x, fmc_context *context);
/* Once or more often; does nothing in a forked child. */
void fmc_cuda_free_resident(fmc_resident *resident);
/* That such matrices hold. */
double fmc_cuda_resident_bytes(int device);
/* Frees these and what is kept between calls. */
void fmc_cuda_release(void);

#ifdef __cplusplus
}
#endif

#endif
