# Both functions over every kind of argument, small: for valgrind and for gctorture.
#   R -d "valgrind --leak-check=full" --vanilla -f tests/memcheck/short.R
#   R --vanilla -f tests/memcheck/short.R --args gctorture [step]
# Both stop with an error if a result is not that of an untortured run.

library(fusedmc)

run_all <- function() {
  x <- matrix(seq(-1, 1, length.out = 21), 7, 3, dimnames = list(letters[1:7], c("p", "q", "r")))
  mixture <- density_mixture(c(1, 0, 2), matrix(c(-1, 0, 1), 3, 3), matrix(c(0.5, 1, 2), 3, 3))
  lower <- matrix(c(0.5, 0.1, 0.2, 0, 0.4, 0.1, 0, 0, 0.3), 3)
  results <- list(backend_info()$simd)
  keep <- function(value) results[[length(results) + 1]] <<- value
  for (precision in c("double", "single")) {
    for (target in list(density_normal(), density_normal(1:3, c(1, 2, 3)), mixture)) {
      for (step_size in list(0.5, c(0.1, 0.2, 0.3), lower, t(lower))) {
        keep(mh_step(x, target, step_size, seed = 1, precision = precision))
        keep(mh_step(x, target, step_size, noise = x / 2, u = rep(0.5, 7), precision = precision))
      }
      keep(is_weights(x, target, precision = precision))
      keep(is_weights(x, target, mixture, weights = FALSE, precision = precision))
    }
    keep(is_weights(x, log_weights = c(0, -Inf, 1, 2, 3, 4, 5), precision = precision))
    keep(suppressWarnings(
      is_weights(x, log_weights = c(0, NaN, Inf, 2, 3, 4, 5), nonfinite = "drop", precision = precision)
    ))
  }
  keep(mh_step(as.data.frame(x), seed = 2))
  keep(mh_step(matrix(1:6, 3), seed = 2))
  keep(mh_step(matrix(0, 0, 3), seed = 2))
  keep(is_weights(matrix(0, 0, 3), density_normal()))
  keep(is_weights(log_weights = numeric(0)))
  keep(suppressWarnings(is_weights(x, log_weights = rep(-Inf, 7))))
  # paths that end in an R error or a warning
  message_of <- function(code) tryCatch(code, condition = conditionMessage)
  keep(message_of(mh_step(x, step_size = -1)))
  keep(message_of(mh_step(matrix(c(0, 1e200), 2), seed = 1)))
  keep(message_of(is_weights(log_weights = c(0, NaN))))
  factor <- matrix(c(1e308, 1e308, 0, 1e308), 2)
  keep(message_of(mh_step(
    matrix(0, 2, 2), density_normal(0, 1e308), factor,
    noise = matrix(c(10, 0, -10, 0), 2), u = c(0, 0)
  )))
  keep(message_of(mh_step(x, seed = 1, backend = "none")))
  keep(format(mixture))
  results
}

arguments <- commandArgs(trailingOnly = TRUE)
expected <- run_all()
if ("gctorture" %in% arguments) {
  step <- suppressWarnings(as.integer(utils::tail(arguments, 1)))
  gctorture2(step = if (is.na(step)) 1L else step, inhibit_release = FALSE)
}
again <- run_all()
gctorture(FALSE)
stopifnot(identical(again, expected), length(again) > 60)
cat("memcheck: ", length(again), " results, all as expected\n", sep = "")
unloadNamespace("fusedmc") # gives back what is kept between calls
