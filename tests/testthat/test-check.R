# Every bad argument of mh_step() and is_weights() is an error of class fusedmc_error_input that
# names the argument and shows the value. density_normal() and density_mixture() have their own files.

x <- matrix(0.5, 3, 2)
target <- density_normal(0, 1)

not_numbers <- list("0.5", NULL, list(1), factor("a"), 1i, quote(a), mean)
not_finite <- list(NA, NA_real_, NaN, Inf, -Inf)

test_that("x is a numeric matrix", {
  for (bad in list("a", NULL, list(1, 2), mean, matrix("a"), matrix(1i), array(0, c(2, 2, 2)), matrix(list(1, 2), 1))) {
    expect_input_error(mh_step(bad), "x")
  }
  condition <- expect_input_error(mh_step(c(1, 2, 3)), "x")
  expect_match(conditionMessage(condition), "matrix(", fixed = TRUE)
  expect_input_error(mh_step(5), "x")
  expect_error(mh_step())
})

test_that("x has columns, and finite values only", {
  expect_input_error(mh_step(matrix(0, 5, 0)), "x", "0")
  expect_input_error(mh_step(matrix(0, 0, 0)), "x")
  expect_length(mh_step(x, seed = 1)$accepted, 3)
  for (bad in not_finite) {
    at <- x
    at[2, 2] <- bad
    for (precision in case_precisions) {
      condition <- expect_input_error(mh_step(at, precision = precision), "x", format(bad + 0))
      expect_match(conditionMessage(condition), "2")
    }
  }
  expect_input_error(mh_step(matrix(NA, 2, 2)), "x")
  expect_input_error(mh_step(matrix(NA_integer_, 2, 2)), "x")
})

test_that("a data frame has numbers in every column, or the column is named", {
  expect_input_error(mh_step(data.frame(a = 1:2, label = c("u", "v"))), "label")
  expect_input_error(mh_step(data.frame(a = 1:2, level = factor(c("u", "v")))), "level")
  expect_input_error(is_weights(data.frame(a = 1:2, label = c("u", "v")), target), "label")
  expect_input_error(is_weights(data.frame(a = 1:2, level = factor(c("u", "v"))), target), "level")
  expect_input_error(mh_step(data.frame(a = c(1, NA))), "x")
})

test_that("target is a density", {
  for (bad in list(NULL, "normal", 1, list(mean = 0, sd = 1), mean, structure(list(), class = "other"))) {
    expect_input_error(mh_step(x, bad), "target")
  }
  for (bad in list("normal", 1, list(mean = 0, sd = 1), mean)) {
    expect_input_error(is_weights(x, bad), "target")
    expect_input_error(is_weights(x, target, bad), "proposal")
  }
})

test_that("step_size is a number, a vector of n_dim or a triangular factor", {
  for (bad in c(not_numbers, not_finite, list(-1, c(1, -1), numeric(0), c(1, NA), c(1, 2, 3)))) {
    expect_input_error(mh_step(x, target, bad), "step_size")
  }
  expect_input_error(mh_step(x, target, -0.25), "step_size", "-0.25")
  expect_input_error(mh_step(x, target, "0.5"), "step_size", "0.5")
  expect_input_error(mh_step(x, target, NaN), "step_size", "NaN")
  # as long as there are chains is no meaning
  expect_input_error(mh_step(x, target, c(1, 1, 1)), "step_size", "c(1, 1, 1)")
  expect_input_error(mh_step(x, target, matrix(1, 2, 2)), "step_size", "triangular")
  expect_input_error(mh_step(x, target, matrix(c(2, 0.5, 0.5, 1), 2)), "step_size", "triangular")
  for (bad in list(matrix(0, 3, 3), diag(3), matrix(0, 2, 3), matrix(c(1, NA, 0, 1), 2), matrix(c(1, Inf, 0, 1), 2))) {
    expect_input_error(mh_step(x, target, bad), "step_size")
  }
  expect_silent(mh_step(x, target, diag(2), seed = 1))
  expect_silent(mh_step(matrix(0.5, 3, 1), target, matrix(1), seed = 1))
})

test_that("noise is a finite matrix of the shape of x", {
  for (bad in list("a", list(1), matrix(0, 2, 3), matrix(0, 3, 1), numeric(6), matrix("a", 3, 2), mean)) {
    expect_input_error(mh_step(x, noise = bad, seed = 1), "noise")
  }
  for (bad in not_finite) {
    noise <- matrix(0, 3, 2)
    noise[3, 1] <- bad
    expect_input_error(mh_step(x, noise = noise, seed = 1), "noise", format(bad + 0))
  }
})

test_that("u has one value in [0, 1] per chain", {
  for (bad in list("a", list(1, 2, 3), c(0.5, 0.5), numeric(0), rep(0.5, 4), mean)) {
    expect_input_error(mh_step(x, u = bad, seed = 1), "u")
  }
  for (bad in c(not_finite, list(-0.1, 1.5))) {
    expect_input_error(mh_step(x, u = c(0.5, bad, 0.5), seed = 1), "u", format(bad + 0))
  }
  expect_silent(mh_step(x, u = c(0, 1, 0.5), seed = 1))
})

test_that("seed is a whole number 0 .. 2^53", {
  for (bad in list(-1, 1.5, 2^53 + 2, NA, NA_real_, NaN, Inf, "a", "1", c(1, 2), numeric(0), list(1), TRUE, mean)) {
    expect_input_error(mh_step(x, seed = bad), "seed")
  }
  expect_input_error(mh_step(x, seed = -1), "seed", "-1")
  expect_input_error(mh_step(x, seed = 1.5), "seed", "1.5")
  expect_input_error(mh_step(x, seed = 2^53 + 2), "seed", "9007199254740994")
  for (good in list(0, 2^53, 1L, 2^32)) {
    expect_identical(mh_step(x, seed = good)$seed, as.numeric(good))
  }
})

test_that("step is a whole number 0 .. 2^32 - 1", {
  for (bad in list(-1, 0.5, 2^32, NA, NaN, Inf, "a", c(0, 1), numeric(0), NULL, list(0))) {
    expect_input_error(mh_step(x, seed = 1, step = bad), "step")
  }
  expect_input_error(mh_step(x, seed = 1, step = -3), "step", "-3")
  expect_input_error(mh_step(x, seed = 1, step = 2^32), "step", "4294967296")
  expect_silent(mh_step(x, seed = 1, step = 2^32 - 1))
})

test_that("chain_offset is a whole number 0 .. 2^53", {
  for (bad in list(-1, 0.5, 2^53 + 2, 2^60, NA, NaN, Inf, "a", c(0, 1), numeric(0), NULL, list(0))) {
    expect_input_error(mh_step(x, seed = 1, chain_offset = bad), "chain_offset")
  }
  expect_input_error(mh_step(x, seed = 1, chain_offset = -7), "chain_offset", "-7")
  expect_silent(mh_step(x, seed = 1, chain_offset = 2^53))
})

test_that("precision, backend, nonfinite and weights are one of their values", {
  for (bad in list("float", "half", 1, NA, NULL, c("a", "b"), character(0))) {
    if (!is.null(bad)) {
      expect_input_error(mh_step(x, seed = 1, precision = bad), "precision")
      expect_input_error(is_weights(x, target, precision = bad), "precision")
    }
  }
  for (bad in list("gpu", "CPU", "", 1, NA, NA_character_, NULL, c("cpu", "cuda"), character(0), TRUE)) {
    expect_input_error(mh_step(x, seed = 1, backend = bad), "backend")
    expect_input_error(is_weights(x, target, backend = bad), "backend")
  }
  expect_input_error(mh_step(x, seed = 1, backend = "gpu"), "backend", "gpu")
  expect_input_error(mh_step(x, seed = 1, precision = "half"), "precision", "half")
  for (bad in list("ignore", 1, NA, c("x", "y"))) {
    expect_input_error(is_weights(x, target, nonfinite = bad), "nonfinite")
  }
  for (bad in list(NA, "yes", c(TRUE, FALSE), NULL, logical(0))) {
    expect_input_error(is_weights(x, target, weights = bad), "weights")
  }
})

test_that("device is an ordinal, counted from 0", {
  for (bad in list(-1, 1.5, NA, NaN, Inf, "0", NULL, c(0, 1), numeric(0), list(0))) {
    for (backend in c("cpu", "auto", "cuda")) {
      expect_input_error(mh_step(x, seed = 1, backend = backend, device = bad), "device")
      expect_input_error(is_weights(x, target, backend = backend, device = bad), "device")
    }
  }
  expect_input_error(mh_step(x, seed = 1, device = -1), "device", "-1")
  expect_input_error(mh_step(x, seed = 1, device = 1.5), "device", "1.5")
  expect_silent(mh_step(x, seed = 1, device = 0))
})

test_that("options are checked like arguments", {
  withr::with_options(list(fusedmc.backend = "gpu"), {
    expect_input_error(mh_step(x, seed = 1), "backend", "gpu")
    expect_silent(mh_step(x, seed = 1, backend = "cpu"))
  })
  for (bad in list(0, -1, 1.5, NA, "two", c(1, 2))) {
    expect_input_error(with_threads(bad, mh_step(x, seed = 1, backend = "cpu")), "fusedmc.threads")
  }
  expect_silent(with_threads(NULL, mh_step(x, seed = 1)))
})

test_that("samples is a numeric matrix with columns", {
  for (bad in list("a", list(1, 2), mean, matrix("a"), matrix(1i), array(0, c(2, 2, 2)), c(1, 2, 3))) {
    expect_input_error(is_weights(bad, target), "samples")
  }
  expect_input_error(is_weights(matrix(0, 5, 0), target), "samples", "0")
  expect_input_error(is_weights(matrix(0, 5, 0), log_weights = numeric(5)), "samples")
  condition <- expect_input_error(is_weights(c(1, 2, 3), target), "samples")
  expect_match(conditionMessage(condition), "matrix(", fixed = TRUE)
})

test_that("log_weights are numbers, as many as samples", {
  for (bad in list("a", list(1, 2), mean, c("1", "2"), 1i, matrix("a"))) {
    expect_input_error(is_weights(log_weights = bad), "log_weights")
  }
  expect_input_error(is_weights(x, log_weights = c(1, 2)), "log_weights", "2")
  expect_input_error(is_weights(x, log_weights = numeric(0)), "log_weights", "0")
})

test_that("either target with samples or log_weights", {
  expect_error(is_weights(), class = "fusedmc_error_input")
  expect_input_error(is_weights(x), "target")
  expect_input_error(is_weights(target = target), "samples")
  expect_input_error(is_weights(x, target, log_weights = c(0, 0, 0)), "log_weights")
})

test_that("unknown arguments are errors", {
  expect_error(mh_step(x, stepsize = 1), "stepsize")
  expect_error(mh_step(x, seeds = 1), "seeds")
  expect_error(is_weights(x, target, log_weight = c(0, 0, 0), ess = TRUE), "ess")
})

test_that("an error leaves .Random.seed as it was, and the next call works", {
  withr::local_preserve_seed()
  set.seed(3)
  before <- .GlobalEnv$.Random.seed
  expect_input_error(mh_step(x, step_size = -1), "step_size")
  expect_input_error(mh_step(x, noise = 1), "noise")
  expect_input_error(mh_step(x, backend = "gpu"), "backend")
  expect_identical(.GlobalEnv$.Random.seed, before)
  expect_silent(mh_step(x))
})

test_that("with a seed .Random.seed is untouched, and stays absent where it was", {
  withr::local_preserve_seed()
  set.seed(4)
  before <- .GlobalEnv$.Random.seed
  mh_step(x, seed = 1)
  is_weights(x, target)
  mh_step(x, noise = matrix(0, 3, 2), u = c(0.5, 0.5, 0.5))
  mh_step(x, noise = matrix(0, 3, 2), seed = 1)
  backend_info()
  expect_identical(.GlobalEnv$.Random.seed, before)
  rm(".Random.seed", envir = .GlobalEnv)
  mh_step(x, seed = 1)
  is_weights(x, target)
  mh_step(x, noise = matrix(0, 3, 2), u = c(0.5, 0.5, 0.5))
  expect_false(exists(".Random.seed", envir = .GlobalEnv, inherits = FALSE))
})

test_that("without a seed one is drawn, returned, and reproduces the call", {
  withr::local_preserve_seed()
  set.seed(42)
  first <- mh_step(x)
  second <- mh_step(x)
  expect_false(first$seed == second$seed)
  expect_false(identical(first$x, second$x))
  expect_true(first$seed >= 0 && first$seed <= 2^53 && first$seed == round(first$seed))
  expect_same_bits(mh_step(x, seed = first$seed), first)
  set.seed(42)
  expect_same_bits(mh_step(x), first)
  expect_same_bits(mh_step(x), second)
  set.seed(43)
  expect_false(mh_step(x)$seed == first$seed)
})

test_that("a drawn seed works where there is no .Random.seed, and with any RNGkind", {
  withr::local_preserve_seed()
  if (exists(".Random.seed", envir = .GlobalEnv)) rm(".Random.seed", envir = .GlobalEnv)
  expect_true(is.finite(mh_step(x)$seed))
  kinds <- RNGkind()
  on.exit(RNGkind(kinds[1], kinds[2], kinds[3]))
  for (kind in c("Wichmann-Hill", "Super-Duper", "L'Ecuyer-CMRG", "Mersenne-Twister")) {
    RNGkind(kind)
    set.seed(1)
    seed <- mh_step(x)$seed
    set.seed(1)
    expect_identical(mh_step(x)$seed, seed)
  }
})

test_that("drawn seeds use more than 32 bits and do not repeat", {
  withr::local_preserve_seed()
  set.seed(5)
  seeds <- vapply(1:2000, function(i) mh_step(matrix(0))$seed, 0)
  expect_identical(anyDuplicated(seeds), 0L)
  expect_gt(max(seeds), 2^50)
  expect_rate(seeds > 2^52, 0.5)
})

test_that("the seed is NA where noise and u replace the generator", {
  result <- mh_step(x, noise = matrix(0, 3, 2), u = c(0.5, 0.5, 0.5))
  expect_identical(result$seed, NA_real_)
})

test_that("a start of density zero is an error that names the rows", {
  for (precision in case_precisions) {
    at <- matrix(0, 5, 2)
    at[c(2, 4), 1] <- 1e200
    far <- if (precision == "single") 1e30 else 1e200
    at[at == 1e200] <- far
    condition <- expect_error(mh_step(at, target, seed = 1, precision = precision), class = "fusedmc_error")
    expect_match(conditionMessage(condition), "2")
    expect_match(conditionMessage(condition), "4")
    mixture <- density_mixture(c(1, 1), matrix(0, 2, 2), 1)
    expect_error(mh_step(at, mixture, seed = 1, precision = precision), class = "fusedmc_error")
  }
})

test_that("a proposal of density zero is rejected without a word", {
  noise <- matrix(c(1e200, 0, 0.1, 0), 2)
  for (density in list(target, density_mixture(c(1, 1), matrix(0, 2, 2), 1))) {
    result <- expect_silent(mh_step(matrix(0, 2, 2), density, 1, noise = noise, u = c(0, 0.5)))
    expect_identical(result$accepted, c(FALSE, TRUE))
    expect_identical(result$x, matrix(c(0, 0, 0, 0), 2))
    expect_identical(result$log_alpha[1], -Inf)
    expect_true(all(is.finite(result$log_density)))
  }
})

test_that("a proposal whose density is NaN is rejected, counted and warned of, and poisons nothing", {
  # row 2 of L z is 1e309 - 1e309
  factor <- matrix(c(1e308, 1e308, 0, 1e308), 2)
  noise <- rbind(c(1e-309, 1e-309), c(10, -10), c(0, 0), c(10, -10))
  start <- matrix(c(1, 2, 3, 4, 5, 6, 7, 8), 4)
  for (density in list(density_normal(0, 1e308), density_mixture(c(1, 1), matrix(0, 2, 2), 1e308))) {
    warnings <- list()
    result <- withCallingHandlers(
      mh_step(start, density, factor, noise = noise, u = rep(0, 4), step = 17, chain_offset = 0),
      warning = function(w) {
        warnings <<- c(warnings, list(w))
        invokeRestart("muffleWarning")
      }
    )
    expect_length(warnings, 1)
    expect_s3_class(warnings[[1]], "fusedmc_warning_nonfinite")
    for (said in c("2", "17")) {
      expect_match(conditionMessage(warnings[[1]]), said, fixed = TRUE)
    }
    expect_identical(result$accepted, c(TRUE, FALSE, TRUE, FALSE))
    expect_identical(result$x[c(2, 4), ], start[c(2, 4), ])
    expect_true(all(is.finite(result$x)))
    expect_true(all(is.finite(result$log_density)))
  }
})
