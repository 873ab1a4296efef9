test_that("backend_info() says what was built and what runs here", {
  info <- backend_info()
  expect_s3_class(info, "fusedmc_backend_info")
  expect_setequal(names(info), c(
    "version", "build", "toolkit", "driver", "devices", "cuda_status", "simd", "threads", "backend"
  ))
  expect_identical(as.character(info$version), as.character(utils::packageVersion("fusedmc")))
  expect_true(info$build %in% c("cpu", "cpu+cuda"))
  expect_true(info$simd %in% c("baseline", "avx2", "avx512"))
  expect_true(info$threads >= 1 && info$threads == round(info$threads))
  expect_s3_class(info$devices, "data.frame")
  expect_identical(names(info$devices), c("device", "name", "memory_gb", "compute_capability", "resident_gb"))
  expect_equal(info$devices$device, seq_len(nrow(info$devices)) - 1)
  if (info$build == "cpu") {
    expect_identical(nrow(info$devices), 0L)
  }
  if (nrow(info$devices) == 0) {
    expect_true(is.character(info$cuda_status) && length(info$cuda_status) == 1 && nchar(info$cuda_status) > 10)
  }
})

test_that("backend_info() prints itself and returns itself invisibly", {
  info <- backend_info()
  expect_output(print(info), info$simd, fixed = TRUE)
  expect_output(print(info), as.character(info$version), fixed = TRUE)
  expect_output(print(info), if (nrow(info$devices)) info$devices$name[1] else info$cuda_status, fixed = TRUE)
  expect_identical(print_quietly(info), info)
  expect_false(withVisible(print_quietly(info))$visible)
})

test_that("the options show in backend_info()", {
  withr::with_options(list(fusedmc.backend = "cpu"), expect_identical(backend_info()$backend, "cpu"))
  withr::with_options(list(fusedmc.backend = NULL), expect_identical(backend_info()$backend, "auto"))
  with_threads(1, expect_equal(backend_info()$threads, 1))
})

test_that("under R CMD check at most two threads run", {
  withr::with_envvar(c("_R_CHECK_LIMIT_CORES_" = "TRUE"), {
    withr::with_options(list(fusedmc.threads = NULL), expect_lte(backend_info()$threads, 2))
  })
})

test_that("auto, cpu and the option agree bit for bit", {
  x <- grid_matrix(300, 5, 601)
  for (precision in case_precisions) {
    auto <- mh_step(x, seed = 1, precision = precision)
    expect_same_bits(mh_step(x, seed = 1, precision = precision, backend = "cpu"), auto)
    expect_same_bits(mh_step(x, seed = 1, precision = precision, backend = "auto"), auto)
    expect_same_bits(
      withr::with_options(list(fusedmc.backend = "cpu"), mh_step(x, seed = 1, precision = precision)), auto
    )
    weights <- is_weights(x, density_normal(0, 1), precision = precision)
    expect_same_bits(is_weights(x, density_normal(0, 1), precision = precision, backend = "cpu"), weights)
  }
})

test_that("cuda without a GPU is an error that says why, and the session goes on", {
  skip_with_gpu()
  x <- matrix(0.5, 2, 2)
  for (call in list(
    function() mh_step(x, seed = 1, backend = "cuda"),
    function() is_weights(x, density_normal(0, 1), backend = "cuda"),
    function() is_weights(log_weights = c(0, 1), backend = "cuda"),
    function() mh_step(matrix(0, 0, 2), seed = 1, backend = "cuda"),
    function() withr::with_options(list(fusedmc.backend = "cuda"), mh_step(x, seed = 1))
  )) {
    condition <- expect_error(call(), class = "fusedmc_error_cuda")
    expect_s3_class(condition, "fusedmc_error")
    expect_match(conditionMessage(condition), backend_info()$cuda_status, fixed = TRUE)
  }
  expect_silent(mh_step(x, seed = 1))
  expect_silent(mh_step(x, seed = 1, device = 3))
})

test_that("with CUDA_VISIBLE_DEVICES empty the package loads, auto runs on the CPU and cuda says why", {
  skip_on_cran()
  run <- run_in_fresh_r(c(
    "info <- backend_info()",
    "cat('devices', nrow(info$devices), '\\n')",
    "x <- matrix(0.5, 40, 3)",
    "cat('auto', mh_step(x, seed = 1)$x[1:3], '\\n')",
    "e <- tryCatch(mh_step(x, seed = 1, backend = 'cuda'), error = identity)",
    "cat('class', inherits(e, 'fusedmc_error_cuda'), '\\n')",
    "cat('status', grepl(info$cuda_status, conditionMessage(e), fixed = TRUE), '\\n')"
  ), c(CUDA_VISIBLE_DEVICES = ""))
  expect_identical(run$status, 0L)
  expect_true("devices 0 " %in% run$output)
  here <- mh_step(matrix(0.5, 40, 3), seed = 1, backend = "cpu")$x[1:3]
  expect_true(any(startsWith(run$output, paste("auto", paste(format_cat(here), collapse = " ")))))
  expect_true("class TRUE " %in% run$output)
  expect_true("status TRUE " %in% run$output)
})

test_that("loading the package draws no random numbers, opens no device and says nothing", {
  skip_on_cran()
  run <- run_in_fresh_r(c(
    "cat('seed', exists('.Random.seed', globalenv()), '\\n')",
    "unloadNamespace('fusedmc')",
    "cat('again', 'fusedmc' %in% loadedNamespaces(), '\\n')",
    "library(fusedmc, lib.loc = lib)",
    "cat('works', length(mh_step(matrix(0), seed = 1)$accepted), '\\n')"
  ))
  expect_identical(run$output, c("seed FALSE ", "again FALSE ", "works 1 "))
})

test_that("a child forked after threads were used computes the same, on one thread", {
  skip_on_os("windows")
  x <- grid_matrix(40000, 16, 305)
  withr::local_options(fusedmc.threads = 2)
  here <- mh_step(x, seed = 1, backend = "cpu")
  job <- parallel::mcparallel(list(
    threads = backend_info()$threads, step = mh_step(x, seed = 1, backend = "cpu"),
    weights = is_weights(x, density_normal(0, 1), backend = "cpu")
  ))
  answer <- parallel::mccollect(job, wait = FALSE, timeout = 30)
  if (is.null(answer)) {
    tools::pskill(job$pid, tools::SIGKILL)
    parallel::mccollect(job)
    fail("the child hangs")
  } else {
    expect_identical(answer[[1]]$threads, 1L)
    expect_same_bits(answer[[1]]$step, here)
    expect_same_bits(answer[[1]]$weights, is_weights(x, density_normal(0, 1), backend = "cpu"))
  }
})
