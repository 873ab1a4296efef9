# Progress: silent unless asked for, on the standard error, in few lines.

test_that("scripts are silent by default, and standard output is never written to", {
  expect_silent(small_run(20))
  expect_output(suppressMessages(small_run(20, progress = TRUE)), NA)
})

test_that("a log gets at most ten lines, and none within half a second", {
  report <- plain_progress(1000)
  expect_silent(for (n in 1:1000) report$at(n))
  said <- testthat::capture_messages({
    for (n in c(50, 100, 150, 500, 1000)) {
      Sys.sleep(0.51)
      report$at(n)
    }
  })
  expect_identical(said, c("step 100 of 1000\n", "step 500 of 1000\n", "step 1000 of 1000\n"))
})

test_that("a run reports rising numbers of steps over warm-up and sampling", {
  seen <- numeric()
  slow <- density_function(function(x) {
    Sys.sleep(0.004)
    -rowSums(x^2) / 2
  })
  local_mocked <- list(at = function(n) seen <<- c(seen, n), close = function() seen <<- c(seen, Inf))
  fit <- small_run(0, target = slow, n_warmup = 0)
  fit$run$fresh <- TRUE
  fit$settings$n_warmup <- 1000
  take_samples(fit, 100, list("cpu"), NULL, local_mocked)
  expect_gt(length(seen), 2)
  expect_false(is.unsorted(seen))
  expect_gt(seen[1], 1000)
  expect_lte(seen[length(seen) - 1], 1100)
  expect_identical(seen[length(seen)], Inf)
})

test_that("knitr documents have none", {
  withr::local_options(knitr.in.progress = TRUE)
  expect_null(new_progress(10, NULL))
  expect_null(new_progress(10, FALSE))
  expect_null(new_progress(0, TRUE))
  expect_type(new_progress(10, TRUE), "list")
})

test_that("cli draws a bar", {
  skip_if_not_installed("cli")
  report <- cli_progress(10)
  expect_message(
    {
      report$at(5)
      report$close()
    },
    NA
  )
})
