# Results in the hands of posterior and coda.

test_that("posterior takes draws as they are", {
  skip_if_not_installed("posterior")
  fit <- small_run(30, n_warmup = 20)
  array <- posterior::as_draws_array(fit)
  expect_s3_class(array, "draws_array")
  expect_identical(posterior::variables(array), fit$parameters)
  expect_identical(c(posterior::niterations(array), posterior::nchains(array)), c(30L, 5L))
  expect_identical(as.vector(array), as.vector(fit$draws))
  expect_identical(posterior::as_draws(fit), array)
  expect_identical(posterior::as_draws_df(fit), posterior::as_draws_df(array))
  expect_identical(posterior::as_draws_matrix(fit), posterior::as_draws_matrix(array))
  expect_identical(posterior::as_draws_list(fit), posterior::as_draws_list(array))
  expect_identical(posterior::as_draws_rvars(fit), posterior::as_draws_rvars(array))
  out <- posterior::summarise_draws(fit, "mean", "sd")
  expect_equal(out$mean, summary(fit)$mean, tolerance = 1e-12, ignore_attr = TRUE)
  expect_equal(out$sd, summary(fit)$sd, tolerance = 1e-12, ignore_attr = TRUE)
})

test_that("coda takes draws as they are, with the numbers of their steps", {
  skip_if_not_installed("coda")
  fit <- small_run(30, n_warmup = 20, thin = 3)
  chains <- coda::as.mcmc.list(fit)
  expect_identical(coda::nchain(chains), 5L)
  expect_identical(coda::varnames(chains), fit$parameters)
  expect_identical(unclass(chains[[2]])[, 1], unname(fit$draws[, 2, 1]))
  expect_equal(c(stats::start(chains), stats::end(chains), coda::thin(chains)), c(23, 50, 3))
})

test_that("a sample in place of draws says so", {
  skip_if_not_installed("posterior")
  fit <- small_run(30, keep = "summary")
  expect_message(array <- posterior::as_draws_array(fit), class = "fusedmc_message_sample")
  expect_message(posterior::as_draws_df(fit), "30 states of each chain, of 30 kept")
  expect_identical(as.vector(array), as.vector(fit$sample))
  fit["sample"] <- list(NULL)
  expect_message(array <- posterior::as_draws_array(fit), "1 state of each chain, of 30 kept")
  expect_identical(as.vector(array), as.vector(fit$state$x))
  expect_silent(posterior::as_draws_array(small_run(30)))
})

test_that("one dim and one chain are no special case", {
  skip_if_not_installed("posterior")
  skip_if_not_installed("coda")
  fit <- mh_sample(density_normal(0, 1), matrix(0), n_steps = 20, adapt = FALSE, seed = 1)
  expect_identical(dim(posterior::as_draws_array(fit)), c(20L, 1L, 1L))
  expect_identical(dim(coda::as.mcmc.list(fit)[[1]]), c(20L, 1L))
})
