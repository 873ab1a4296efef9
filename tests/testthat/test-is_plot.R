# Plots are made for every kind of result; what they show is the business of those who look.

test_that("tail and weights are drawn", {
  grDevices::pdf(NULL)
  withr::defer(grDevices::dev.off())
  for (fit in list(small_is(5000), small_is(10), small_is(1), small_is(5000, n_tail = 50))) {
    expect_identical(withVisible(plot(fit)), list(value = fit, visible = FALSE))
  }
  fit <- small_is(5000, keep = "draws")
  expect_identical(plot(fit, "weights"), fit)
  heavy <- small_is(5000, target = density_normal(c(0, 0), 2), proposal = density_normal(c(0, 0), 1))
  expect_identical(plot(heavy), heavy)
  expect_input_error(plot(fit, "pie"), "type", "pie")
  expect_input_error(plot(small_is(10), "weights"), "x", "keep = \"draws\"")
  expect_input_error(plot(small_is(10, n_tail = 0)), "x", "n_tail")
  expect_input_error(plot(small_is(0)), "x")
})
