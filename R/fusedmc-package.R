#' fusedmc: fused Monte Carlo kernels
#'
#' Batched Metropolis-Hastings steps and importance weights from fused kernels: on an NVIDIA GPU where there is one,
#' on the CPU everywhere else. The same seed gives the same bits on both, for any number of threads and any split of
#' the work.
#'
#' @section Where to start:
#' * [mh_step()]: one random-walk Metropolis-Hastings step of many chains.
#' * [is_weights()]: importance weights, weighted mean and effective sample size.
#' * [density_normal()], [density_mixture()]: the densities both work with.
#' * [backend_info()]: what runs here.
#' * `vignette("fusedmc")`: a tour.
#'
#' @section Options:
#' * `fusedmc.backend`: the default of `backend`, `"auto"`, `"cpu"` or `"cuda"`.
#' * `fusedmc.threads`: the most CPU threads to use; unset, all that OpenMP has (`OMP_NUM_THREADS` governs).
#'
#' @importFrom checkmate qtest
#' @useDynLib fusedmc, .registration = TRUE, .fixes = "C_"
#' @keywords internal
"_PACKAGE"

.onUnload <- function(libpath) {
  .Call(C_ffi_cuda_release) # R does not look for R_unload_fusedmc() where dynamic symbols are off
  library.dynam.unload("fusedmc", libpath)
}
