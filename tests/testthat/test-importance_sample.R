# importance_sample(): what comes out is what is_weights() and plain R make of the same draws. Joining: test-is_merge.R.

test_that("draws are those of draw(), and weights those of is_weights(), to the bit", {
  for (precision in case_precisions) {
    fit <- small_is(5000, precision = precision, keep = "draws")
    drawn <- draw(is_proposal(), 5000, seed = 31)
    if (precision == "double") {
      expect_same_bits(unname(fit$draws), matrix(as.vector(drawn), ncol = 2))
    } else {
      expect_equal(as.vector(fit$draws), as.vector(drawn), tolerance = 1e-5)
      expect_identical(round_to_float(fit$draws), as.vector(fit$draws))
    }
    weighed <- is_weights(fit$draws, is_target(), is_proposal(), precision = precision, backend = "cpu")
    for (part in c("log_weights", "mean", "ess", "log_mean_weight")) {
      expect_same_bits(fit[[part]], weighed[[part]], paste(precision, part))
    }
    expect_same_bits(weights(fit), weighed$weights)
    lean <- small_is(5000, precision = precision)
    expect_null(lean$draws)
    expect_null(lean$log_weights)
    same <- setdiff(names(fit), c("draws", "log_weights", "settings", "run"))
    expect_same_bits(unclass(lean)[same], unclass(fit)[same])
  }
})

test_that("moments and diagnostics are those of plain R", {
  for (n in c(2, 100, 4097, 20000)) {
    fit <- small_is(n, keep = "draws", covariance = TRUE)
    expected <- oracle_is_draws(unname(fit$draws), fit$log_weights)
    for (part in names(expected)) {
      expect_equal(unname(fit[[part]]), unname(expected[[part]]), tolerance = 1e-9, info = paste(n, part))
    }
    expect_identical(unname(fit$sd), unname(sqrt(diag(fit$cov))))
    expect_identical(fit$cov, t(fit$cov))
    expect_equal(small_is(n)$sd, fit$sd, tolerance = 1e-12)
  }
  expect_identical(names(fit$mean), c("a", "b"))
  expect_identical(dimnames(fit$cov), list(c("a", "b"), c("a", "b")))
  expect_identical(c(fit$n_zero, fit$n_bad, fit$first_bad), c(0, 0, NA))
})

test_that("sample i of a list of J proposals is that of proposal i mod J, weighed against all", {
  full <- density_mvnormal(c(2, 1), matrix(c(2, 0.5, 0.5, 1), 2))
  proposals <- list(density_normal(c(-1, 0), 1.2), is_proposal(), full)
  for (offset in c(0, 1)) {
    fit <- small_is(2999, offset, proposal = proposals, keep = "draws")
    number <- offset + 0:2998
    drawn <- lapply(proposals, function(proposal) draw(proposal, 3000, seed = 31))
    expected <- t(vapply(number, function(i) drawn[[i %% 3 + 1]][i + 1, ], c(0, 0)))
    expect_same_bits(unname(fit$draws), expected)
    logs <- vapply(proposals, function(proposal) log_density(proposal, expected), numeric(2999))
    mixed <- log(rowMeans(exp(logs)))
    expect_equal(fit$log_weights, log_density(is_target(), expected) - mixed, tolerance = 1e-10)
  }
  expect_mc(fit$log_mean_weight, 0, fit$log_mean_weight_se)
  expect_same_bits(small_is(500, proposal = proposals[1])$mean, small_is(500, proposal = proposals[[1]])$mean)
})

test_that("a function of R as target gives what the same density in C gives", {
  in_c <- density_normal(c(a = 1, b = -1), 2)
  seen <- NULL
  in_r <- density_function(function(x) {
    seen <<- colnames(x)
    dnorm(x[, 1], 1, 2, log = TRUE) + dnorm(x[, 2], -1, 2, log = TRUE)
  }, 2)
  n <- 5 * 4 * 4096 + 17
  fit <- small_is(n, 4000, target = in_r, keep = "draws", covariance = TRUE)
  expected <- small_is(n, 4000, target = in_c, keep = "draws", covariance = TRUE)
  expect_identical(unname(fit$draws), unname(expected$draws))
  expect_equal(fit$log_weights, expected$log_weights, tolerance = 1e-12)
  for (part in c("mean", "sd", "cov", "ess", "log_mean_weight", "pareto_k")) {
    expect_equal(unname(fit[[part]]), unname(expected[[part]]), tolerance = 1e-10, info = part)
  }
  expect_identical(seen, c("x[1]", "x[2]"))
  again <- is_summary(fit$draws, log_weights = fit$log_weights, offset = 4000, covariance = TRUE, shift = c(0.5, 0.5))
  expect_identical(again$sums, fit$sums)
})

test_that("ESS, evidence and Pareto k have their closed forms", {
  n <- 2e5
  wide <- small_is(n, target = density_normal(0, 1), proposal = density_normal(0, 2), n_dim = 1, keep = "draws")
  expect_mc(wide$relative_efficiency, sqrt(2 * 2^2 - 1) / 2^2, efficiency_se(exp(wide$log_weights)), "s = 2")
  expect_mc(wide$log_mean_weight, 0, wide$log_mean_weight_se, "evidence")
  expect_mc(wide$mean, 0, summary(wide)$mcse, "mean")
  shifted <- small_is(n, target = density_normal(1, 1), proposal = density_normal(0, 1), n_dim = 1, keep = "draws")
  expect_mc(shifted$relative_efficiency, exp(-1), efficiency_se(exp(shifted$log_weights)), "m = 1")
  expect_mc(shifted$mean, 1, summary(shifted)$mcse)
  skip_if_not_installed("loo")
  # The largest |z| there is, and the distance to the limit, move k by some hundredths.
  for (s in c(0.9, 0.7, 0.5)) {
    narrow <- small_is(1e6, target = density_normal(0, 1), proposal = density_normal(0, s), n_dim = 1)
    expect_lt(abs(narrow$pareto_k - (1 - s^2)), 4.5 * (2 - s^2) / sqrt(3 * sqrt(1e6)))
  }
})

test_that("the evidence lies within its standard error, over seeds", {
  target <- density_mixture(c(1, 1), means = rbind(numeric(8), rep(1, 8)), sds = 0.8)
  z <- vapply(1:20, function(seed) {
    fit <- small_is(20000, target = target, proposal = density_student_t(8, rep(0.5, 8), 1), seed = seed)
    fit$log_mean_weight / fit$log_mean_weight_se
  }, 0)
  expect_lt(max(abs(z)), 4.5)
  # a chi-square of 20 degrees of freedom
  expect_gt(sum(z^2), qchisq(1e-5, 20))
  expect_lt(sum(z^2), qchisq(1 - 1e-5, 20))
})

test_that("log weights of 1e4 and -1e4 shift the evidence and nothing else", {
  shifted <- function(by) {
    target <- density_function(function(x) by - rowSums(x^2) / 2)
    small_is(3000, target = target, covariance = TRUE, n_dim = 2)
  }
  base <- shifted(0)
  for (by in c(-1e4, 1e4)) {
    fit <- shifted(by)
    expect_equal(fit$log_mean_weight - by, base$log_mean_weight, tolerance = 1e-9)
    for (part in c("mean", "cov", "ess", "pareto_k", "max_share", "log_mean_weight_se")) {
      expect_equal(fit[[part]], base[[part]], tolerance = 1e-8, info = part)
    }
  }
})

test_that("none, one and two samples", {
  none <- expect_silent(small_is(0, keep = "draws", covariance = TRUE))
  expect_identical(dim(none$draws), c(0L, 2L))
  expect_identical(none$log_weights, numeric())
  expect_identical(unname(none$mean), c(NA_real_, NA_real_))
  expect_identical(c(none$ess, none$log_mean_weight, none$n, none$pareto_k), c(0, -Inf, 0, NA))
  expect_identical(dim(none$sums$nodes), c(13L, 0L))
  one <- small_is(1, keep = "draws")
  expect_identical(one$ess, 1)
  expect_identical(one$log_mean_weight, one$log_weights)
  expect_identical(unname(one$mean), unname(one$draws[1, ]))
  expect_equal(unname(one$sd), c(0, 0), tolerance = 1e-7)
  expect_identical(c(one$log_mean_weight_se, one$pareto_k, one$max_share), c(NA, NA, 1))
  in_r <- small_is(0, target = density_function(function(x) stop("never called"), 2))
  expect_identical(in_r$n, 0)
})

test_that("bad log weights are an error with number and place, or dropped", {
  # the normal is 0 where the t, of many degrees of freedom below 1, is infinitely far out
  heavy <- density_student_t(0.005)
  run <- function(...) small_is(5000, 10000, target = density_normal(0, 1), proposal = heavy, n_dim = 1, ...)
  expect_warning(fit <- run(nonfinite = "drop", keep = "draws"), class = "fusedmc_warning_nonfinite")
  bad <- which(!is.finite(fit$draws))
  expect_gt(length(bad), 1)
  expect_identical(c(fit$n_bad, fit$first_bad), c(length(bad), 10000 + bad[1] - 1))
  expect_true(all(fit$log_weights[bad] == -Inf))
  expect_true(is.finite(fit$mean))
  expect_identical(fit$n, 5000)
  condition <- expect_error(run(), class = "fusedmc_error_nonfinite")
  expect_identical(condition$first, fit$first_bad)
  expect_match(conditionMessage(condition), sprintf("sample number %d, counted from 0", fit$first_bad))

  holes <- density_function(function(x) ifelse(x[, 1] > 2, NaN, ifelse(x[, 1] < 0, -Inf, -rowSums(x^2) / 2)), 2)
  condition <- expect_warning(
    fit <- small_is(3000, target = holes, nonfinite = "drop", keep = "draws"),
    class = "fusedmc_warning_nonfinite"
  )
  expect_identical(condition$n, sum(fit$draws[, 1] > 2) + 0)
  expect_identical(fit$n_zero, sum(fit$draws[, 1] < 0) + 0)
  used <- fit$log_weights > -Inf
  expected <- oracle_is_draws(unname(fit$draws[used, ]), fit$log_weights[used])
  expect_equal(unname(fit$sd), expected$sd, tolerance = 1e-9)
  expect_equal(fit$ess, expected$ess, tolerance = 1e-9)
  expect_error(small_is(3000, target = holes), class = "fusedmc_error_nonfinite")
})

test_that("weights that are all zero give NA and one warning", {
  nowhere <- density_function(function(x) rep(-Inf, nrow(x)), 2)
  warnings <- capture_warnings(fit <- small_is(5000, target = nowhere, covariance = TRUE))
  expect_length(warnings, 1)
  expect_match(warnings, "All 5000 weights are zero")
  expect_identical(c(fit$ess, fit$log_mean_weight, fit$n_zero), c(0, -Inf, 5000))
  expect_true(all(is.na(c(fit$mean, fit$sd, fit$cov, fit$max_share, fit$log_mean_weight_se, fit$pareto_k))))
  expect_error(small_is(50, target = nowhere, keep = "resampled"), class = "fusedmc_error_nonfinite")
})

test_that("devices, workers and threads change nothing", {
  skip_if_not_installed("future.apply")
  old <- future::plan(future::sequential)
  withr::defer(future::plan(old))
  for (keep in c("summary", "draws")) {
    one <- bare(small_is(30000, 1000, keep = keep, covariance = TRUE))
    for (threads in 1:2) {
      expect_same_bits(bare(with_threads(threads, small_is(30000, 1000, keep = keep, covariance = TRUE))), one)
    }
    for (devices in list("cpu", c("cpu", "cpu"), rep("cpu", 20))) {
      expect_same_bits(bare(small_is(30000, 1000, keep = keep, covariance = TRUE, devices = devices)), one)
    }
    for (workers in c(1, 3, 100)) {
      expect_same_bits(bare(small_is(30000, 1000, keep = keep, covariance = TRUE, workers = workers)), one)
    }
  }
  expect_identical(small_is(10, workers = 2)$run$workers, 2)
  expect_error(
    small_is(100, target = density_function(function(x) rep(NaN, nrow(x)), 2), workers = 2),
    class = "fusedmc_error_nonfinite"
  )
})

test_that("processes of their own give what this one gives", {
  skip_if_not_installed("future.apply")
  skip_on_cran()
  old <- future::plan(future::multisession, workers = 2)
  withr::defer(future::plan(old))
  one <- bare(small_is(30000))
  expect_same_bits(bare(small_is(30000, workers = 2)), one)
  # the recipe of ?is_merge
  target <- is_target()
  proposal <- is_proposal()
  parts <- future.apply::future_lapply(c(0, 16384), function(offset) {
    fusedmc::importance_sample(target, proposal, n = if (offset == 0) 16384 else 13616, offset = offset, seed = 31)
  }, future.seed = NULL)
  expect_same_bits(bare(is_merge(parts)), one)
})

test_that("a run that is interrupted can be completed", {
  whole <- small_is(60000, target = interrupting_target(0))
  condition <- expect_warning(
    first <- small_is(60000, target = interrupting_target(2)),
    class = "fusedmc_warning_interrupted"
  )
  expect_identical(condition$n, first$n)
  expect_gt(first$n, 0)
  expect_lt(first$n, 60000)
  rest <- small_is(60000 - first$n, first$n, target = interrupting_target(0))
  expect_same_bits(bare(is_merge(first, rest))$sums, whole$sums)
  warnings <- capture_warnings(none <- small_is(60000, target = interrupting_target(1), keep = "resampled"))
  expect_match(warnings, "Interrupted after 0 of 60000 samples")
  expect_identical(none$n, 0)
  expect_null(none$draws)
})

test_that("a run in C is interrupted soon, and what is done comes back", {
  skip_on_cran()
  skip_on_os("windows")
  run <- run_in_fresh_r(c(
    "options(fusedmc.threads = 1)",
    "target <- density_mixture(rep(1, 50), matrix(seq(-1, 1, length.out = 100), 50), 1)",
    "call <- function(n, offset = 0) importance_sample(target, density_normal(0, 2), n, 1, offset, backend = 'cpu')",
    "system(sprintf('(sleep 2; kill -INT %d) &', Sys.getpid()))",
    "started <- proc.time()[['elapsed']]",
    "fit <- withCallingHandlers(call(1e12), warning = function(w) {",
    "  cat('warned', inherits(w, 'fusedmc_warning_interrupted'), '\\n'); invokeRestart('muffleWarning')",
    "})",
    "cat(if (proc.time()[['elapsed']] - started < 2 + 2) 'soon' else 'late', '\\n')",
    "cat('tiles', fit$n > 0 && fit$n %% 4096 == 0, '\\n')",
    "part <- call(4096)",
    "both <- is_merge(part, call(fit$n - 4096, 4096))",
    "both$run <- fit$run <- NULL",
    "cat('same', identical(both, fit), '\\n')"
  ))
  said <- grep("^(warned|soon|late|tiles|same)", run$output, value = TRUE)
  expect_identical(said, c("warned TRUE ", "soon ", "tiles TRUE ", "same TRUE "))
})

test_that("n_adapt adapts by the run's seed, whatever the offset", {
  fit <- small_is(3000, n_adapt = 500)
  proposal <- adapt_proposal(is_target(), is_proposal(), n = 500, seed = 31, backend = "cpu")
  expect_identical(fit$proposal, proposal)
  expect_same_bits(bare(fit), bare(small_is(3000, proposal = proposal)))
  expect_gt(fit$relative_efficiency, small_is(3000)$relative_efficiency)
  expect_identical(small_is(30, 4096, n_adapt = 500)$proposal, proposal)
})

test_that("seeds are drawn from R's generator, and given ones leave it alone", {
  set.seed(5)
  first <- importance_sample(is_target(), is_proposal(), 100)
  set.seed(5)
  expect_same_bits(bare(importance_sample(is_target(), is_proposal(), 100)), bare(first))
  expect_false(importance_sample(is_target(), is_proposal(), 100)$seed == first$seed)
  before <- .Random.seed
  small_is(10)
  expect_identical(.Random.seed, before)
})

test_that("progress is reported in samples", {
  target <- density_function(function(x) {
    Sys.sleep(0.3)
    -rowSums(x^2) / 2
  }, 2)
  messages <- capture_messages(small_is(5 * 16384, target = target, progress = TRUE))
  expect_match(messages[length(messages)], "sample [0-9]+ of 81920")
  expect_silent(small_is(100))
})

test_that("arguments are checked before any work", {
  bad <- function(..., argument, value = NULL) {
    given <- list(target = is_target(), proposal = is_proposal(), n = 10)
    changed <- list(...)
    given[names(changed)] <- changed
    expect_input_error(do.call(importance_sample, given), argument, value)
  }
  bad(target = 1, argument = "target", value = "1")
  bad(proposal = "t", argument = "proposal", value = "t")
  bad(proposal = list(), argument = "proposal")
  bad(proposal = list(is_proposal(), 3), argument = "proposal[[2]]", value = "3")
  bad(proposal = density_normal(c(0, 0, 0), 1), argument = "proposal", value = "3 dims")
  bad(proposal = density_function(function(x) x[, 1], 2), argument = "proposal", value = "drawn from")
  tempered <- density_tempered(density_normal(c(0, 0), 1), 0.5)
  bad(proposal = list(is_proposal(), tempered), argument = "proposal[[2]]", value = "normalised")
  for (n in list(-1, 1.5, NA, "1", c(1, 2), 2^54)) bad(n = n, argument = "n")
  for (offset in list(-1, 0.5, 2^53)) bad(offset = offset, argument = "offset")
  bad(seed = 1.5, argument = "seed", value = "1.5")
  bad(keep = "all", argument = "keep", value = "all")
  bad(n_resample = 0, argument = "n_resample", value = "0")
  bad(method = "residual", argument = "method", value = "residual")
  bad(covariance = NA, argument = "covariance", value = "NA")
  bad(n_adapt = -1, argument = "n_adapt", value = "-1")
  bad(n_tail = 2^25, argument = "n_tail")
  bad(n_dim = 3, argument = "n_dim", value = "3")
  bad(nonfinite = "keep", argument = "nonfinite", value = "keep")
  bad(precision = "half", argument = "precision", value = "half")
  bad(backend = "gpu", argument = "backend", value = "gpu")
  bad(devices = list(1), argument = "devices")
  bad(devices = -1, argument = "devices", value = "-1")
  bad(workers = 0, argument = "workers", value = "0")
  bad(progress = NA, argument = "progress", value = "NA")
  expect_input_error(importance_sample(density_normal(), density_normal(), 10), "n_dim", "NULL")
  expect_input_error(importance_sample(density_normal(), density_normal(), 10, n_dim = 0), "n_dim", "0")
  tiny <- density_normal(c(0, 0), 1e-300)
  expect_input_error(importance_sample(is_target(), tiny, 10, precision = "single"), "proposal")
  expect_input_error(importance_sample(tiny, is_proposal(), 10, precision = "single"), "target")
  condition <- expect_error(
    withr::with_options(list(fusedmc.max_gb = 1e-3), small_is(1e6, keep = "draws")),
    class = "fusedmc_error_memory"
  )
  expect_identical(condition$bytes, 16 * 1e6 * 3)
  expect_input_error(small_is(2^31, keep = "draws"), "n", "2147483648")
})

test_that("a product of normals is a proposal, alone", {
  product <- density_product(density_normal(c(0, 0), 2), density_normal(c(1, 1), 2))
  fit <- small_is(2000, proposal = product, keep = "draws")
  expect_same_bits(unname(fit$draws), matrix(as.vector(draw(product, 2000, seed = 31)), ncol = 2))
  expect_equal(fit$sums$shift, c(0.5, 0.5))
})

test_that("a covariance of too many dims is refused before any work", {
  expect_input_error(
    importance_sample(density_normal(), density_normal(0, 2), 10, n_dim = 40000, covariance = TRUE),
    "covariance", "30,000"
  )
})
