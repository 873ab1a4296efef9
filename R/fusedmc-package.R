#' fusedmc: fused Monte Carlo kernels
#'
#' Batched Metropolis-Hastings sampling, importance sampling and tempered sequential Monte Carlo from fused kernels: on
#' an NVIDIA GPU where there is one, on the CPU everywhere else. The same seed gives the same bits on both, for any
#' number of threads and any split of the work.
#'
#' @section Where to start:
#' * [mh_sample()]: a run of many chains, with warm-up, standard errors and R-hat. [mh_resume()] continues it,
#'   [mh_split()] and [mh_bind()] cut it for several processes.
#' * What a run gives: [summary()][summary.mh_draws], [plot()][plot.mh_draws], and
#'   [draws for other packages][mh_draws_convert].
#' * [smc_sample()]: particles through tempered densities to the target, for modes that lie apart and for its evidence.
#' * [mh_step()]: one random-walk Metropolis-Hastings step of many chains.
#' * [importance_sample()]: importance sampling of any size; [is_summary()] for stored samples; [is_merge()] joins
#'   parts, [adapt_proposal()] finds a proposal, [summary()][summary.is_draws] has the diagnostics.
#' * [is_weights()]: importance weights, weighted mean and effective sample size.
#' * [resample()]: choose among weighted draws so that weights become equal.
#' * The densities that all work with: [density_normal()], [density_mvnormal()], [density_student_t()],
#'   [density_mixture()], [density_glm()], [density_product()], [density_tempered()].
#' * Densities of your own: [density_source()] in C, [density_function()] in R.
#' * [log_density()] evaluates a density, [draw()] draws from it.
#' * [to_device()]: matrices that stay on the GPU.
#' * [backend_info()]: what runs here.
#' * `vignette("sampling")`: a posterior from start to checked answer. `vignette("importance")`: evidence for the choice
#'   among models, and when to trust it. `vignette("densities")`: one density after the other, on real data.
#'   `vignette("fusedmc")`: a tour of the kernels.
#'
#' @section Options:
#' * `fusedmc.backend`: the default of `backend`, `"auto"`, `"cpu"` or `"cuda"`.
#' * `fusedmc.threads`: the most CPU threads to use; unset, all that OpenMP has (`OMP_NUM_THREADS` governs).
#' * `fusedmc.max_gb`: how many GB the draws of a result may take; unset, half of the free memory.
#' * `fusedmc.cache`: the directory for compiled densities, see [fusedmc_cache()].
#' * `fusedmc.nvrtc`: the path of NVRTC, where it is not found.
#'
#' @importFrom checkmate qtest
#' @useDynLib fusedmc, .registration = TRUE, .fixes = "C_"
#' @keywords internal
"_PACKAGE"

.onUnload <- function(libpath) {
  .Call(C_ffi_cuda_release) # R does not look for R_unload_fusedmc() where dynamic symbols are off
  library.dynam.unload("fusedmc", libpath)
}
