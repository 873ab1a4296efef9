# Cutting results: `[`, dim(), dimnames().

test_that("chains and parameters are taken by number, by name and by what is left out", {
  fit <- small_run(40, n_warmup = 30, target = density_normal(0, 1))
  fit <- mh_sample(fit$target, data.frame(a = 1:6 / 6, b = 0, c = 1), n_steps = 40, seed = 2)
  part <- fit[2:3, c("a", "c")]
  expect_s3_class(part, "mh_draws")
  expect_identical(part$draws, fit$draws[, 2:3, c("a", "c"), drop = FALSE])
  expect_identical(part$state$x, fit$state$x[2:3, c(1, 3)])
  expect_identical(part$acceptance, fit$acceptance[2:3])
  expect_identical(dim(part), c(40, 2, 2))
  expect_identical(part$parameters, c("a", "c"))
  expect_identical(fit[-1]$draws, fit$draws[, 2:6, , drop = FALSE])
  expect_identical(fit[, -2]$parameters, c("a", "c"))
  expect_identical(fit[c(TRUE, FALSE), "b"]$draws, fit$draws[, c(1, 3, 5), "b", drop = FALSE])
  expect_identical(nrow(fit), 40)
  expect_identical(ncol(fit), 6)
  one <- summary(fit)
  two <- summary(fit[, "b"])
  expect_identical(two[-1], `rownames<-`(one[2, -1], NULL))
  few <- summary(fit[2:3, ])
  expect_equal(few$mean, unname(apply(fit$draws[, 2:3, ], 3, mean)), tolerance = 1e-12)
  expect_identical(few$max, unname(apply(fit$draws[, 2:3, ], 3, max)))
})

test_that("where no draws are stored, minimum and maximum of some chains are not known", {
  fit <- small_run(40, keep = "summary")
  expect_true(all(is.na(summary(fit[1:2])[c("min", "max")])))
  expect_identical(summary(fit[, 2])$min, summary(fit)$min[2])
})

test_that("what is not there is an error", {
  fit <- small_run(10)
  expect_input_error(fit[6], "chains", "6")
  expect_input_error(fit[0], "chains")
  expect_input_error(fit[c(1, 1)], "chains", "none twice")
  expect_input_error(fit["a"], "chains")
  expect_input_error(fit[NA], "chains")
  expect_input_error(fit[, "z"], "parameters", "z")
  expect_input_error(fit[, 3], "parameters", "3")
  expect_input_error(fit[list(1)], "chains")
})

test_that("superchains that are cut unevenly are no groups for nested R-hat", {
  fit <- mh_sample(density_normal(0, 1), c(0, 0), n_chains = 8, n_superchains = 2, n_steps = 50, seed = 3)
  expect_equal(summary(fit[c(1, 2, 5, 6)])$rhat[1], oracle_nested_rhat(fit$draws[, c(1, 2, 5, 6), 1], c(1, 1, 2, 2)))
  expect_identical(summary(fit[1:5])$rhat[1], split_rhat(fit$draws[, 1:5, 1]))
})

test_that("a result survives saving", {
  file <- withr::local_tempfile(fileext = ".rds")
  for (keep in c("draws", "summary")) {
    fit <- small_run(20, keep = keep)
    saveRDS(fit, file)
    expect_identical(readRDS(file), fit)
  }
})
