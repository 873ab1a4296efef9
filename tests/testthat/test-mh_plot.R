# Plots are made for every shape of result; what they show is the business of those who look.

plot_types <- c("trace", "density", "rank")

test_that("bayesplot draws every type", {
  skip_if_not_installed("bayesplot")
  fits <- list(small_run(40), small_run(40, n_chains = 1), small_run(40)[, 1], small_run(40, n_chains = 20))
  for (fit in fits) {
    for (type in plot_types) {
      expect_s3_class(plot(fit, type), "ggplot")
    }
  }
  shown <- plot(small_run(40, n_chains = 20), parameters = "b", n_chains = 4)
  expect_length(unique(shown$data$chain), 4)
  expect_identical(as.character(unique(shown$data$parameter)), "b")
})

test_that("base graphics draw every type", {
  grDevices::pdf(NULL)
  withr::defer(grDevices::dev.off())
  before <- graphics::par("mfrow")
  for (n_chains in c(1, 3)) {
    for (type in plot_types) {
      expect_silent(draw_base(small_run(40, n_chains = n_chains)$draws, type))
    }
  }
  expect_identical(graphics::par("mfrow"), before)
})

test_that("a sample is shown with a message, nothing is an error", {
  skip_if_not_installed("bayesplot")
  expect_message(plot(small_run(40, keep = "summary")), class = "fusedmc_message_sample")
  expect_input_error(plot(small_run(0, n_warmup = 0)), "x", "kept states")
  expect_input_error(plot(small_run(4), "pie"), "type", "pie")
  expect_input_error(plot(small_run(4), parameters = "z"), "parameters", "z")
  expect_input_error(plot(small_run(4), n_chains = 0), "n_chains", "0")
  expect_identical(spread_places(3, 8), 1:3)
  expect_identical(spread_places(100, 4), c(1, 26, 51, 76))
})
