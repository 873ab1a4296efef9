/* Runs the CPU backend without R, for the address and undefined-behaviour sanitizers. Every buffer is a malloc of its
 * exact size, so that one number read or written past an end is seen. Along the way it compares the SIMD builds and
 * thread counts bit for bit. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "core/core.h"
#include "core/resample.h"
#include "cpu_dispatch.h"
#include "weighted.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const levels[] = {"baseline", "avx2", "avx512"};
static long n_compared = 0, n_different = 0;

static void *allocate(size_t count, size_t size) {
  void *memory = malloc(count * size);
  if (!memory && count > 0) {
    fprintf(stderr, "out of memory\n");
    exit(2);
  }
  return memory;
}

static double *doubles(size_t n) { return allocate(n, sizeof(double)); }

/* FNV-1a over the bytes of a result. */
static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n) {
  for (size_t i = 0; i < n; i++)
    hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
  return hash;
}

/* NaN payloads are no part of the contract. */
static uint64_t hash_doubles(uint64_t hash, const double *x, size_t n) {
  for (size_t i = 0; i < n; i++) {
    double value = x[i] == x[i] ? x[i] : FMC_NAN;
    hash = hash_bytes(hash, &value, sizeof value);
  }
  return hash;
}

static void compare(uint64_t got, uint64_t expected, const char *what, const char *level, int n_threads, size_t n,
                    size_t n_dim) {
  n_compared++;
  if (got == expected)
    return;
  n_different++;
  printf("%s differs: level %s, %d threads, %zu x %zu\n", what, level, n_threads, n, n_dim);
}

static double from_words(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return ((double)(*state >> 12) + 0.5) * 0x1p-52;
}

static double *uniforms(size_t n, uint64_t seed, double from, double to) {
  double *x = doubles(n);
  for (size_t i = 0; i < n; i++)
    x[i] = from + (to - from) * from_words(&seed);
  return x;
}

/* Values at which arithmetic goes wrong first, scattered over what is there. */
static void scatter_extremes(double *x, size_t n) {
  const double extremes[] = {0.0,    -0.0, 0x1p-1074, -0x1p-1022, 1e-300,   1e300,
                             -1e300, 1e38, -1e39,     FMC_INF,    -FMC_INF, FMC_NAN};
  for (size_t i = 0; i < n; i += 5)
    x[i] = extremes[i / 5 % COUNT(extremes)];
}

/* A density and the memory it owns. */
typedef struct {
  fmc_density density;
  fmc_node node;
  double *array[FMC_NODE_ARRAYS];
} owned_density;

static void add_array(owned_density *owned, int a, size_t n, double from, double to) {
  owned->array[a] = uniforms(n, (uint64_t)a + 1, from, to);
  owned->node.array[a] = owned->array[a];
  owned->node.length[a] = n;
}

static owned_density *density_new(int kind, size_t n_dim, size_t count) {
  owned_density *owned = allocate(1, sizeof *owned);
  memset(owned, 0, sizeof *owned);
  owned->node.kind = kind;
  owned->node.n_dim = n_dim;
  owned->node.count = count;
  owned->density = (fmc_density){n_dim, 1, &owned->node, 1};
  return owned;
}

static owned_density *mixture_new(size_t n_dim, size_t n_components) {
  owned_density *owned = density_new(FMC_KIND_mixture, n_dim, n_components);
  add_array(owned, 0, n_components, -3, 0);
  add_array(owned, 1, n_components * n_dim, -2, 2);
  add_array(owned, 2, n_components * n_dim, 0.2, 3);
  return owned;
}

/* Student t components of full scale matrices. */
static owned_density *elliptical_new(size_t n_dim, size_t n_components) {
  owned_density *owned = density_new(FMC_KIND_elliptical, n_dim, n_components);
  owned->node.flags = FMC_ELLIPTICAL_FULL;
  add_array(owned, 0, n_components, -3, 0);
  add_array(owned, 1, n_components * n_dim, -2, 2);
  add_array(owned, 2, n_components * n_dim * (n_dim + 1) / 2, 0.1, 1);
  add_array(owned, 3, n_components, 0.5, 9);
  return owned;
}

/* A regression of n_obs observations. */
static owned_density *glm_new(size_t n_dim, size_t n_obs) {
  owned_density *owned = density_new(FMC_KIND_glm, n_dim, n_obs);
  static const int flags[] = {FMC_GLM_LOGIT_UNIT, FMC_GLM_LOGIT_WEIGHTED, FMC_GLM_POISSON | FMC_GLM_T_PRIOR,
                              FMC_GLM_GAUSSIAN};
  owned->node.flags = flags[n_obs % COUNT(flags)];
  owned->node.number[FMC_GLM_PRIOR_DF] = 3;
  add_array(owned, FMC_GLM_X, n_obs * n_dim, -1, 1);
  add_array(owned, FMC_GLM_Y, n_obs, 0, 3);
  add_array(owned, FMC_GLM_W, n_obs, 0.5, 2);
  add_array(owned, FMC_GLM_OFFSET, n_obs, -1, 1);
  add_array(owned, FMC_GLM_PRIOR_MEAN, n_dim, -1, 1);
  add_array(owned, FMC_GLM_PRIOR_INV_SD, n_dim, 0.1, 1);
  return owned;
}

static void density_free(owned_density *owned) {
  for (int a = 0; a < FMC_NODE_ARRAYS; a++)
    free(owned->array[a]);
  free(owned);
}

static int never(void) { return 0; }
static void nothing(void) {}

static fmc_context context_new(int n_threads) {
  fmc_context context = {.n_threads = n_threads, .interrupted = never, .reclaim = nothing};
  return context;
}

static void must_be_ok(fmc_status status, const fmc_context *context) {
  if (status != FMC_OK) {
    fprintf(stderr, "status %d: %s\n", (int)status, context->message);
    exit(2);
  }
}

enum { GIVEN = 1, CHOLESKY = 2, SINGLE = 4, EXTREME = 8, N_MH_CASES = 16 };

static uint64_t mh_once(const fmc_mh_step_job *given, int n_threads) {
  fmc_mh_step_job job = *given;
  size_t n_x = job.n_chains * job.n_dim;
  fmc_context context = context_new(n_threads);
  job.x_new = doubles(n_x);
  job.log_density = doubles(job.n_chains);
  job.log_alpha = doubles(job.n_chains);
  job.accepted = allocate(job.n_chains, sizeof(int));
  must_be_ok(fmc_backend_cpu.mh_step(&job, &context), &context);
  uint64_t hash = hash_doubles(0xcbf29ce484222325u, job.x_new, n_x);
  hash = hash_doubles(hash, job.log_density, job.n_chains);
  hash = hash_doubles(hash, job.log_alpha, job.n_chains);
  hash = hash_bytes(hash, job.accepted, job.n_chains * sizeof(int));
  free(job.x_new);
  free(job.log_density);
  free(job.log_alpha);
  free(job.accepted);
  return hash;
}

static void mh_case(size_t n_chains, size_t n_dim, size_t n_components, int flags) {
  owned_density *target = mixture_new(n_dim, n_components);
  double *x = uniforms(n_chains * n_dim, 4, -3, 3);
  double *step_size = uniforms(flags & CHOLESKY ? n_dim * n_dim : n_dim, 5, 0, 1);
  double *noise = flags & GIVEN ? uniforms(n_chains * n_dim, 6, -4, 4) : NULL;
  double *u = flags & GIVEN ? uniforms(n_chains, 7, 0, 1) : NULL;
  if (flags & EXTREME)
    scatter_extremes(x, n_chains * n_dim);
  if (noise && flags & EXTREME)
    scatter_extremes(noise, n_chains * n_dim);
  fmc_mh_step_job job = {.n_chains = n_chains,
                         .n_dim = n_dim,
                         .x = x,
                         .step_size = step_size,
                         .cholesky = (flags & CHOLESKY) != 0,
                         .noise = noise,
                         .u = u,
                         .seed = 42,
                         .chain_offset = flags & EXTREME ? UINT64_MAX - 3 : 0,
                         .step = flags & EXTREME ? UINT32_MAX : 3,
                         .single_precision = (flags & SINGLE) != 0,
                         .target = &target->density};
  fmc_cpu_use("baseline");
  uint64_t expected = mh_once(&job, 1);
  for (size_t l = 0; l < COUNT(levels); l++)
    if (fmc_cpu_use(levels[l]))
      for (int n_threads = 1; n_threads <= 3; n_threads++)
        compare(mh_once(&job, n_threads), expected, "mh_step", levels[l], n_threads, n_chains, n_dim);
  free(x);
  free(step_size);
  free(noise);
  free(u);
  density_free(target);
}

/* GIVEN: log weights; SINGLE and EXTREME as above. */
enum { NO_SAMPLES = 2, NOT_KEPT = 16, N_IS_CASES = 32 };

static uint64_t is_once(const fmc_is_job *given, int keep, int n_threads) {
  fmc_is_job job = *given;
  fmc_context context = context_new(n_threads);
  double *total = doubles(FMC_SUMMARY_COLUMNS + job.n_dim);
  job.summary = fmc_is_summary_new(job.n_dim, 0);
  job.log_weights = keep ? doubles(job.n) : NULL;
  must_be_ok(fmc_backend_cpu.is_weights(&job, &context), &context);
  fmc_is_summary_total(job.summary, total);
  uint64_t hash = hash_doubles(0xcbf29ce484222325u, total, FMC_SUMMARY_COLUMNS + job.n_dim);
  if (keep) {
    double *weights = doubles(job.n);
    fmc_cpu_normalise(job.log_weights, job.n, total[FMC_SUMMARY_MAX], total[FMC_SUMMARY_SUM], weights, n_threads);
    hash = hash_doubles(hash, job.log_weights, job.n);
    hash = hash_doubles(hash, weights, job.n);
    free(weights);
  }
  free(job.log_weights);
  fmc_is_summary_free(job.summary);
  free(total);
  return hash;
}

static void is_case(size_t n, size_t n_dim, size_t n_components, int flags) {
  int from_densities = !(flags & GIVEN);
  if (from_densities && flags & NO_SAMPLES)
    return;
  owned_density *target = mixture_new(n_dim, n_components), *proposal = mixture_new(n_dim, 1);
  double *samples = flags & NO_SAMPLES ? NULL : uniforms(n * n_dim, 8, -5, 5);
  double *log_weights = from_densities ? NULL : uniforms(n, 9, -900, 900);
  if (flags & EXTREME && samples)
    scatter_extremes(samples, n * n_dim);
  if (flags & EXTREME && log_weights)
    scatter_extremes(log_weights, n);
  fmc_is_job job = {.n = n,
                    .n_dim = samples ? n_dim : 0,
                    .samples = samples,
                    .target = from_densities ? &target->density : NULL,
                    .proposal = from_densities ? &proposal->density : NULL,
                    .given_log_weights = log_weights,
                    .single_precision = (flags & SINGLE) != 0};
  int keep = !(flags & NOT_KEPT);
  fmc_cpu_use("baseline");
  uint64_t expected = is_once(&job, keep, 1);
  for (size_t l = 0; l < COUNT(levels); l++)
    if (fmc_cpu_use(levels[l]))
      for (int n_threads = 1; n_threads <= 3; n_threads++)
        compare(is_once(&job, keep, n_threads), expected, "is_weights", levels[l], n_threads, n, n_dim);
  free(samples);
  free(log_weights);
  density_free(target);
  density_free(proposal);
}

/* Log densities of any density, and a run towards it. */
static uint64_t density_once(const fmc_density *density, const double *x, size_t n, int single_precision,
                             int n_threads) {
  size_t n_dim = density->n_dim, n_all = n * n_dim;
  fmc_context context = context_new(n_threads);
  double *step_size = uniforms(n_dim, 5, 0, 1), *shift = uniforms(n_dim, 6, -1, 1), *range = doubles(2 * n_dim);
  fmc_log_density_job job = {.n = n,
                             .n_dim = n_dim,
                             .x = x,
                             .density = density,
                             .single_precision = single_precision,
                             .log_density = doubles(n)};
  must_be_ok(fmc_backend_cpu.log_density(&job, &context), &context);
  uint64_t hash = hash_doubles(0xcbf29ce484222325u, job.log_density, n);
  for (size_t i = 0; i < n; i++)
    if (!(job.log_density[i] - job.log_density[i] == 0))
      job.log_density[i] = -1e300; /* a run starts where it is finite */
  for (size_t i = 0; i < 2 * n_dim; i++)
    range[i] = i % 2 ? -FMC_INF : FMC_INF;
  fmc_mh_run_job run = {.n_chains = n,
                        .n_dim = n_dim,
                        .stride = n,
                        .step_size = step_size,
                        .seed = 7,
                        .first_step = UINT32_MAX - 5,
                        .n_steps = 12,
                        .thin = 2,
                        .n_before = 5,
                        .single_precision = single_precision,
                        .target = density,
                        .x = doubles(n_all),
                        .log_density = job.log_density,
                        .n_accepted = doubles(n),
                        .draws = doubles(3 * n_all),
                        .store = 2,
                        .n_draws = 3,
                        .sums = doubles(FMC_N_SUMS * n_all),
                        .shift = shift,
                        .range = range,
                        .batch = 4};
  memcpy(run.x, x, n_all * sizeof(double));
  memset(run.n_accepted, 0, n * sizeof(double));
  memset(run.sums, 0, FMC_N_SUMS * n_all * sizeof(double));
  must_be_ok(fmc_backend_cpu.mh_run(&run, &context), &context);
  hash = hash_doubles(hash, run.x, n_all);
  hash = hash_doubles(hash, run.log_density, n);
  hash = hash_doubles(hash, run.n_accepted, n);
  hash = hash_doubles(hash, run.draws, 3 * n_all);
  hash = hash_doubles(hash, run.sums, FMC_N_SUMS * n_all);
  hash = hash_doubles(hash, range, 2 * n_dim);
  double *owned[] = {step_size, shift, range, run.x, run.log_density, run.n_accepted, run.draws, run.sums};
  for (size_t i = 0; i < COUNT(owned); i++)
    free(owned[i]);
  return hash;
}

static void density_case(owned_density *owned, const char *what, size_t n, int flags) {
  size_t n_dim = owned->density.n_dim;
  double *x = uniforms(n * n_dim, 4, -3, 3);
  int single_precision = (flags & SINGLE) != 0;
  if (flags & EXTREME)
    scatter_extremes(x, n * n_dim);
  fmc_cpu_use("baseline");
  uint64_t expected = density_once(&owned->density, x, n, single_precision, 1);
  for (size_t l = 0; l < COUNT(levels); l++)
    if (fmc_cpu_use(levels[l]))
      for (int n_threads = 1; n_threads <= 3; n_threads += 2)
        compare(density_once(&owned->density, x, n, single_precision, n_threads), expected, what, levels[l], n_threads,
                n, n_dim);
  free(x);
  density_free(owned);
}

static void density_cases(void) {
  static const size_t sizes[] = {1, 31, 33, 100}, dims[] = {1, 3, 4, 17, 33}, counts[] = {1, 3, 64, 129, 130, 131};
  for (size_t i = 0; i < COUNT(sizes); i++)
    for (size_t d = 0; d < COUNT(dims); d++)
      for (int flags = 0; flags <= (SINGLE | EXTREME); flags += SINGLE) {
        density_case(mixture_new(dims[d], 2), "mixture", sizes[i], flags);
        density_case(elliptical_new(dims[d], 1 + i), "elliptical", sizes[i], flags);
        for (size_t c = 0; c < COUNT(counts); c++)
          density_case(glm_new(dims[d], counts[c]), "glm", sizes[i], flags);
      }
}

/* Every function of the core at extremes and along its range. */
static void math_cases(void) {
  static const char *const names[] = {"log", "exp", "log1p", "expm1", "log1pexp", "lgamma"};
  size_t n = 2003;
  double *x = uniforms(n, 10, -800, 800), *out = doubles(n);
  scatter_extremes(x, n);
  for (size_t f = 0; f < COUNT(names); f++)
    for (int single_precision = 0; single_precision < 2; single_precision++) {
      uint64_t expected = 0;
      for (size_t l = 0; l < COUNT(levels); l++) {
        if (!fmc_cpu_use(levels[l]))
          continue;
        if (!fmc_cpu_kernels_now()->math(names[f], single_precision, x, n, out)) {
          fprintf(stderr, "no function %s\n", names[f]);
          exit(2);
        }
        uint64_t got = hash_doubles(0xcbf29ce484222325u, out, n);
        expected = l == 0 ? got : expected;
        compare(got, expected, names[f], levels[l], 1, n, 1);
      }
    }
  free(x);
  free(out);
}

static void normal_cases(void) {
  static const uint32_t edges[] = {0,          1,          2,          3,          0x7fffff,  0x800000,
                                   0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff};
  double out[COUNT(edges)];
  uint32_t words[4];
  for (size_t l = 0; l < COUNT(levels); l++) {
    if (!fmc_cpu_use(levels[l]))
      continue;
    fmc_cpu_kernels_now()->normals(edges, COUNT(edges), out);
    for (size_t i = 0; i < COUNT(edges); i++)
      compare(fabs(out[i]) < 6.4, 1, "a normal's size", levels[l], 1, i, 1);
    fmc_cpu_kernels_now()->words(UINT64_MAX, 15, UINT32_MAX, 0x0fffffff, UINT64_MAX, words);
    fmc_cpu_kernels_now()->words(0, 0, 0, 0, 0, words);
    compare(words[0], 0x6627e8d5u, "Philox of zeros", levels[l], 1, 1, 1);
  }
}

/* Indices of one call. */
static uint64_t resample_once(fmc_resample_job *job, int n_threads) {
  fmc_context context = context_new(n_threads);
  job->indices = allocate(job->n, sizeof(int));
  must_be_ok(fmc_backend_cpu.resample(job, &context), &context);
  uint64_t hash = hash_bytes(0xcbf29ce484222325u, &job->sum, sizeof job->sum);
  if (job->sum > 0 && job->n_bad == 0)
    hash = hash_bytes(hash, job->indices, job->n * sizeof(int));
  free(job->indices);
  return hash;
}

static void resample_case(size_t n_weights, size_t n, int method, int is_log, int bad) {
  double *weights = uniforms(n_weights, 12, is_log ? -40 : 0, 1);
  for (size_t i = 0; i < n_weights; i += 3)
    weights[i] = is_log ? -FMC_INF : 0;
  if (bad)
    scatter_extremes(weights, n_weights);
  fmc_resample_job job = {.n_weights = n_weights, .n = n, .weights = weights, .is_log = is_log, .method = method};
  fmc_cpu_use("baseline");
  uint64_t expected = resample_once(&job, 1);
  for (size_t l = 0; l < COUNT(levels); l++)
    if (fmc_cpu_use(levels[l]))
      for (int n_threads = 1; n_threads <= 3; n_threads++)
        compare(resample_once(&job, n_threads), expected, "resample", levels[l], n_threads, n_weights, n);
  free(weights);
}

#include "importance.h"

int main(void) {
  static const size_t ns[] = {0, 1, 2, 31, 32, 33, 100}, dims[] = {1, 2, 3, 4, 5, 17, 33, 130},
                      sizes[] = {0, 1, 255, 256, 257, 4095, 4096, 4097, 12289};
  for (size_t i = 0; i < COUNT(ns); i++)
    for (size_t j = 0; j < COUNT(dims); j++)
      for (int flags = 0; flags < N_MH_CASES; flags++)
        mh_case(ns[i], dims[j], 1 + (i + j) % 3, flags);
  for (size_t i = 0; i < COUNT(sizes); i++)
    for (size_t j = 0; j < 5; j++)
      for (int flags = 0; flags < N_IS_CASES; flags++)
        is_case(sizes[i], dims[j], 1 + (i + j) % 3, flags);
  for (size_t i = 0; i < COUNT(sizes); i++)
    for (size_t j = 0; j < COUNT(sizes); j++)
      for (int method = FMC_SYSTEMATIC; method <= FMC_RESIDUAL; method++)
        for (int flags = 0; flags < 4; flags++)
          resample_case(sizes[i], sizes[j], method, flags & 1, flags >> 1);
  density_cases();
  importance_cases();
  math_cases();
  normal_cases();
  printf("sanitize: %ld comparisons, %ld different\n", n_compared, n_different);
  return n_different > 0;
}
