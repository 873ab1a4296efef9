# Particles in the hands of posterior.

test_that("posterior takes particles as they are, islands as chains", {
  skip_if_not_installed("posterior")
  fit <- small_smc(n_islands = 4)
  array <- posterior::as_draws_array(fit)
  expect_identical(posterior::variables(array), c("a", "b"))
  expect_identical(c(posterior::niterations(array), posterior::nchains(array)), c(128L, 4L))
  expect_identical(as.vector(array[, 2, "b"]), unname(fit$draws[129:256, "b"]))
  expect_identical(posterior::as_draws(fit), array)
  expect_identical(posterior::as_draws_df(fit), posterior::as_draws_df(array))
  expect_identical(posterior::as_draws_matrix(fit), posterior::as_draws_matrix(array))
  expect_identical(posterior::as_draws_list(fit), posterior::as_draws_list(array))
  expect_identical(posterior::as_draws_rvars(fit), posterior::as_draws_rvars(array))
  expect_equal(posterior::summarise_draws(fit, "mean")$mean, summary(fit)$mean, tolerance = 1e-12, ignore_attr = TRUE)
  one <- smc_sample(density_normal(0, 1), density_normal(0, 2), 64, n_dim = 1, seed = 1)
  expect_identical(dim(posterior::as_draws_array(one)), c(64L, 1L, 1L))
})
