/* One random-walk Metropolis-Hastings step. Template over REAL.
 * Metropolis et al. (1953); Hastings (1970). The proposal is symmetric, so log alpha = log p(proposal) - log p(x). */

/* Two roundings, so that plain R reproduces it. */
FMC_FN REAL T(fmc_propose)(REAL x, REAL step_size, REAL z) { return x + step_size * z; }

/* log u of a chain, from the generator. */
FMC_FN REAL T(fmc_log_uniform)(uint64_t seed, uint32_t step, uint64_t chain) {
  return R_LOG(R_UNIFORM(seed, step, chain));
}

/* log u of a given u, clamped away from zero. */
FMC_FN REAL T(fmc_log_given_uniform)(double u) { return R_LOG((REAL)(u < 1e-10 ? 1e-10 : u)); }

FMC_FN int T(fmc_accept)(REAL log_density_old, REAL log_density_new, REAL log_u) {
  REAL log_alpha = log_density_new - log_density_old;
  int accepted = (log_alpha >= 0) | (log_u < log_alpha);
  int code = accepted ? FMC_ACCEPTED : FMC_REJECTED;
  code = log_density_new < (REAL)FMC_INF ? code : FMC_PROPOSAL_NOT_FINITE; /* NaN fails the comparison */
  return log_density_old - log_density_old == 0 ? code : FMC_START_NOT_FINITE;
}
