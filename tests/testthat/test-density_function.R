# A density that is a function of R.

half_normal <- function(x) ifelse(x[, 1] >= 0, -x[, 1]^2 / 2, -Inf)

test_that("steps and weights are those of the same density in C", {
  x <- matrix(grid_values(300, 11), 100, 3, dimnames = list(NULL, c("a", "b", "c")))
  for (precision in case_precisions) {
    in_r <- density_function(function(x) log_density(density_normal(1, 2), x, precision = precision, backend = "cpu"))
    for (step in list(0.4, c(0.1, 0.2, 0.3), case_step("lower", 3))) {
      expect_same_bits(
        unclass(mh_step(x, in_r, step, seed = 4, precision = precision)),
        unclass(mh_step(x, density_normal(1, 2), step, seed = 4, precision = precision))
      )
    }
    expect_same_bits(
      unclass(is_weights(x, in_r, precision = precision)),
      unclass(is_weights(x, density_normal(1, 2), precision = precision))
    )
    expect_same_bits(
      unclass(is_weights(x, density_normal(), in_r, precision = precision)),
      unclass(is_weights(x, density_normal(), density_normal(1, 2), precision = precision))
    )
    expect_same_bits(
      log_density(in_r, x, precision = precision), log_density(density_normal(1, 2), x, precision = precision)
    )
  }
})

test_that("it is called with a matrix of all rows, column names and all, and given numbers are used", {
  seen <- list()
  f <- function(x) {
    seen[[length(seen) + 1]] <<- x
    -rowSums(x^2) / 2
  }
  x <- matrix(c(0.5, 1, 2, 3), 2, dimnames = list(c("r", "s"), c("a", "b")))
  out <- mh_step(x, density_function(f), 1, noise = matrix(1, 2, 2), u = c(0.5, 0.5))
  expect_length(seen, 2)
  expect_identical(colnames(seen[[2]]), c("a", "b"))
  expect_identical(unname(seen[[2]]), unname(x + 1))
  expect_identical(names(out$accepted), c("r", "s"))
})

test_that("whatever calls it names the columns by the parameters", {
  by_name <- density_function(n_dim = 2, function(x) {
    stopifnot(identical(colnames(x), c("a", "b")))
    -x[, "a"]^2 - x[, "b"]^2
  })
  wide <- density_normal(c(a = 0, b = 0), 3)
  starts <- draw(wide, 16, seed = 1)
  fit <- mh_sample(by_name, init = starts, n_steps = 4, n_warmup = 4, seed = 1)
  expect_identical(mh_resume(mh_resume(fit, 3), 2)$state, mh_resume(fit, 5)$state)
  expect_no_error(mh_sample(density_product(by_name, wide), init = wide, n_chains = 4, n_steps = 2, seed = 1))
  expect_warning(fit <- smc_sample(by_name, wide, 64, max_stages = 1, seed = 1), class = "fusedmc_warning_unfinished")
  expect_identical(smc_resume(fit)$beta, 1)
  expect_no_error(importance_sample(by_name, wide, 100, seed = 1))
  # without names of their own, those that the result has
  numbered <- density_function(function(x) -x[, "x[1]"]^2)
  expect_no_error(mh_sample(numbered, init = matrix(0, 4, 1), n_steps = 2, seed = 1))
})

test_that("starts outside the support are an error, proposals outside are rejected, NaN ones counted", {
  density <- density_function(half_normal, n_dim = 1)
  expect_input_error(mh_step(matrix(c(-1, 0.5)), density, seed = 1), "x", "row 1")
  out <- mh_step(matrix(rep(0.1, 1000)), density, 2, seed = 1)
  expect_true(all(out$x >= 0))
  expect_true(all(out$log_alpha[!out$accepted & out$log_alpha == -Inf] == -Inf))
  bad <- density_function(function(x) ifelse(x[, 1] > 1, NaN, 0), n_dim = 1)
  expect_warning(mh_step(matrix(rep(0.9, 100)), bad, 1, seed = 1), class = "fusedmc_warning_nonfinite")
})

test_that("errors, warnings and wrong values", {
  x <- matrix(0, 4, 2)
  expect_error(mh_step(x, density_function(function(x) stop("mine")), seed = 1), "mine", class = "simpleError")
  expect_warning(
    log_density(density_function(function(x) {
      warning("look")
      numeric(nrow(x))
    }), x), "look"
  )
  wrong <- list(1, rep("a", 4), NULL, matrix(0, 2, 2), factor(1:4), list(1, 2, 3, 4), rep(0, 5), x)
  for (value in wrong) {
    expect_input_error(log_density(density_function(function(x) value), x), "f(x)", "length 4")
  }
  expect_identical(log_density(density_function(function(x) matrix(1:4)), x), c(1, 2, 3, 4))
  expect_identical(log_density(density_function(function(x) c(TRUE, FALSE, NA, TRUE)), x), c(1, 0, NA, 1))
  expect_input_error(density_function(1), "f")
  for (n_dim in list(0, 1.5, "2", c(1, 2), NA, -1, Inf)) expect_input_error(density_function(sum, n_dim), "n_dim")
  expect_input_error(mh_step(x, density_function(rowSums, 3), seed = 1), "target", "3 dims")
})

test_that("it prints, and takes part in products, powers and mixtures", {
  f <- density_function(function(x) -rowSums(x^2) / 2, n_dim = 2)
  expect_output(print(f), "<density> function of R in 2 dims", fixed = TRUE)
  expect_output(print(density_function(sum)), "any number of dims")
  x <- grid_matrix(20, 2, 3)
  normal <- density_normal()
  expect_equal(log_density(density_product(f, normal), x), -rowSums(x^2) / 2 + log_density(normal, x))
  expect_equal(log_density(density_tempered(f, 0.25), x), -rowSums(x^2) / 8)
  both <- log_density(density_mixture(c(1, 3), components = list(f, normal)), x)
  expect_equal(both, log(0.25 * exp(-rowSums(x^2) / 2) + 0.75 * exp(log_density(normal, x))))
})
