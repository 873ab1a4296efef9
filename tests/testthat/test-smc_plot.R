# Plots are made for every shape of result; what they show is the business of those who look.

test_that("both types are drawn, and the device is left as it was", {
  grDevices::pdf(NULL)
  withr::defer(grDevices::dev.off())
  before <- graphics::par("mfrow")
  one <- smc_sample(density_normal(0, 1), density_normal(0, 2), 64, n_dim = 1, seed = 1)
  part <- suppressWarnings(small_smc(max_stages = 1))
  for (fit in list(small_smc(), one, part)) {
    for (type in c("stages", "hist")) {
      expect_silent(expect_invisible(plot(fit, type)))
    }
  }
  expect_silent(plot(small_smc(), "hist", parameters = "b"))
  expect_identical(graphics::par("mfrow"), before)
})

test_that("what is not there is an error", {
  expect_input_error(plot(small_smc(), "pie"), "type", "pie")
  expect_input_error(plot(small_smc(), "hist", parameters = "z"), "parameters", "z")
})
