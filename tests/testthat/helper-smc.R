# Runs of smc_sample() for the tests.

smc_bare <- function(fit) {
  fit$run <- NULL
  fit
}

# Two dims, three stages or so.
small_smc <- function(..., target = density_normal(c(a = 1, b = -1), c(0.5, 1)), initial = density_normal(0, 3),
                      n_particles = 512, seed = 1) {
  smc_sample(target, initial, n_particles, ..., seed = seed, backend = "cpu")
}

# A function of R that is interrupted, once, when it is called for the `when`-th time.
interrupted_target <- function(when) {
  calls <- 0
  density_function(n_dim = 2, function(x) {
    calls <<- calls + 1
    if (calls == when) {
      signalCondition(structure(class = c("interrupt", "condition"), list(message = "interrupted", call = NULL)))
    }
    -2 * (x[, 1] - 1)^2 - (x[, 2] + 1)^2 / 2
  })
}
