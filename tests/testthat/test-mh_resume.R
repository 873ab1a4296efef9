# A run that is continued, split, joined or done by others is to the bit the run that never stopped.

whole_run <- function(n_steps, ...) small_run(n_steps, n_warmup = 30, batch = 4, ...)

in_pieces <- function(fit, sizes) {
  for (size in sizes) fit <- mh_resume(fit, size)
  fit
}

test_that("resuming is as never having stopped, in pieces of 1, 7 or all", {
  for (keep in c("draws", "summary")) {
    for (shape in c("diagonal", "full")) {
      all <- bare(whole_run(60, keep = keep, adapt_shape = shape))
      start <- whole_run(4, keep = keep, adapt_shape = shape)
      expect_same_bits(bare(in_pieces(start, 56)), all)
      expect_same_bits(bare(in_pieces(start, rep(7, 8))), all)
      expect_same_bits(bare(in_pieces(start, rep(1, 56))), all)
    }
  }
  thinned <- whole_run(60, thin = 3, precision = "single")
  expect_same_bits(bare(in_pieces(whole_run(6, thin = 3, precision = "single"), c(3, 51))), bare(thinned))
  expect_same_bits(bare(in_pieces(whole_run(0, thin = 3, precision = "single"), 60)), bare(thinned))
})

test_that("a density that is a function of R resumes too", {
  target <- density_function(function(x) -rowSums(abs(x)))
  all <- bare(whole_run(40, target = target))
  expect_same_bits(bare(in_pieces(whole_run(11, target = target), c(1, 28))), all)
})

test_that("a result that was saved and read is resumed in a fresh process", {
  file <- withr::local_tempfile(fileext = ".rds")
  fit <- whole_run(20)
  saveRDS(fit, file)
  expect_same_bits(bare(mh_resume(readRDS(file), 40)), bare(whole_run(60)))
  out <- run_in_fresh_r(c(
    sprintf("fit <- mh_resume(readRDS(%s), 40)", deparse(file)), sprintf("saveRDS(fit, %s)", deparse(file))
  ))
  expect_identical(out$status, 0L)
  expect_same_bits(bare(readRDS(file)), bare(whole_run(60)))
})

test_that("the step size is frozen after warm-up", {
  fit <- small_run(50, n_warmup = 100)
  more <- mh_resume(fit, 200)
  expect_identical(more$step_size, fit$step_size)
  expect_identical(more$warmup, fit$warmup)
  expect_identical(more$settings$n_warmup, 100)
})

test_that("the sample of a resumed run is that of the longer run", {
  target <- density_normal(0, 1)
  run <- function(n_steps) {
    mh_sample(target, matrix(0, 100, 100), n_steps = n_steps, keep = "summary", batch = 3, adapt = FALSE, seed = 1)
  }
  all <- run(500)
  expect_identical(all$settings$store, 4)
  expect_identical(dim(all$sample), c(125L, 100L, 100L))
  expect_same_bits(bare(in_pieces(run(150), c(10, 340))), bare(all))
})

test_that("draws can become a sample, but not the other way", {
  fit <- whole_run(20)
  expect_same_bits(bare(mh_resume(fit, 40, keep = "summary")), bare(whole_run(60, keep = "summary")))
  expect_identical(mh_resume(fit, 4, keep = "draws")$draws, whole_run(24)$draws)
  expect_input_error(mh_resume(whole_run(20, keep = "summary"), 4, keep = "draws"), "keep", "draws")
})

test_that("a target that has changed is refused, by what it is or by what it gives", {
  fit <- whole_run(20)
  expect_input_error(mh_resume(fit, 4, target = density_normal(0, 1)), "target")
  expect_identical(mh_resume(fit, 4, target = fit$target)$draws, whole_run(24)$draws)
  changed <- fit
  changed$target <- density_normal(c(0, 1), c(1, 3))
  error <- expect_input_error(mh_resume(changed, 4), "target", "init = fit")
  expect_match(conditionMessage(error), "rows 1, 2, 3, 4")
  scale <- 1
  by_data <- density_function(function(x) -rowSums(x^2) * scale)
  fit <- small_run(20, target = by_data)
  expect_identical(dim(mh_resume(fit, 5)), c(25, 5, 2))
  scale <- 2
  expect_input_error(mh_resume(fit, 5), "target", "its log density is not what it was")
  scale <- NaN
  expect_input_error(mh_resume(fit, 5), "target", "its log density is not what it was")
  new <- mh_sample(density_normal(0, 1), init = fit, n_steps = 5, adapt = FALSE, seed = 77)
  expect_identical(new$step_size, fit$step_size)
})

test_that("bad arguments of mh_resume() are errors that name them", {
  fit <- whole_run(20)
  expect_input_error(mh_resume(1, 10), "fit")
  expect_input_error(mh_resume(fit[1:2, ], 10), "fit", "mh_split()")
  expect_input_error(mh_resume(fit, 1.5), "n_steps", "1.5")
  expect_input_error(mh_resume(whole_run(20, thin = 4), 6), "n_steps", "multiple")
  expect_input_error(mh_resume(fit, 2^32 - 20), "n_steps", "4294967246")
  expect_input_error(mh_resume(fit, 5, keep = "all"), "keep", "all")
  expect_input_error(mh_resume(fit, 5, workers = "two"), "workers", "two")
})

test_that("Ctrl-C gives back what is done, and resuming completes it to the bit", {
  skip_on_cran()
  skip_on_os("windows")
  out <- run_in_fresh_r(c(
    "target <- density_normal(0, 1)",
    "run <- function(n_steps, n_warmup, target) mh_sample(target, matrix(0, 64, 8), n_steps = n_steps,",
    "  n_warmup = n_warmup, thin = 10, keep = 'summary', adapt = FALSE, seed = 1, batch = 100, backend = 'cpu')",
    "slow <- density_function(function(x) { Sys.sleep(1e-4); -rowSums(x^2) / 2 })",
    "for (case in 1:3) {",
    "  target <- if (case == 2) slow else density_normal(0, 1)",
    "  kind <- NULL",
    "  system(sprintf('(sleep 0.5; kill -INT %d) &', Sys.getpid()))",
    "  started <- proc.time()[['elapsed']]",
    "  fit <- withCallingHandlers(run(1e8, if (case == 3) 1e8 else 0, target),",
    "    fusedmc_warning_interrupted = function(w) { kind <<- class(w)[1]; invokeRestart('muffleWarning') })",
    "  seconds <- proc.time()[['elapsed']] - started",
    "  n <- fit$state$step",
    "  add <- 100 - fit$state$n_since",
    "  more <- if (n < 1e7) mh_resume(fit, add)",
    "  if (case != 3 && n < 1e5) {",
    "    all <- run(n + add, 0, target)",
    # the sample's stride is that of the run as it was planned
    "    for (part in c('run', 'sample', 'settings')) more[[part]] <- all[[part]] <- NULL",
    "    cat('same', identical(more, all), '')",
    "  }",
    "  cat(kind, n > 0 && n < 1e8, if (seconds < 2) 'soon' else seconds, dim(fit)[1] == n %/% 10, '\\n')",
    "}"
  ))
  lines <- grep("fusedmc_warning", out$output, value = TRUE)
  expect_length(lines, 3)
  expect_match(lines, "fusedmc_warning_interrupted TRUE soon (TRUE|FALSE)")
  expect_match(lines[2], "same TRUE")
  expect_match(lines[1:2], "soon TRUE")
  expect_false(any(grepl("same FALSE", lines)))
})

test_that("Ctrl-C does not wait for the next kept state", {
  skip_on_cran()
  skip_on_os("windows")
  out <- run_in_fresh_r(c(
    "slow <- density_glm(x = matrix(rnorm(4e5), 4e4), y = rbinom(4e4, 1, 0.5), family = 'binomial')",
    "run <- function(n_steps) mh_sample(slow, matrix(0, 64, 10), n_steps = n_steps, n_warmup = 0, thin = 1e6,",
    "  keep = 'summary', adapt = FALSE, step_size = 0.01, seed = 1, batch = 100, backend = 'cpu')",
    "system(sprintf('(sleep 0.5; kill -INT %d) &', Sys.getpid()))",
    "started <- proc.time()[['elapsed']]",
    "fit <- suppressWarnings(run(1e6))",
    "seconds <- proc.time()[['elapsed']] - started",
    "n <- fit$state$step",
    "more <- mh_resume(fit, 3)",
    "cat('end', n > 0 && n < 1e6, fit$state$n_since == n, more$state$n_since == n + 3, fit$state$n_kept,",
    "  if (seconds < 2.5) 'soon' else seconds, '\\n')"
  ))
  expect_match(grep("^end", out$output, value = TRUE), "end TRUE TRUE TRUE 0 soon")
})
