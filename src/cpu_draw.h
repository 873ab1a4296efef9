/* Draws of a strip of samples on the CPU, number `first` and those after it: the words of core/draw.h for all of them
 * at once. */

/* Normals of a block of draws. */
static inline void draw_normals(uint64_t seed, uint32_t use, uint32_t block, uint64_t first,
                                float z[FMC_BLOCK][FMC_STRIP]) {
  uint64_t word[FMC_BLOCK][FMC_STRIP];
  noise_words(seed, FMC_PURPOSE_DRAW, use, block, first, word);
  noise_normals(word, z);
}

/* What a t stretches each sample's normals by. The first attempt is made for all, the others where it failed. */
static void draw_stretches(const double df[FMC_STRIP], uint64_t seed, uint64_t first, double stretch[FMC_STRIP]) {
  uint64_t word[FMC_BLOCK][FMC_STRIP];
  float z[FMC_BLOCK][FMC_STRIP];
  double half[FMC_STRIP], d[FMC_STRIP], c[FMC_STRIP], v[FMC_STRIP];
  noise_words(seed, FMC_PURPOSE_DRAW, FMC_DRAW_ATTEMPTS, 0, first, word);
  noise_normals(word, z);
  FMC_SIMD
  for (int i = 0; i < FMC_STRIP; i++) {
    fmc_gamma_shape shape = fmc_gamma_shape_of(df[i]);
    half[i] = shape.half;
    d[i] = shape.d;
    c[i] = shape.c;
    v[i] = fmc_gamma_attempt(d[i], c[i], (double)z[0][i], fmc_draw_uniform((uint32_t)word[2][i], (uint32_t)word[3][i]));
  }
  for (int i = 0; i < FMC_STRIP; i++) {
    fmc_gamma_shape shape = {half[i], d[i], c[i]};
    uint64_t sample = first + (uint64_t)i;
    if (!(df[i] < FMC_DRAW_NORMAL_DF)) {
      stretch[i] = 1.0;
      continue;
    }
    if (v[i] == 0.0)
      v[i] = fmc_gamma_attempts(&shape, 1, seed, sample, fmc_normal_table);
    stretch[i] = fmc_gamma_stretch(&shape, v[i], df[i], seed, sample);
  }
}
