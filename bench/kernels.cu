/* Times the kernels alone, on matrices that already lie on the GPU, against the time their bytes need.
 *   nvcc -O3 --fmad=false -std=c++17 -arch=native -Isrc bench/kernels.cu src/weighted.c src/stage.c -o kernels &&
 * ./kernels
 * With the argument `runs` or `is`, runs or importance sampling alone. The floor counts each input read once and each
 * output written once, at a copy's bandwidth measured first in the same run. */
#include "../src/backend_cuda.cu"

#include <algorithm>
#include <vector>

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    cudaError_t error_ = (call);                                                                                       \
    if (error_ != cudaSuccess) {                                                                                       \
      printf("%s: %s\n", #call, cudaGetErrorString(error_));                                                           \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

static int n_runs = 31, n_launches = 20;

/* Microseconds a launch takes: the median over runs of n_launches one after the other, so that what a launch costs the
 * host is hidden, and each launch finds the cache as the last one left it. */
template <typename Launch> static double median_us(Launch launch) {
  cudaEvent_t start, stop;
  std::vector<double> times;
  OK(cudaEventCreate(&start));
  OK(cudaEventCreate(&stop));
  for (int run = -3; run < n_runs; run++) {
    float ms;
    OK(cudaEventRecord(start));
    for (int i = 0; i < n_launches; i++)
      launch();
    OK(cudaEventRecord(stop));
    OK(cudaEventSynchronize(stop));
    OK(cudaGetLastError());
    OK(cudaEventElapsedTime(&ms, start, stop));
    if (run >= 0)
      times.push_back(1e3 * ms / n_launches);
  }
  std::sort(times.begin(), times.end());
  return times[n_runs / 2];
}

static double copy_rate() {
  size_t bytes = (size_t)2 << 30;
  void *from, *to;
  OK(cudaMalloc(&from, bytes));
  OK(cudaMalloc(&to, bytes));
  OK(cudaMemset(from, 1, bytes));
  double us = median_us([&] { cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice); });
  OK(cudaFree(from));
  OK(cudaFree(to));
  return 2.0 * bytes / us; /* bytes a microsecond */
}

static void report(const char *what, double us, double bytes, double rate) {
  printf("| %s | %.1f | %.1f | %.2f |\n", what, us, bytes / rate, us / (bytes / rate));
}

template <typename real> static real *random_matrix(size_t n, double sd) {
  std::vector<real> host(n);
  uint64_t state = 88172645463325252u;
  for (size_t i = 0; i < n; i++) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    host[i] = (real)(sd * ((double)(state >> 11) * 0x1p-53 - 0.5) * 3.4641);
  }
  real *device;
  OK(cudaMalloc(&device, n * sizeof(real)));
  OK(cudaMemcpy(device, host.data(), n * sizeof(real), cudaMemcpyHostToDevice));
  return device;
}

template <typename real> static real *constants(size_t n, double value) {
  std::vector<real> host(n, (real)value);
  real *device;
  OK(cudaMalloc(&device, n * sizeof(real)));
  OK(cudaMemcpy(device, host.data(), n * sizeof(real), cudaMemcpyHostToDevice));
  return device;
}

template <typename real, typename Args, typename Constants, typename Density, typename Launch>
static void time_mh_step(const char *precision, size_t n, size_t n_dim, double rate, int n_sms, Launch launch) {
  Args a;
  memset(&a, 0, sizeof a);
  real *x = random_matrix<real>(n * n_dim, 1), *out = constants<real>(n * n_dim, 0);
  real *one = constants<real>(n_dim, 1), *zero = constants<real>(n_dim, 0), *step = constants<real>(n_dim, 0.5);
  real *rest = constants<real>(2 * n, 0);
  int *accepted = constants<int>(n, 0);
  Density density = {n_dim, 1, zero, zero, one};
  a.n_chains = n;
  a.n_dim = n_dim;
  a.x = x;
  a.step_size = step;
  a.seed = 1;
  a.target = density;
  a.x_new = out;
  a.log_density = rest;
  a.log_alpha = rest + n;
  a.accepted = accepted;
  Constants c;
  memset(&c, 0, sizeof c);
  for (int d = 0; d < FMC_FEW_DIMS; d++) {
    c.inv_sd[d] = 1;
    c.step_size[d] = (real)0.5;
  }
  double us = median_us([&] { launch(&a, &c, n_sms, (cudaStream_t)0); });
  double bytes = (double)n * (2.0 * n_dim * sizeof(real) + 2 * sizeof(real) + sizeof(int));
  char what[100];
  snprintf(what, sizeof what, "mh_step %zu x %zu %s", n, n_dim, precision);
  report(what, us, bytes, rate);
  for (void *p : {(void *)x, (void *)out, (void *)one, (void *)zero, (void *)step, (void *)rest, (void *)accepted})
    OK(cudaFree(p));
}

/* Best and median of times of one launch each, in microseconds. */
template <typename Launch> static void best_and_median_us(int n, Launch launch, double *best, double *median) {
  int before[] = {n_runs, n_launches};
  std::vector<double> times;
  n_runs = 1, n_launches = 1;
  for (int i = 0; i < n; i++)
    times.push_back(median_us(launch));
  n_runs = before[0], n_launches = before[1];
  std::sort(times.begin(), times.end());
  *best = times[0];
  *median = times[n / 2];
}

static sample_notes no_notes() {
  static void *counters = constants<double>(2, 0);
  sample_notes notes = {(unsigned long long *)counters, DBL_MAX, NULL, (unsigned long long *)counters + 1, 0};
  return notes;
}

/* Log weights and sums as two kernels, for few samples. */
template <typename real, typename Densities, typename Sums, typename Density, typename Weigh, typename Sum>
static void time_is_weights(const char *precision, size_t n, size_t n_dim, size_t n_components, double rate,
                            Weigh weigh, Sum sum) {
  Densities d;
  Sums s;
  memset(&s, 0, sizeof s);
  real *x = random_matrix<real>(n * n_dim, 3), *mean = random_matrix<real>(n_components * n_dim, 1);
  real *inv_sd = constants<real>(n_components * n_dim, 1), *log_const = constants<real>(n_components, -1);
  real *third = constants<real>(n_dim, 1 / 3.0), *zero = constants<real>(n_dim, 0);
  sample_range range = {0, n};
  size_t n_tiles = n_tiles_of(&range);
  double *log_weights = constants<double>(n, 0), *rows = constants<double>(n_tiles * (n_dim + FMC_SUMMARY_COLUMNS), 0);
  Density target = {n_dim, n_components, log_const, mean, inv_sd}, proposal = {n_dim, 1, zero, zero, third};
  d.n = n;
  d.n_dim = s.n_dim = n_dim;
  d.stride = s.stride = n;
  d.x = s.x = x;
  d.target = target;
  d.proposal = proposal;
  d.log_weights = log_weights;
  s.range = range;
  s.log_weights = log_weights;
  s.notes = no_notes();
  s.rows = rows;
  double us = median_us([&] {
    weigh(&d, (cudaStream_t)0);
    sum(&s, (cudaStream_t)0);
  });
  char what[100];
  snprintf(what, sizeof what, "log weights and sums, %zu x %zu, K = %zu, %s", n, n_dim, n_components, precision);
  report(what, us, (double)n * (n_dim * sizeof(real) + sizeof(double)), rate);
  for (void *p : {(void *)x, (void *)mean, (void *)inv_sd, (void *)log_const, (void *)third, (void *)zero,
                  (void *)log_weights, (void *)rows})
    OK(cudaFree(p));
}

/* A mixture's numbers on the host. */
struct host_mixture {
  std::vector<double> log_const, mean, inv_sd;
  fmc_node node;
};

static void place_numbers(host_mixture *m, size_t n_dim) {
  memset(&m->node, 0, sizeof m->node);
  m->node.kind = FMC_KIND_mixture;
  m->node.n_dim = n_dim;
  m->node.count = m->log_const.size();
  m->node.array[FMC_MIXTURE_LOG_CONST] = m->log_const.data();
  m->node.array[FMC_MIXTURE_MEAN] = m->mean.data();
  m->node.array[FMC_MIXTURE_INV_SD] = m->inv_sd.data();
}

/* Importance sampling in one pass, and its tiles joined; samples drawn, or read where they lie. The proposal is a
 * normal of sd 3; `centred`: its mean is 0, and a component of the target has one sd for all dims. */
template <typename real, typename Args, typename Launch, typename Place, typename PlaceDraws>
static void time_fused(const char *precision, size_t n, size_t n_dim, size_t n_components, bool drawn, bool squares,
                       bool centred, double rate, Launch launch, Place place, PlaceDraws place_draws) {
  Args a;
  memset(&a, 0, sizeof a);
  size_t stride = (n + RESIDENT_ALIGN - 1) / RESIDENT_ALIGN * RESIDENT_ALIGN;
  real *x = drawn ? NULL : constants<real>(stride * n_dim, 0);
  if (!drawn) { /* one column's values for all: the host would take long for more */
    real *column = random_matrix<real>(stride, 3);
    for (size_t d = 0; d < n_dim; d++)
      OK(cudaMemcpy(x + d * stride, column, stride * sizeof(real), cudaMemcpyDeviceToDevice));
    OK(cudaFree(column));
  }
  host_mixture target, proposal;
  target.log_const.assign(n_components, -1.0);
  target.inv_sd.assign(n_components * n_dim, 0.9);
  for (size_t e = 0; e < n_components * n_dim; e++)
    target.mean.push_back((double)(e * 7919 % 1009) / 1009 - 0.5);
  proposal.log_const.assign(1, 0.0);
  proposal.inv_sd.assign(n_dim, 1 / 3.0);
  proposal.mean.assign(n_dim, centred ? 0 : 0.1);
  if (!centred)
    target.inv_sd[0] = 0.8, proposal.inv_sd[0] = 0.4;
  place_numbers(&target, n_dim);
  place_numbers(&proposal, n_dim);
  std::vector<double> sd;
  for (double inverse : proposal.inv_sd)
    sd.push_back(1 / inverse);
  fmc_drawing drawing;
  memset(&drawing, 0, sizeof drawing);
  drawing.count = 1;
  drawing.mean = proposal.mean.data();
  drawing.factor = sd.data();
  size_t group[] = {0, 1}, *d_group;
  OK(cudaMalloc(&d_group, sizeof group));
  OK(cudaMemcpy(d_group, group, sizeof group, cudaMemcpyHostToDevice));
  a.range = {0, n};
  size_t n_tiles = n_tiles_of(&a.range), width = FMC_SUMMARY_COLUMNS + (squares ? 2 : 1) * n_dim;
  double *rows = constants<double>(n_tiles * width, 0), *nodes = constants<double>(n_tiles * width, 0);
  a.n_dim = n_dim;
  a.stride = stride;
  a.x = x;
  a.seed = 1;
  a.keys = fmc_keys_of(1);
  a.hidden = hidden_numbers();
  a.plan.n_dim = n_dim;
  a.plan.count = a.plan.n_groups = 1;
  a.plan.group = d_group;
  place(&a, false, &target.node);
  place(&a, true, &proposal.node);
  place_draws(&a, &drawing);
  a.notes = no_notes();
  a.rows = rows;
  fmc_context context;
  double best, median, joined = 0;
  best_and_median_us(
      15, [&] { launch(&a, squares, (cudaStream_t)0, &context); }, &best, &median);
  if (n_tiles > FMC_UNJOINED)
    joined = median_us([&] { launch_join(&a.range, width, rows, nodes, (cudaStream_t)0); });
  double bytes = drawn ? 0 : (double)n * n_dim * sizeof(real);
  printf("| %s, %s, %s, %zu x %zu, K = %zu, %s | %.1f | %.1f | %.2f | %.1f | %.1f |\n", drawn ? "drawn" : "read",
         squares ? "squares" : "no moments", centred ? "centred" : "general", n, n_dim, n_components, precision, best,
         median, bytes / best / 1e6, bytes / rate, joined);
  for (void *p : {(void *)x, (void *)d_group, (void *)rows, (void *)nodes})
    OK(cudaFree(p));
}

#define TIME_FUSED(n, n_dim, drawn, squares, centred)                                                                  \
  do {                                                                                                                 \
    time_fused<double, fused_args_f64>("double", n, n_dim, 3, drawn, squares, centred, rate, launch_fused_f64,         \
                                       place_few_f64, place_few_draws_f64);                                            \
    time_fused<float, fused_args_f32>("single", n, n_dim, 3, drawn, squares, centred, rate, launch_fused_f32,          \
                                      place_few_f32, place_few_draws_f32);                                             \
  } while (0)

static void time_importance(double rate) {
  printf("\n| two kernels | us | bytes' floor, us | ratio |\n|---|---|---|---|\n");
  for (size_t n : {(size_t)4096, (size_t)32768, (size_t)131072, (size_t)262144}) {
    time_is_weights<double, log_weights_args_f64, tile_sums_args_f64, mixture_f64>(
        "double", n, 16, 3, rate, launch_log_weights_f64, launch_tile_sums_f64);
    time_is_weights<float, log_weights_args_f32, tile_sums_args_f32, mixture_f32>(
        "single", n, 16, 3, rate, launch_log_weights_f32, launch_tile_sums_f32);
  }
  printf("\n| fused | best, us | median, us | TB/s | bytes' floor, us | joining the tiles, us "
         "|\n|---|---|---|---|---|---|\n");
  for (size_t n : {(size_t)262144, (size_t)1 << 20, (size_t)1 << 24, (size_t)100000000})
    for (bool drawn : {true, false})
      for (bool squares : {false, true})
        for (bool centred : {true, false})
          TIME_FUSED(n, 16, drawn, squares, centred);
  for (size_t n_dim : {2, 5, 8})
    for (bool drawn : {true, false})
      TIME_FUSED((size_t)1 << 26, n_dim, drawn, false, true);
}

/* A step of a logistic regression: proposals, both log densities, decision. */
template <typename real, typename Node, typename Args, typename Points, typename Step>
static void time_glm(const char *precision, size_t n_chains, size_t n_obs, size_t n_coef, Step step) {
  Args a;
  Node node;
  memset(&a, 0, sizeof a);
  memset(&node, 0, sizeof node);
  real *design = random_matrix<real>(n_obs * n_coef, 1), *x = random_matrix<real>(n_chains * n_coef, 0.1);
  real *out = constants<real>(n_chains * n_coef, 0), *rest = constants<real>(4 * n_chains, 0);
  real *zero = constants<real>(n_coef, 0), *one = constants<real>(n_coef, 1), *size = constants<real>(n_coef, 0.01);
  int *accepted = constants<int>(n_chains, 0);
  node.kind = FMC_KIND_glm;
  node.flags = FMC_GLM_LOGIT_UNIT;
  node.n_dim = n_coef;
  node.count = n_obs;
  node.array[FMC_GLM_X] = design;
  node.array[FMC_GLM_PRIOR_MEAN] = zero;
  node.array[FMC_GLM_PRIOR_INV_SD] = one;
  a.n_chains = n_chains;
  a.n_dim = n_coef;
  a.x = x;
  a.step_size = size;
  a.seed = 1;
  a.x_new = out;
  a.log_density = rest;
  a.log_alpha = rest + n_chains;
  a.accepted = accepted;
  Points points = {n_chains, 2 * n_chains, x, out};
  double *partial = constants<double>((n_obs / FMC_OBS_BLOCK + 1) * 2 * n_chains, 0);
  double us = median_us([&] { step(&a, &node, &points, partial, rest + 2 * n_chains); });
  double terms = 2.0 * n_chains * n_obs;
  printf("| logistic regression, %zu observations, %zu coefficients, %zu chains, %s | %.1f | %.1f |\n", n_obs, n_coef,
         n_chains, precision, us, terms / us / 1e3);
  for (void *p : {(void *)design, (void *)x, (void *)out, (void *)rest, (void *)zero, (void *)one, (void *)size,
                  (void *)accepted, (void *)partial})
    OK(cudaFree(p));
}

#define GLM_STEP(suffix)                                                                                               \
  [](const mh_args_##suffix *a, const fmc_node_##suffix *node, const points_##suffix *points, double *partial,         \
     auto *value) {                                                                                                    \
    launch_propose_##suffix(a, kept.n_sms, 0);                                                                         \
    launch_glm_##suffix(node, points, partial, value, 0);                                                              \
    launch_decide_##suffix(a, value, value + points->n, 0);                                                            \
  }

/* Many steps of a standard normal in one launch; nanoseconds a step. */
template <typename real, typename Args, typename Run>
static void time_run(const char *precision, size_t n, size_t n_dim, size_t n_steps, size_t thin, bool sums, Run run) {
  Args a;
  memset(&a, 0, sizeof a);
  real *x = random_matrix<real>(n * n_dim, 1), *step = constants<real>(n_dim, 2.4 / sqrt((double)n_dim));
  real *one = constants<real>(n_dim, 1), *zero = constants<real>(n_dim, 0), *log_density = constants<real>(n, -1e9);
  double *shift = constants<double>(n_dim, 0), *all = constants<double>(sums ? FMC_N_SUMS * n * n_dim : 1, 0);
  double *range = constants<double>(2 * n_dim, 0);
  unsigned *n_accepted = constants<unsigned>(n, 0);
  void *not_finite = constants<double>(2, 0);
  a.n_chains = n;
  a.n_dim = n_dim;
  a.n_steps = n_steps;
  a.thin = thin;
  a.store = 1;
  a.batch = 50;
  a.target = {n_dim, 1, zero, zero, one};
  a.step_size = step;
  a.shift = sums ? shift : NULL;
  a.seed = 1;
  a.keys = fmc_keys_of(1);
  a.hidden = hidden_numbers();
  a.x = x;
  a.log_density = log_density;
  a.sums = all;
  a.range = range;
  a.n_accepted = n_accepted;
  a.not_finite = (fmc_gpu_not_finite *)not_finite;
  fmc_context context;
  double us = median_us([&] { run(&a, 1, (cudaStream_t)0, &context); });
  printf("| %zu x %zu, %s, %s | %.3f |\n", n, n_dim, precision,
         sums ? thin == 1 ? "all summaries" : "all summaries of every 10th state" : "no summaries", us / n_steps);
  for (void *p : {(void *)x, (void *)step, (void *)one, (void *)zero, (void *)log_density, (void *)shift, (void *)all,
                  (void *)range, (void *)n_accepted, not_finite})
    OK(cudaFree(p));
}

/* All passes of one call with n weights and n draws, and a copy of the weights, which a call overwrites. */
static void time_resample(const char *method_name, int method, size_t n, double rate) {
  fmc_resample_job job = {n, n};
  resample_args a;
  memset(&a, 0, sizeof a);
  resample_memory &m = a.memory;
  size_t n_tiles = (n + FMC_TILE - 1) / FMC_TILE;
  unsigned tiles = (unsigned)n_tiles, draws = (unsigned)((n + RS_THREADS - 1) / RS_THREADS);
  double *weights = random_matrix<double>(n, 1);
  int *out = constants<int>(n, 0);
  char *memory;
  uint64_t sum;
  OK(cudaMalloc(&memory, place_resample(&job, n_tiles, NULL, &m)));
  place_resample(&job, n_tiles, memory, &m);
  fmc_weight_scale scale = fmc_weight_scale_of(2, 1, fmc_weight_bits(n));
  auto weigh = [&] {
    cudaMemcpyAsync(m.numbers, weights, n * sizeof(double), cudaMemcpyDeviceToDevice);
    weight_range_kernel<<<tiles, RS_THREADS>>>((const double *)m.numbers, n, 1, m.tile_max, m.tile_bad);
    join_range_kernel<<<1, RS_SCAN_THREADS>>>(m.tile_max, m.tile_bad, n_tiles, m.totals);
    whole_weights_kernel<<<tiles, RS_THREADS>>>(m.numbers, n, scale, m.tile_sums);
    scan_tiles_kernel<<<1, RS_SCAN_THREADS>>>(m.tile_sums, n_tiles, &m.totals->sum);
    cumulate_kernel<<<tiles, RS_THREADS>>>(m.numbers, n, m.tile_sums);
  };
  weigh();
  OK(cudaMemcpy(&sum, &m.totals->sum, sizeof sum, cudaMemcpyDeviceToHost));
  a.n_weights = n;
  a.n_tiles = n_tiles;
  a.sum = sum;
  a.plan = fmc_resample_plan_of(method, n, sum, 1, 0, 0);
  double us = median_us([&] {
    weigh();
    resample_kernel<<<draws, RS_THREADS>>>(a, (size_t)0, n, out);
  });
  char what[100];
  snprintf(what, sizeof what, "resample, %s, %zu from %zu", method_name, n, n);
  report(what, us, (double)n * (sizeof(double) + sizeof(int)), rate);
  for (void *p : {(void *)weights, (void *)out, (void *)memory})
    OK(cudaFree(p));
}

int main(int argc, char **argv) {
  bool only_runs = argc > 1 && !strcmp(argv[1], "runs"), only_is = argc > 1 && !strcmp(argv[1], "is");
  cudaDeviceProp properties;
  OK(cudaGetDeviceProperties(&properties, 0));
  double rate = copy_rate();
  printf("%s, copy %.2f TB/s\n\n| kernel | us | bytes' floor, us | ratio |\n|---|---|---|---|\n", properties.name,
         rate / 1e6);
  int n_sms = properties.multiProcessorCount;
  kept.n_sms = n_sms;
  if (only_is) {
    time_importance(rate);
    return 0;
  }
  printf("\n| step of a run | us |\n|---|---|\n");
  n_runs = 5, n_launches = 2; /* a launch is many steps */
  size_t runs[][3] = {{4096, 64, 2000}, {1048576, 16, 200}, {16384, 512, 200}};
  for (auto &r : runs) {
    time_run<double, run_args_f64>("double", r[0], r[1], r[2], r[2], false, launch_run_f64);
    time_run<double, run_args_f64>("double", r[0], r[1], r[2], 1, true, launch_run_f64);
    time_run<double, run_args_f64>("double", r[0], r[1], r[2], 10, true, launch_run_f64);
    time_run<float, run_args_f32>("single", r[0], r[1], r[2], r[2], false, launch_run_f32);
    time_run<float, run_args_f32>("single", r[0], r[1], r[2], 1, true, launch_run_f32);
    time_run<float, run_args_f32>("single", r[0], r[1], r[2], 10, true, launch_run_f32);
  }
  n_runs = 31, n_launches = 20;
  if (only_runs)
    return 0;
  for (size_t n : {(size_t)1000000, (size_t)1 << 24}) {
    time_resample("systematic", FMC_SYSTEMATIC, n, rate);
    time_resample("stratified", FMC_STRATIFIED, n, rate);
    time_resample("multinomial", FMC_MULTINOMIAL, n, rate);
  }
  size_t shapes[][2] = {{4096, 64}, {1048576, 16}, {16384, 512}, {65536, 5}};
  for (auto &shape : shapes) {
    time_mh_step<double, mh_args_f64, mh_constants_f64, mixture_f64>("double", shape[0], shape[1], rate, n_sms,
                                                                     launch_mh_step_f64);
    time_mh_step<float, mh_args_f32, mh_constants_f32, mixture_f32>("single", shape[0], shape[1], rate, n_sms,
                                                                    launch_mh_step_f32);
  }
  time_importance(rate);
  printf("\n| step of a regression | us | terms a nanosecond |\n|---|---|---|\n");
  for (size_t n_obs : {100, 1000, 10000, 100000, 1000000}) {
    time_glm<double, fmc_node_f64, mh_args_f64, points_f64>("double", 1024, n_obs, 10, GLM_STEP(f64));
    time_glm<float, fmc_node_f32, mh_args_f32, points_f32>("single", 1024, n_obs, 10, GLM_STEP(f32));
  }
  return 0;
}
