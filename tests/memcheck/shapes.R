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
  for (n_dim in c(1, 3, 18)) {
    x <- numbers(70, n_dim)
    for (density in densities(n_dim)) {
      for (precision in c("double", "single")) {
        keep(mh_step(x, density, 0.1, seed = 1, precision = precision))
        keep(is_weights(x, density, precision = precision))
        keep(log_density(density, x, precision = precision))
        fit <- mh_sample(density, init = x, n_steps = 6, thin = 2, n_warmup = 4, seed = 1, precision = precision)
        keep(fit$draws)
      }
    }
  }
  importance_shapes(keep)
  keep(mh_sample(density_normal(), numbers(5, 300), n_steps = 5, adapt = FALSE, step_size = 0.1, seed = 1)$draws)
  results
}

# Samples on the GPU, and drawn ones.
importance_shapes <- function(keep) {
  n_draws <- if ("cuda" %in% arguments) 3e5 else 9000
  importance <- getFromNamespace("run_importance", "fusedmc")
  plan <- getFromNamespace("draw_plan", "fusedmc")
  nodes <- getFromNamespace("density_nodes", "fusedmc")
  run <- getFromNamespace("run_for_importance", "fusedmc")
  for (n_dim in c(3, 16)) {
    mixture <- density_mixture(c(1, 2), matrix(c(0, 1), 2, n_dim), matrix(1, 2, n_dim))
    x <- numbers(5000, n_dim)
    for (precision in c("double", "single")) {
      resident <- to_device(x, precision)
      keep(is_weights(resident, mixture))
      keep(log_density(mixture, resident))
      keep(as.matrix(resident))
      for (proposal in list(density_normal(0, 2), density_student_t(3, rep(0, n_dim)))) {
        for (moments in c("none", "squares", "products")) {
          keep(importance(
            n_draws, n_dim, 1, 1001,
            drawing = plan(list(proposal), n_dim), target = nodes(mixture, n_dim), proposal = nodes(proposal, n_dim),
            moments = moments, n_tail = 300, precision = precision,
            run = run(getOption("fusedmc.backend", "auto"), 0L, n_draws, n_dim)
          ))
        }
      }
    }
  }
}

# One of each kind.
densities <- function(n_dim) {
  design <- numbers(130, n_dim)
  y <- as.double(seq_len(130) %% 3 == 0)
  normal <- density_normal(0, 2)
  factor <- diag(n_dim) + 0.1 * lower.tri(diag(n_dim))
  full <- density_mvnormal(0, chol = factor)
  list(
    full, density_student_t(3, rep(0, n_dim), 2), density_student_t(4, 0, tcrossprod(factor)),
    density_mixture(c(1, 1), matrix(0, 2, n_dim), chols = list(factor, 2 * factor)),
    density_glm(x = design, y = y, family = binomial()), density_glm(x = design, y = 3 * y, family = poisson()),
    density_glm(x = design, y = y, sigma = 1, prior_df = 3),
    density_product(normal, density_tempered(density_mixture(c(1, 2), components = list(normal, full)), 0.5)),
    density_function(function(x) -rowSums(x^2) / 2)
  )
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
