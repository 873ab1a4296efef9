# Results in the hands of posterior.

test_that("posterior takes weighted draws in every format", {
  skip_if_not_installed("posterior")
  fit <- small_is(500, keep = "draws")
  matrix <- posterior::as_draws_matrix(fit)
  expect_identical(posterior::variables(matrix), c("a", "b"))
  expect_identical(posterior::as_draws(fit), matrix)
  expect_identical(unname(unclass(matrix)[, "a"]), unname(fit$draws[, "a"]))
  for (format in c("matrix", "array", "df", "list", "rvars")) {
    converted <- getExportedValue("posterior", paste0("as_draws_", format))(fit)
    expect_s3_class(converted, paste0("draws_", format))
    expect_identical(posterior::ndraws(converted), 500L)
    expect_equal(as.vector(weights(converted)), weights(fit), tolerance = 1e-12)
  }
  chosen <- posterior::resample_draws(matrix, ndraws = 50)
  expect_identical(posterior::ndraws(chosen), 50L)
})

test_that("resampled draws carry no weights, sums alone are refused", {
  skip_if_not_installed("posterior")
  fit <- small_is(500, keep = "resampled", n_resample = 40)
  expect_null(weights(posterior::as_draws_matrix(fit)))
  expect_identical(posterior::ndraws(posterior::as_draws_df(fit)), 40L)
  expect_input_error(posterior::as_draws_df(small_is(500)), "x", "keep = \"draws\"")
})

test_that("weights of zero stay", {
  skip_if_not_installed("posterior")
  half <- density_function(function(x) ifelse(x[, 1] > 0, 0, -Inf), 2)
  fit <- small_is(100, target = half, keep = "draws")
  expect_identical(as.vector(weights(posterior::as_draws_df(fit))) == 0, fit$draws[, 1] <= 0)
})
