# Matrices that stay on the GPU. Where there is none they stay with R, and the same holds.

places <- function() c("cpu", if (gpu_count() > 0) "cuda")

floats <- function(x) {
  x[] <- round_to_float(x)
  x
}

test_that("what goes to the device comes back, with its names", {
  for (backend in places()) {
    for (shape in list(c(1, 1), c(5, 3), c(257, 2), c(0, 4), c(1000, 33))) {
      x <- grid_matrix(shape[1], shape[2], 991)
      expect_same_bits(as.matrix(to_device(x, backend = backend)), x)
      expect_same_bits(as.matrix(to_device(x, "single", backend = backend)), floats(x))
    }
    x <- matrix(c(NaN, Inf, -Inf, 1e300, -0, 5e-324), 2, dimnames = list(c("a", "b"), NULL))
    y <- to_device(x, backend = backend)
    expect_same_bits(as.matrix(y), x)
    expect_identical(dim(y), dim(x))
    expect_identical(nrow(y), 2L)
    expect_identical(dimnames(y), dimnames(x))
    attr(x, "seed") <- 1 # as what draw() gives has
    expect_identical(attributes(as.matrix(to_device(x, backend = backend))), list(dim = dim(x), dimnames = dimnames(x)))
  }
})

test_that("integers and data frames are taken as matrices", {
  for (backend in places()) {
    expect_same_bits(as.matrix(to_device(matrix(1:6, 2), backend = backend)), matrix(as.double(1:6), 2))
    frame <- data.frame(p = c(1, 2), q = 3:4)
    expect_same_bits(as.matrix(to_device(frame, backend = backend)), check_matrix(frame, "n", "x"))
  }
})

test_that("importance weights and log densities are those of the matrix", {
  target <- density_mixture(c(1, 2), case_means(2, 3), case_sds(2, 3))
  proposal <- density_student_t(5, c(0, 0.5, 1), 2)
  own <- density_function(function(x) -rowSums(abs(x)), 3)
  x <- grid_matrix(5000, 3, 992) * 2
  dimnames(x) <- list(paste0("s", 1:5000), c("a", "b", "c"))
  for (backend in places()) {
    for (precision in case_precisions) {
      y <- to_device(x, precision, backend)
      expected <- if (precision == "single" && backend == "cpu") floats(x) else x
      for (weights in c(TRUE, FALSE)) {
        for (q in list(proposal, density_normal(0, 3))) {
          expect_same_bits(
            is_weights(y, target, q, weights = weights, precision = precision, backend = backend),
            is_weights(expected, target, q, weights = weights, precision = precision, backend = "cpu")
          )
        }
      }
      expect_same_bits(is_weights(y, own, backend = backend), is_weights(expected, own, precision = precision))
      given <- grid_values(5000, 993)
      expect_same_bits(
        is_weights(y, log_weights = given, backend = backend),
        is_weights(expected, log_weights = given, precision = precision)
      )
      for (density in list(target, proposal, own)) {
        expect_same_bits(
          log_density(density, y, backend = backend), log_density(density, expected, precision = precision)
        )
      }
    }
  }
})

test_that("the precision is that of the matrix; with the CPU it may be any", {
  x <- grid_matrix(50, 2, 994)
  y <- to_device(x, "single", backend = "cpu")
  target <- density_normal(0, 1)
  expect_same_bits(is_weights(y, target), is_weights(floats(x), target, precision = "single"))
  expect_same_bits(is_weights(y, target, precision = "double"), is_weights(floats(x), target))
  skip_without_gpu()
  y <- to_device(x, "single", backend = "cuda")
  expect_error(is_weights(y, density_normal(0, 1), precision = "double"), "`precision` must be \"single\"",
    class = "fusedmc_error_input"
  )
  expect_same_bits(
    is_weights(y, density_normal(0, 1), precision = "double", backend = "cpu"),
    is_weights(floats(x), density_normal(0, 1))
  )
})

test_that("every function that takes a matrix takes it", {
  x <- grid_matrix(40, 2, 995)
  for (backend in places()) {
    y <- to_device(x, backend = backend)
    expect_same_bits(mh_step(y, seed = 1, backend = "cpu"), mh_step(x, seed = 1, backend = "cpu"))
    expect_same_bits(
      mh_step(x, noise = y, seed = 1, backend = "cpu"), mh_step(x, noise = x, seed = 1, backend = "cpu")
    )
    target <- density_normal(c(0, 1), 1)
    expect_same_bits(
      mh_sample(target, init = y, n_steps = 5, n_warmup = 0, seed = 1, backend = "cpu")$draws,
      mh_sample(target, init = x, n_steps = 5, n_warmup = 0, seed = 1, backend = "cpu")$draws
    )
  }
})

test_that("samples that are not finite are named as those of a matrix are", {
  x <- grid_matrix(30, 2, 996)
  x[7, 2] <- NaN
  for (backend in places()) {
    y <- to_device(x, backend = backend)
    expect_error(is_weights(y, density_normal(0, 1), backend = backend), "row 7", class = "fusedmc_error_input")
    expect_error(is_weights(y, log_weights = numeric(30), backend = backend), "row 7", class = "fusedmc_error_input")
  }
})

test_that("a released matrix is an error, and releasing it again is not", {
  for (backend in places()) {
    y <- to_device(grid_matrix(30, 2, 997), backend = backend)
    z <- y
    expect_null(release(y))
    expect_null(release(y))
    expect_false(withVisible(release(z))$visible)
    for (call in list(
      function() as.matrix(z), function() is_weights(y, density_normal(0, 1)),
      function() log_density(density_normal(0, 1), y), function() mh_step(y, backend = "cpu")
    )) {
      expect_error(call(), "released", class = "fusedmc_error_input")
    }
    expect_output(print(y), "released")
  }
  expect_error(release(matrix(1)), "`x` must be a result of to_device", class = "fusedmc_error_input")
})

test_that("print says what and where", {
  y <- to_device(matrix(0, 1000, 2), "single", backend = "cpu")
  expect_output(print(y), "<matrix> 1,000 x 2 with R, single, 0.008 MB", fixed = TRUE)
  expect_identical(withVisible(print_quietly(y))$value, y)
})

test_that("arguments are checked", {
  expect_error(to_device(1:3), "`x` must be a numeric matrix", class = "fusedmc_error_input")
  expect_error(to_device(matrix("a")), class = "fusedmc_error_input")
  expect_error(to_device(matrix(1), "half"), "`precision` must be one of", class = "fusedmc_error_input")
  expect_error(to_device(matrix(1), backend = "gpu"), "`backend` must be one of", class = "fusedmc_error_input")
  skip_with_gpu()
  expect_error(to_device(matrix(1), backend = "cuda"), class = "fusedmc_error_cuda")
})

test_that("what comes from a file is an error where it was on the GPU", {
  skip_without_gpu()
  path <- withr::local_tempfile()
  y <- to_device(grid_matrix(30, 2, 998), backend = "cuda")
  saveRDS(y, path)
  z <- readRDS(path)
  expect_identical(dim(z), c(30L, 2L))
  expect_error(as.matrix(z), "comes from a file", class = "fusedmc_error_input")
  expect_error(is_weights(z, density_normal(0, 1)), class = "fusedmc_error_input")
  expect_null(release(z))
  expect_same_bits(as.matrix(y), grid_matrix(30, 2, 998))
})

test_that("memory is counted, and collected with what nobody holds", {
  skip_without_gpu()
  held <- function() backend_info()$devices$resident_gb[1]
  gc()
  before <- held()
  y <- to_device(matrix(0, 6400, 10), backend = "cuda")
  expect_equal(held() - before, 6400 * 10 * 8 / 1e9)
  z <- to_device(matrix(0, 6400, 10), "single", backend = "cuda")
  expect_equal(held() - before, 6400 * 10 * 12 / 1e9)
  release(y)
  expect_equal(held() - before, 6400 * 10 * 4 / 1e9)
  rm(z)
  gc()
  expect_equal(held(), before)
})

test_that("a forked child cannot use it and does not free it", {
  skip_without_gpu()
  skip_on_os("windows")
  y <- to_device(grid_matrix(30, 2, 999), backend = "cuda")
  child <- parallel::mcparallel({
    said <- tryCatch(as.matrix(y), error = function(e) class(e)[1])
    release(y)
    said
  })
  expect_identical(parallel::mccollect(child)[[1]], "fusedmc_error_cuda")
  expect_same_bits(as.matrix(y), grid_matrix(30, 2, 999))
})
