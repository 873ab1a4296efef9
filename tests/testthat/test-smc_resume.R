# smc_resume(): interrupted anywhere, the result is that of a run that was not.

test_that("a run that is interrupted at any call of its target goes on to the same bits", {
  counted_target <- interrupted_target(Inf)
  run <- function(target) smc_sample(target, density_normal(0, 3), 128, n_islands = 4, n_moves = 5, seed = 1)
  whole <- run(counted_target)
  n_calls <- environment(counted_target$f)$calls
  expect_gt(n_calls, 20)
  temperatures <- numeric()
  failed <- character()
  for (when in seq.int(2, n_calls)) {
    kind <- NULL
    part <- withCallingHandlers(run(interrupted_target(when)), fusedmc_warning_interrupted = function(w) {
      kind <<- class(w)[1]
      invokeRestart("muffleWarning")
    })
    temperatures <- c(temperatures, part$beta)
    resumed <- smc_resume(part)
    resumed$target <- whole$target
    said <- identical(kind, "fusedmc_warning_interrupted") && nrow(part$draws) == 128 && all(is.finite(part$islands))
    if (!said || !same_bits(smc_bare(resumed), smc_bare(whole))) {
      failed <- c(failed, format(when))
    }
  }
  expect_none(failed)
  expect_false(is.unsorted(temperatures))
  expect_identical(unique(temperatures), whole$temperatures[-1])
})

test_that("stages in several calls are those of one, also after saving", {
  whole <- small_smc(progress = FALSE)
  expect_warning(part <- small_smc(max_stages = 1), class = "fusedmc_warning_unfinished")
  expect_lt(part$beta, 1)
  expect_identical(part$temperatures, c(0, part$beta))
  path <- withr::local_tempfile(fileext = ".rds")
  saveRDS(part, path)
  expect_warning(more <- smc_resume(readRDS(path), max_stages = 2), class = "fusedmc_warning_unfinished")
  expect_identical(nrow(more$stages), 2L)
  expect_same_bits(smc_bare(smc_resume(more)), smc_bare(whole))
  expect_same_bits(smc_bare(smc_resume(part)), smc_bare(whole))
  expect_identical(smc_resume(whole), whole)
  expect_warning(same <- smc_resume(part, max_stages = 1), class = "fusedmc_warning_unfinished")
  expect_identical(same$draws, part$draws)
})

test_that("counts and warnings of bad proposals go on", {
  target <- density_function(n_dim = 2, function(x) ifelse(x[, 1] > 1, NaN, -2 * rowSums(x^2)))
  run <- function(...) {
    suppressWarnings(smc_sample(target, density_normal(0, 3), 128, seed = 1, nonfinite = "drop", ...))
  }
  whole <- run()
  part <- run(max_stages = 1)
  expect_gt(part$not_finite[["n"]], 0)
  expect_gt(whole$not_finite[["n"]], part$not_finite[["n"]])
  expect_warning(resumed <- smc_resume(part), sprintf("Rejected %d proposals", whole$not_finite[["n"]]))
  expect_same_bits(smc_bare(resumed), smc_bare(whole))
  # stopped before the first stage, dropped particles are still known
  start <- suppressWarnings(small_smc(target = interrupted_target(2)))
  expect_identical(start$beta, start$stages$beta)
})

test_that("a target that has changed is refused", {
  expect_warning(part <- small_smc(max_stages = 1))
  expect_input_error(smc_resume(part, target = density_normal(c(0, 0), 1)), "target", "the one that `fit`")
  expect_same_bits(smc_resume(part, target = part$target)$draws, smc_resume(part)$draws)
  scale <- 1
  changing <- density_function(n_dim = 2, function(x) -scale * rowSums(x^2))
  expect_warning(part <- small_smc(target = changing, max_stages = 1))
  scale <- 2
  expect_input_error(smc_resume(part), "target", "its log density is not what it was")
})

test_that("bad arguments of smc_resume() are errors that name them", {
  expect_input_error(smc_resume(list()), "fit")
  fit <- small_smc()
  expect_input_error(smc_resume(fit, max_stages = 0), "max_stages", "0")
  expect_input_error(smc_resume(fit, backend = "gpu"), "backend", "gpu")
  expect_input_error(smc_resume(fit, progress = NA), "progress")
})

test_that("Ctrl-C gives back what is done, soon, and resuming completes it to the bit", {
  skip_on_cran()
  skip_on_os("windows")
  out <- run_in_fresh_r(c(
    "X <- matrix(seq(-1, 1, length.out = 20000 * 8)^c(1, 2, 3), 20000)",
    "target <- density_glm(x = X, y = rep(c(0, 1, 1, 0, 1), 4000), family = binomial())",
    "run <- function(...) smc_sample(target, density_normal(0, 2.5), 256, n_moves = 8, seed = 1, backend = 'cpu', ...)",
    "kind <- NULL",
    "system(sprintf('(sleep 0.5; kill -INT %d) &', Sys.getpid()))",
    "started <- proc.time()[['elapsed']]",
    "fit <- withCallingHandlers(run(),",
    "  fusedmc_warning_interrupted = function(w) { kind <<- class(w)[1]; invokeRestart('muffleWarning') })",
    "seconds <- proc.time()[['elapsed']] - started",
    "stage <- nrow(fit$stages)",
    "cat(kind, if (seconds < 2) 'soon' else seconds, '\\n')",
    "bare <- function(fit) { fit$run <- NULL; fit }",
    "more <- suppressWarnings(smc_resume(fit, max_stages = stage + 1))",
    "all <- suppressWarnings(run(max_stages = stage + 1))",
    "cat('same', identical(bare(more), bare(all)), '\\n')"
  ))
  lines <- grep("^(same|fusedmc)", out$output, value = TRUE)
  expect_identical(lines, c("fusedmc_warning_interrupted soon ", "same TRUE "))
})
