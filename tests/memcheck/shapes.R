# Both functions over the shapes that take different ways through the backends, on the default backend: for valgrind,
# for gctorture and for compute-sanitizer on a GPU.
#   compute-sanitizer --target-processes all --tool memcheck R --vanilla -f tests/memcheck/shapes.R --args cuda

library(fusedmc)

arguments <- commandArgs(trailingOnly = TRUE)
if ("cuda" %in% arguments) options(fusedmc.backend = "cuda")

numbers <- function(n, n_dim) matrix(((seq_len(n * n_dim) * 7919) %% 1009) / 1009 - 0.5, n, n_dim)

run_all <- function() {
  results <- list()
  keep <- function(value) results[[length(results) + 1]] <<- value
  shapes <- list(
    c(1, 1), c(33, 4), c(259, 5), c(130, 8), c(300, 13), c(129, 16), c(65, 32), c(1, 64), c(40, 130), c(3, 4100),
    c(5000, 3)
  )
  for (shape in shapes) {
    x <- numbers(shape[1], shape[2])
    mixture <- density_mixture(c(1, 2), numbers(2, shape[2]), 2)
    for (precision in c("double", "single")) {
      keep(mh_step(x, seed = 1, precision = precision))
      keep(mh_step(x, mixture, noise = x, u = rep(0.5, nrow(x)), precision = precision))
      if (shape[2] < 100) keep(mh_step(x, seed = 1, step_size = diag(shape[2]), precision = precision))
      keep(is_weights(x, mixture, precision = precision))
      keep(is_weights(x, log_weights = x[, 1], weights = FALSE, precision = precision))
    }
  }
  results
}

expected <- run_all()
if ("gctorture" %in% arguments) {
  gctorture2(step = suppressWarnings(as.integer(utils::tail(arguments, 1))), inhibit_release = FALSE)
}
again <- run_all()
gctorture(FALSE)
stopifnot(identical(again, expected), length(again) > 100)
cat("memcheck: ", length(again), " results, all as expected\n", sep = "")
unloadNamespace("fusedmc") # gives back what is kept between calls
