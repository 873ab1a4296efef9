/* A draw from a mixture of multivariate normals and Student t; see draw.h for the words. Template over REAL. */

typedef struct {
  size_t n_dim, count;
  int full; /* factor: count x n_dim (n_dim + 1) / 2, packed rows of lower factors; else count x n_dim sds */
  const double *cumulative;  /* count: weights added up */
  const REAL *mean, *factor; /* mean: count x n_dim */
  const double *df;          /* count, or NULL where all are normal */
  size_t n_groups;           /* sample i is drawn from a component of group i mod n_groups, */
  const size_t *group;       /* group[g] .. group[g + 1] - 1; `cumulative` starts anew in each */
} T(fmc_draw_plan);

/* The component of a sample. */
FMC_FN size_t T(fmc_draw_component_of)(const T(fmc_draw_plan) * plan, uint64_t seed, uint64_t sample) {
  size_t g = plan->n_groups == 1 ? 0 : (size_t)(sample % plan->n_groups), first = plan->group[g];
  return first + fmc_draw_component(plan->cumulative + first, plan->group[g + 1] - first, seed, sample);
}

/* From normals to a point of component k, in place: mean + sd z, or mean + (L z)_i with the terms of the row in rising
 * order, each product and sum rounded; a t multiplies what is added to the mean by its stretch. Row i needs z_0 .. z_i,
 * so i falls. */
FMC_FN void T(fmc_draw_place)(const T(fmc_draw_plan) * plan, size_t k, REAL stretch, REAL *x, size_t stride) {
  size_t n_dim = plan->n_dim;
  const REAL *mean = plan->mean + k * n_dim;
  for (size_t i = n_dim; i-- > 0;) {
    REAL move;
    if (plan->full) {
      const REAL *row = plan->factor + k * (n_dim * (n_dim + 1) / 2) + i * (i + 1) / 2;
      move = row[0] * x[0];
      for (size_t j = 1; j <= i; j++)
        move = move + row[j] * x[j * stride];
    } else {
      move = plan->factor[k * n_dim + i] * x[i * stride];
    }
    x[i * stride] = mean[i] + move * stretch;
  }
}

FMC_FN void T(fmc_draw_point)(const T(fmc_draw_plan) * plan, uint64_t seed, uint64_t sample, const float (*table)[4],
                              REAL *x, size_t stride) {
  size_t n_dim = plan->n_dim, k = T(fmc_draw_component_of)(plan, seed, sample);
  REAL stretch = plan->df ? (REAL)fmc_draw_stretch(plan->df[k], seed, sample, table) : (REAL)1;
  for (size_t d = 0; d < n_dim; d += FMC_BLOCK) {
    fmc_words w = fmc_draw_words(seed, sample, FMC_DRAW_NORMALS, (uint32_t)(d / FMC_BLOCK));
    const uint32_t word[FMC_BLOCK] = {w.w0, w.w1, w.w2, w.w3};
    for (size_t j = 0; j < FMC_BLOCK && d + j < n_dim; j++)
      x[(d + j) * stride] = (REAL)fmc_normal(word[j], table);
  }
  T(fmc_draw_place)(plan, k, stretch, x, stride);
}
