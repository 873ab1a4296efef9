# is_summary(): stored samples, whole and in pieces.

test_that("it is is_weights() to the bit, with sd and covariance of plain R", {
  samples <- grid_matrix(9000, 3, 201) * 3
  colnames(samples) <- c("a", "b", "c")
  target <- case_target("mixture3", 3)$density
  for (precision in case_precisions) {
    weighed <- is_weights(samples, target, density_normal(0, 3), precision = precision)
    fit <- is_summary(samples, target, density_normal(0, 3), covariance = TRUE, precision = precision)
    for (part in c("mean", "ess", "log_mean_weight")) {
      expect_same_bits(fit[[part]], weighed[[part]], paste(precision, part))
    }
    given <- is_summary(samples, log_weights = weighed$log_weights, covariance = TRUE)
    expect_same_bits(given$ess, fit$ess)
    expect_same_bits(given$sums$tail, fit$sums$tail)
  }
  expected <- oracle_is_draws(unname(samples), weighed$log_weights)
  for (part in setdiff(names(expected), c("mean", "ess"))) {
    expect_equal(unname(given[[part]]), unname(expected[[part]]), tolerance = 1e-9, info = part)
  }
  expect_identical(names(fit$sd), c("a", "b", "c"))
  expect_null(fit$draws)
  expect_identical(fit$seed, NA_real_)
})

test_that("draws of importance_sample() give its sums again", {
  drawn <- small_is(10000, 4096, keep = "draws", covariance = TRUE)
  stored <- is_summary(drawn$draws, is_target(), is_proposal(), offset = 4096, covariance = TRUE)
  expect_same_bits(stored$sums, drawn$sums)
  in_r <- density_function(function(x) log_density(is_target(), x), 2)
  expect_identical(is_summary(drawn$draws, in_r, is_proposal(), offset = 4096, covariance = TRUE)$sums, drawn$sums)
})

test_that("pieces from a file give what all at once gives", {
  x <- matrix(as.vector(draw(density_normal(0, 3), 20000, seed = 1, n_dim = 2)), ncol = 2)
  file <- withr::local_tempfile()
  writeBin(as.vector(t(x)), file)
  stream <- function(n_rows) {
    input <- file(file, "rb")
    on.exit(close(input))
    total <- NULL
    at <- 0
    while (length(numbers <- readBin(input, "double", 2 * n_rows)) > 0) {
      piece <- matrix(numbers, ncol = 2, byrow = TRUE)
      part <- is_summary(piece, density_normal(1, 1), density_normal(0, 3), offset = at)
      total <- if (is.null(total)) part else is_merge(total, part)
      at <- at + nrow(piece)
    }
    bare(total)
  }
  whole <- bare(is_summary(x, density_normal(1, 1), density_normal(0, 3)))
  expect_same_bits(stream(4096), whole)
  expect_same_bits(stream(3 * 4096), whole)
  expect_equal(stream(5000), whole, tolerance = 1e-12)
})

test_that("a data base gives pieces", {
  skip_if_not_installed("DBI")
  skip_if_not_installed("RSQLite")
  connection <- DBI::dbConnect(RSQLite::SQLite(), ":memory:")
  withr::defer(DBI::dbDisconnect(connection))
  x <- as.data.frame(grid_matrix(9000, 2, 202))
  names(x) <- c("a", "b")
  DBI::dbWriteTable(connection, "samples", x)
  result <- DBI::dbSendQuery(connection, "SELECT a, b FROM samples")
  total <- NULL
  at <- 0
  while (!DBI::dbHasCompleted(result)) {
    piece <- DBI::dbFetch(result, n = 4096)
    part <- is_summary(piece, density_normal(1, 1), density_normal(0, 3), offset = at)
    total <- if (is.null(total)) part else is_merge(total, part)
    at <- at + nrow(piece)
  }
  DBI::dbClearResult(result)
  expect_same_bits(bare(total), bare(is_summary(x, density_normal(1, 1), density_normal(0, 3))))
})

test_that("far from zero the shift saves digits", {
  x <- matrix(1e8 + grid_values(5000, 203))
  lw <- grid_values(5000, 204)
  w <- exp(lw - max(lw))
  w <- w / sum(w)
  centred <- x[, 1] - 1e8
  expected <- sqrt(sum(w * (centred - sum(w * centred))^2))
  expect_equal(unname(is_summary(x, log_weights = lw, shift = 1e8)$sd), expected, tolerance = 1e-7)
  expect_identical(is_summary(x, density_normal(1e8, 1), density_normal(1e8, 2))$sums$shift, 1e8)
  expect_identical(is_summary(x, density_normal(0, 1), density_function(function(x) -x[, 1]^2))$sums$shift, 0)
})

test_that("samples that are not finite count only where their weight does", {
  x <- grid_matrix(100, 2, 205)
  x[7, 2] <- Inf
  lw <- numeric(100)
  expect_input_error(is_summary(x, log_weights = lw), "samples", "row 7")
  lw[7] <- -Inf
  fit <- expect_silent(is_summary(x, log_weights = lw))
  expect_equal(unname(fit$mean), colMeans(x[-7, ]), tolerance = 1e-12)
  expect_identical(c(fit$n_zero, fit$ess), c(1, 99))
  expect_input_error(is_summary(x, density_normal(0, 1), density_normal(0, 2)), "samples", "row 7")
  expect_warning(
    fit <- is_summary(x, density_normal(0, 1), density_normal(0, 2), offset = 50, nonfinite = "drop"),
    class = "fusedmc_warning_nonfinite"
  )
  expect_identical(c(fit$n_bad, fit$first_bad), c(1, 56))
  lw[9] <- Inf
  condition <- expect_error(is_summary(x[-7, ], log_weights = lw[-7]), class = "fusedmc_error_nonfinite")
  expect_identical(condition$first, 7)
})

test_that("zero rows, one row and all zero weights", {
  none <- expect_silent(is_summary(matrix(0, 0, 3), density_normal(0, 1), density_normal(0, 2)))
  expect_identical(c(none$n, none$ess, none$log_mean_weight), c(0, 0, -Inf))
  one <- is_summary(matrix(2, 1, 1), log_weights = -7)
  expect_identical(c(one$ess, one$log_mean_weight, one$mean[[1]], one$pareto_k), c(1, -7, 2, NA))
  expect_warning(fit <- is_summary(matrix(1:4, 2), log_weights = c(-Inf, -Inf)), class = "fusedmc_warning_nonfinite")
  expect_identical(unname(fit$mean), c(NA_real_, NA_real_))
})

test_that("arguments are checked", {
  x <- matrix(0, 4, 2)
  p <- density_normal(0, 1)
  expect_input_error(is_summary(1:3, p, p), "samples")
  expect_input_error(is_summary(x, proposal = p), "target", "NULL")
  expect_input_error(is_summary(x, p), "proposal", "NULL")
  expect_input_error(is_summary(x, p, p, log_weights = 1:4), "log_weights")
  expect_input_error(is_summary(x, log_weights = 1:3), "log_weights")
  expect_input_error(is_summary(x, p, density_normal(1:3, 1)), "proposal", "3 dims")
  expect_input_error(is_summary(x, p, p, offset = -1), "offset", "-1")
  expect_input_error(is_summary(x, p, p, shift = 1:3), "shift", "c(1, 2, 3)")
  expect_input_error(is_summary(x, p, p, shift = NA), "shift", "NA")
  expect_input_error(is_summary(x, p, p, covariance = 1), "covariance", "1")
  expect_input_error(is_summary(x, p, p, n_tail = -1), "n_tail", "-1")
  expect_input_error(is_summary(x, p, p, nonfinite = 1), "nonfinite", "1")
})

test_that("an sd that rounding has spoilt is said to be", {
  y <- matrix(1e8 + seq_len(1000) / 1000)
  expect_warning(
    is_summary(y, log_weights = numeric(1000)), "lost most of its digits",
    class = "fusedmc_warning_precision"
  )
  near <- expect_no_warning(is_summary(y, log_weights = numeric(1000), shift = 1e8))
  expect_equal(unname(near$sd), sqrt(mean((y - mean(y))^2)), tolerance = 1e-6)
})
