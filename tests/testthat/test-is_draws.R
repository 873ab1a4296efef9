# Methods of results.

test_that("summary() has quantiles and standard errors where there are draws", {
  fit <- small_is(5000, keep = "draws")
  out <- summary(fit, probs = c(0.1, 0.5))
  expect_identical(names(out), c("variable", "mean", "sd", "mcse", "q10", "q50"))
  expect_identical(out$variable, c("a", "b"))
  expect_identical(out$mean, unname(fit$mean))
  w <- exp(fit$log_weights) / sum(exp(fit$log_weights))
  for (d in 1:2) {
    expect_equal(out$mcse[d], sqrt(sum(w^2 * (fit$draws[, d] - fit$mean[d])^2)), tolerance = 1e-10)
    expect_identical(
      unname(unlist(out[d, 5:6])), weighted_quantile(unname(fit$draws[, d]), c(0.1, 0.5), fit$log_weights)
    )
  }
  expect_mc(out$mean, c(1.1, 0.7), out$mcse)
  diagnostics <- attr(out, "diagnostics")
  expect_identical(diagnostics$ess, fit$ess)
  expect_length(diagnostics, 9)

  lean <- summary(small_is(5000))
  expect_identical(lean$mean, out$mean)
  expect_true(all(is.na(lean[, c("mcse", "q5", "q50", "q95")])))
  chosen <- summary(small_is(5000, keep = "resampled", n_resample = 500))
  expect_identical(chosen$sd, out$sd)
  expect_true(all(is.na(chosen$mcse)) && !anyNA(chosen$q50))
  expect_input_error(summary(fit, probs = 2), "probs", "2")
})

test_that("dropped and zero-weight draws leave no trace in a summary", {
  holes <- density_function(function(x) ifelse(x[, 1] > 2, NaN, ifelse(x[, 1] < 0, -Inf, -rowSums(x^2) / 2)), 2)
  fit <- suppressWarnings(small_is(2000, target = holes, nonfinite = "drop", keep = "draws"))
  spoilt <- fit
  spoilt$draws[spoilt$log_weights == -Inf, ] <- NaN
  expect_identical(summary(spoilt), summary(fit))
  nowhere <- density_function(function(x) rep(-Inf, nrow(x)), 2)
  empty <- suppressWarnings(small_is(50, target = nowhere, keep = "draws"))
  expect_true(all(is.na(summary(empty)[, -1])))
})

test_that("print() says what there is", {
  said <- function(...) paste(capture.output(print_quietly_shown(small_is(...))), collapse = "\n")
  print_quietly_shown <- function(x) {
    out <- print(x)
    expect_identical(out, x)
  }
  text <- said(20000)
  for (part in c("20,000 samples (only sums stored), 2 parameters", "ESS", "log mean weight", "Pareto k", "seed: 31")) {
    expect_match(text, part, fixed = TRUE)
  }
  expect_false(grepl("mcse|q50", text))
  expect_match(said(2000, keep = "draws"), "mcse.*q5 .*q95")
  expect_match(said(2000, keep = "resampled", n_resample = 10), "10 draws resampled")
  expect_match(said(10, 4096), "\nsamples from number 4096 on\nseed: 31; double precision", fixed = TRUE)
  last <- small_is(2000, 2^52, seed = 2^53, keep = "draws")
  shown <- grep("^target|^proposal", capture.output(print(last)), value = TRUE, invert = TRUE)
  expect_lte(max(nchar(shown)), 80)
  expect_match(said(1), "1 sample ", fixed = TRUE)
  expect_match(said(0), "0 samples")
  expect_match(said(10, proposal = list(is_proposal(), is_proposal())), "proposal: 2 in turn: Student t")
  wide <- small_is(10, target = density_normal(numeric(15), 1), proposal = density_normal(0, 2))
  expect_output(print(wide), "... 5 more", fixed = TRUE)
  expect_output(print(wide, n_parameters = 15), "x[15]", fixed = TRUE)
  stored <- is_summary(matrix(0, 3, 1), log_weights = c(0, -Inf, 0))
  text <- capture.output(print(stored))
  expect_false(any(grepl("seed|target|proposal", text)))
  expect_true(any(grepl("1 sample of weight zero", text)))
  holes <- density_function(function(x) ifelse(x[, 1] > 2, NaN, 0), 2)
  expect_output(print(suppressWarnings(small_is(500, target = holes, nonfinite = "drop"))), "dropped for a log weight")
  nowhere <- density_function(function(x) rep(-Inf, nrow(x)), 2)
  expect_output(print(suppressWarnings(small_is(50, target = nowhere))), "ESS 0: all weights are zero", fixed = TRUE)
  expect_output(print(small_is(1)), "largest weight: 100% of the sum", fixed = TRUE)
})

test_that("vcov() and weights()", {
  fit <- small_is(3000, keep = "draws", covariance = TRUE)
  expect_identical(vcov(fit), fit$cov)
  expect_identical(sqrt(diag(vcov(fit))), fit$sd)
  expect_equal(sum(weights(fit)), 1, tolerance = 1e-12)
  expect_input_error(vcov(small_is(10)), "object", "covariance = TRUE")
  expect_input_error(weights(small_is(10)), "object", "keep = \"draws\"")
  expect_input_error(weights(small_is(10, keep = "resampled")), "object")
})

test_that("packed rows become a symmetric matrix", {
  expect_identical(from_packed_rows(as.double(1:6), 3), rbind(c(1, 2, 4), c(2, 3, 5), c(4, 5, 6)))
  expect_identical(from_packed_rows(7, 1), matrix(7))
})

test_that("the number of parameters to print is checked", {
  fit <- importance_sample(density_normal(), density_normal(0, 2), 100, n_dim = 3, seed = 1)
  expect_input_error(print(fit, n_parameters = 0), "n_parameters", "it is 0")
  expect_input_error(print(fit, n_parameters = "a"), "n_parameters", "character")
  expect_output(print(fit, n_parameters = 1), "2 more")
})
