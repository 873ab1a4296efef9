/* Draws that are weighed and summed, for core.c: every kind of drawing, cut into calls or not. */

enum { FULL = 1, STUDENT = 2, GROUPS = 4, DRAWN_SINGLE = 8, NOTHING_KEPT = 16, N_DRAWN_CASES = 32 };

/* Three components for one group, or six for three. */
static void drawing_new(fmc_drawing *drawing, size_t n_dim, int flags) {
  size_t count = flags & GROUPS ? 6 : n_dim % 3 + 1;
  size_t n_factor = flags & FULL ? n_dim * (n_dim + 1) / 2 : n_dim;
  double *cumulative = doubles(count);
  size_t *group = allocate(4, sizeof *group);
  for (size_t k = 0; k < count; k++)
    cumulative[k] = (double)(k % 3 + 1) / 3;
  for (size_t g = 0; g < 4; g++)
    group[g] = flags & GROUPS ? (size_t[]){0, 1, 3, 6}[g] : g * count;
  *drawing = (fmc_drawing){.n_dim = n_dim,
                           .count = count,
                           .full = (flags & FULL) != 0,
                           .cumulative = cumulative,
                           .mean = uniforms(count * n_dim, 21, -2, 2),
                           .factor = uniforms(count * n_factor, 22, 0.1, 2),
                           .df = flags & STUDENT ? uniforms(count, 23, 0.5, 9) : NULL,
                           .n_groups = flags & GROUPS ? 3 : 1,
                           .group = group};
}

static void drawing_free(fmc_drawing *drawing) {
  free((void *)drawing->cumulative);
  free((void *)drawing->mean);
  free((void *)drawing->factor);
  free((void *)drawing->df);
  free((void *)drawing->group);
}

/* The job in calls of n_tiles tiles each, where n_tiles is not 0; cpu_ns decides how threads share the work. */
static uint64_t drawn_once(const fmc_is_job *given, int keep, size_t n_tiles, int n_threads, double cpu_ns) {
  const size_t n_tail = 100;
  fmc_is_job job = *given;
  double tail[100];
  fmc_context context = context_new(n_threads);
  uint64_t hash = 0xcbf29ce484222325u, end = given->offset + given->n;
  job.summary = fmc_is_summary_new(job.n_dim + fmc_n_moments(job.n_dim, job.moments), n_tail);
  context.cpu_ns = cpu_ns;
  do {
    uint64_t next = (job.offset / FMC_TILE + n_tiles) * FMC_TILE;
    job.n = (size_t)((n_tiles > 0 && next < end ? next : end) - job.offset);
    job.draws = keep ? doubles(job.n * job.n_dim) : NULL;
    job.log_weights = keep ? doubles(job.n) : NULL;
    must_be_ok(fmc_backend_cpu.is_weights(&job, &context), &context);
    if (keep && n_tiles == 0) {
      hash = hash_doubles(hash, job.draws, job.n * job.n_dim);
      hash = hash_doubles(hash, job.log_weights, job.n);
    }
    free(job.draws);
    free(job.log_weights);
    job.offset += job.n;
  } while (job.offset < end);
  size_t width = fmc_is_summary_width(job.summary), n_found = fmc_is_summary_tail(job.summary, tail);
  hash = hash_doubles(hash, fmc_is_summary_nodes(job.summary), fmc_is_summary_n_nodes(job.summary) * width);
  hash = hash_doubles(hash, tail, n_found);
  fmc_is_summary_free(job.summary);
  return hash;
}

static void drawn_case(size_t n, size_t n_dim, uint64_t offset, int moments, int flags) {
  int keep = !(flags & NOTHING_KEPT);
  owned_density *target = mixture_new(n_dim, 2), *proposal = mixture_new(n_dim, 1);
  double *shift = uniforms(n_dim, 24, -1, 1);
  fmc_drawing drawing;
  drawing_new(&drawing, n_dim, flags);
  fmc_is_job job = {.n = n,
                    .n_dim = n_dim,
                    .seed = 31,
                    .offset = offset,
                    .drawing = &drawing,
                    .target = &target->density,
                    .proposal = &proposal->density,
                    .single_precision = (flags & DRAWN_SINGLE) != 0,
                    .moments = moments,
                    .shift = shift};
  fmc_cpu_use("baseline");
  uint64_t expected = drawn_once(&job, keep, 0, 1, 0), cut = drawn_once(&job, 0, 0, 1, 0);
  for (size_t l = 0; l < COUNT(levels); l++) {
    if (!fmc_cpu_use(levels[l]))
      continue;
    compare(drawn_once(&job, keep, 0, 1, 1e12), expected, "parts of tiles", levels[l], 1, n, n_dim);
    for (int n_threads = 1; n_threads <= 3; n_threads++)
      compare(drawn_once(&job, keep, 0, n_threads, 0), expected, "draws", levels[l], n_threads, n, n_dim);
    compare(drawn_once(&job, 0, 2, 2, 0), cut, "draws cut", levels[l], 2, n, n_dim);
  }
  drawing_free(&drawing);
  free(shift);
  density_free(target);
  density_free(proposal);
}

static void importance_cases(void) {
  static const size_t sizes[] = {0, 33, 4097, 8200}, dims[] = {1, 5};
  static const uint64_t offsets[] = {0, 1000, ((uint64_t)1 << 40) + FMC_TILE - 1};
  for (size_t i = 0; i < COUNT(sizes); i++)
    for (size_t d = 0; d < COUNT(dims); d++)
      for (int flags = 0; flags < N_DRAWN_CASES; flags++)
        drawn_case(sizes[i], dims[d], offsets[(i + d) % COUNT(offsets)], (flags + (int)d) % 3, flags);
}
