# Where chains start: init of every kind, superchains, errors that name rows.

starts_of <- function(init, target = density_normal(c(0, 1, 2), 1), ...) {
  mh_sample(target, init, n_steps = 0, n_warmup = 0, seed = 6, ...)$state$x
}

test_that("a matrix or a data frame is taken as it is", {
  x <- grid_matrix(7, 3, 96)
  expect_identical(starts_of(x), x)
  expect_identical(starts_of(as.data.frame(x)), x)
  expect_identical(starts_of(matrix(1:6, 2)), matrix(as.double(1:6), 2))
  expect_identical(starts_of(x, precision = "single"), f32(x))
})

test_that("the seed of starts is made of words of purpose 4", {
  for (seed in c(0, 1, 2^53)) {
    words <- oracle_words(seed, 4, 0, 0, 0)
    # the top 53 bits of two words
    expect_identical(start_seed(seed), words[1] * 2^21 + floor(words[2] / 2^11))
  }
})

# Draws number 0 to n - 1 of a standard normal, from the words.
oracle_draws <- function(n, n_dim, seed, offset = 0) {
  words <- function(d) oracle_words(seed, 2, 0, d %/% 4, seq_len(n) - 1, offset)[, d %% 4 + 1]
  vapply(seq_len(n_dim) - 1, function(d) oracle_normal(words(d)), numeric(n))
}

test_that("numbers are scattered around with sd 0.1, by words of their own", {
  n <- 5
  x <- starts_of(c(0, 100, -3), n_chains = n)
  z <- oracle_draws(n, 3, start_seed(6))
  expect_identical(x, rep(c(0, 100, -3), each = n) + rep(0.1, 3 * n) * z)
  many <- starts_of(c(0, 100, -3), n_chains = 4000, n_superchains = 4000)
  expect_identical(many[1:n, ], x)
  expect_mc(apply(many, 2, stats::sd), 0.1, 0.1 / sqrt(2 * 4000))
  expect_mc(colMeans(many), c(0, 100, -3), 0.1 / sqrt(4000))
  later <- starts_of(c(0, 100, -3), n_chains = 10, n_superchains = 10, chain_offset = 2)
  expect_identical(later[1:3, ], x[3:5, ])
})

test_that("a density is drawn from, with other words than draw() with the run's seed", {
  init <- density_mvnormal(c(5, 0, 0), diag(3) + 0.5)
  x <- starts_of(init, n_chains = 8)
  expected <- draw(init, 8, seed = start_seed(6))
  expect_identical(x, matrix(expected, 8))
  expect_false(any(x %in% draw(init, 8, seed = 6)))
  expect_identical(starts_of(density_normal(0, 1), n_chains = 8), oracle_draws(8, 3, start_seed(6)))
})

test_that("without init starts are standard normal, or around the prior of a regression", {
  expect_identical(starts_of(NULL, n_chains = 8), oracle_draws(8, 3, start_seed(6)))
  wide <- density_glm(dist ~ speed, cars, prior_mean = c(10, 3), prior_sd = c(100, 0.2))
  z <- oracle_draws(8, 3, start_seed(6))
  expect_identical(starts_of(NULL, wide, n_chains = 8), rep(c(10, 3, 0), each = 8) + rep(c(1, 0.2, 1), each = 8) * z)
})

test_that("an earlier result gives its last states and its step size", {
  fit <- small_run(50, n_warmup = 100)
  new <- mh_sample(fit$target, fit, n_steps = 20, adapt = FALSE, seed = 12)
  path <- mh_sample(fit$target, fit$state$x, n_steps = 20, adapt = FALSE, seed = 12, step_size = fit$step_size)
  expect_identical(unname(new$draws), unname(path$draws))
  expect_identical(new$parameters, fit$parameters)
  other <- mh_sample(fit$target, fit, n_steps = 5, adapt = FALSE, seed = 12, step_size = 3)
  expect_identical(other$step_size, c(3, 3))
  expect_input_error(mh_sample(fit$target, fit, seed = 11), "seed", "another than that of `init`")
  expect_input_error(mh_sample(fit$target, fit[1:2]), "init", "mh_split()")
  expect_input_error(mh_sample(fit$target, fit, n_chains = 7), "n_chains", "5, as `init` has")
})

test_that("chains of a superchain start together, and part at once", {
  run <- function(...) mh_sample(density_normal(c(0, 1, 2), 1), n_steps = 0, n_warmup = 0, seed = 6, ...)
  fit <- run(n_chains = 12, n_superchains = 3)
  expect_identical(fit$superchain, rep(1:3, each = 4))
  all <- starts_of(NULL, n_chains = 12, n_superchains = 12)
  expect_identical(fit$state$x, all[rep(c(1, 5, 9), each = 4), ])
  moved <- mh_resume(fit, 50)
  expect_identical(anyDuplicated(moved$state$x), 0L)
  expect_identical(run(n_chains = 64)$superchain, rep(1:16, each = 4))
  expect_identical(run(n_chains = 16)$superchain, 1:16)
  expect_identical(run(n_chains = 100)$superchain, 1:100)
  x <- grid_matrix(64, 3, 97)
  expect_identical(run(init = x)$superchain, 1:64)
  x <- x[rep(c(1, 33), each = 32), ]
  expect_identical(run(init = x, n_superchains = 2)$superchain, rep(1:2, each = 32))
  error <- expect_input_error(run(init = x, n_superchains = 1), "init", "rows agree within a superchain")
  expect_match(conditionMessage(error), "rows 33, 34, 35, 36, 37 and 27 more", fixed = TRUE)
})

test_that("starts that are not finite are an error naming the rows", {
  x <- matrix(0, 6, 3)
  x[2, 1] <- NA
  x[5, 2] <- NaN
  x[6, 3] <- Inf
  expect_input_error(starts_of(x), "init", "rows 2, 5 and 6")
  half <- density_function(function(x) ifelse(x[, 1] > 0, -x[, 1]^2 / 2, -Inf), n_dim = 1)
  expect_input_error(mh_sample(half, matrix(c(-1, 0.5)), seed = 1), "row 1", "not finite at the start")
  error <- expect_error(mh_sample(half, matrix(c(-1, 0.5, -2)), seed = 1), class = "fusedmc_error_input")
  expect_identical(error$rows, c(1L, 3L))
  # the other row goes its way
  alone <- mh_sample(half, matrix(0.5), n_steps = 20, adapt = FALSE, seed = 1, chain_offset = 1)
  expect_true(all(alone$draws > 0))
})

test_that("a bad init is an error that says what is wrong", {
  target <- density_normal(c(0, 1, 2), 1)
  any_dims <- density_normal(0, 1)
  expect_input_error(starts_of("zero"), "init", "zero")
  expect_input_error(starts_of(1:2), "init", "3 numbers")
  expect_input_error(starts_of(c(0, NA, 1)), "init", "finite")
  expect_input_error(starts_of(numeric()), "init")
  expect_input_error(starts_of(NULL, any_dims), "init", "any number of dims")
  expect_input_error(starts_of(density_normal(0, 1), any_dims), "init", "stated number of dims")
  expect_input_error(starts_of(density_normal(1:2, 1)), "init", "a density in 3 dims")
  expect_input_error(starts_of(density_glm(am ~ wt + hp, mtcars, family = "binomial")), "init", "drawn from")
  expect_input_error(starts_of(matrix("a", 2, 3)), "init")
  expect_input_error(starts_of(data.frame(a = 1, b = "x", c = 1)), "init", "\"b\"")
  expect_input_error(starts_of(matrix(0, 2, 0)), "init", "column")
  expect_input_error(starts_of(NULL, n_chains = 0), "n_chains", "0")
  expect_input_error(starts_of(NULL, n_chains = 2.5), "n_chains", "2.5")
  expect_input_error(starts_of(stats::setNames(numeric(3), c("a", "a", "b")), n_chains = 2), "init", "all different")
})
