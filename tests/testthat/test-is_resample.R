# keep = "resampled": chosen without ever holding all draws.

test_that("it is what resample() makes of all draws", {
  n <- 70 * 4096 + 99
  for (offset in c(0, 1234)) {
    all <- small_is(n, offset, keep = "draws")
    for (method in c("systematic", "stratified", "multinomial")) {
      fit <- small_is(n, offset, keep = "resampled", n_resample = 777, method = method)
      expected <- resample(all, 777, method, seed = 31)
      expect_identical(as.vector(fit$draws), as.vector(expected), info = paste(offset, method))
      expect_identical(dim(fit$draws), c(777L, 2L))
      same <- setdiff(names(fit), c("draws", "log_weights", "settings", "run"))
      expect_same_bits(unclass(fit)[same], unclass(all)[same])
    }
  }
  expect_null(fit$log_weights)
  expect_identical(colnames(fit$draws), c("a", "b"))
  expect_identical(fit$settings[c("keep", "n_resample", "method")], list(
    keep = "resampled", n_resample = 777, method = "multinomial"
  ))
})

test_that("more may be chosen than there are, and pieces are whole tiles that fit memory", {
  fit <- small_is(20, keep = "resampled", n_resample = 500)
  expect_identical(nrow(fit$draws), 500L)
  all <- small_is(20, keep = "draws")
  expect_true(all(fit$draws[, 1] %in% all$draws[, 1]))
  # many dims: a tile a piece
  target <- density_normal(numeric(3000), 1)
  wide <- small_is(9000, target = target, proposal = target, keep = "resampled", n_resample = 9000)
  expect_identical(unname(wide$draws), unname(small_is(9000, target = target, proposal = target, keep = "draws")$draws))
})

test_that("dropped and zero-weight draws are never chosen; functions of R and lists of proposals do", {
  holes <- density_function(function(x) ifelse(x[, 1] > 2, NaN, ifelse(x[, 1] < 0, -Inf, -rowSums(x^2) / 2)), 2)
  fit <- suppressWarnings(small_is(
    50000,
    target = holes, proposal = list(is_proposal(), density_normal(c(0, 0), 1)), nonfinite = "drop", keep = "resampled"
  ))
  expect_true(all(fit$draws[, 1] >= 0 & fit$draws[, 1] <= 2))
})

test_that("resampled draws have the target's moments", {
  fit <- small_is(1e5, keep = "resampled", n_resample = 20000)
  full <- small_is(1e5, keep = "draws")
  expect_mc(colMeans(fit$draws), full$mean, full$sd / sqrt(20000))
})

test_that("what is interrupted while resampling keeps its sums", {
  expect_warning(
    fit <- small_is(2000, target = interrupting_target(2), keep = "resampled"),
    class = "fusedmc_warning_interrupted"
  )
  expect_null(fit$draws)
  expect_identical(fit$settings$keep, "summary")
  expect_same_bits(fit$sums, small_is(2000, target = interrupting_target(0))$sums)
})
