# The GPU against the CPU: every output of both functions identical, bit for bit.

shapes <- c(golden_shapes, list(
  c(2, 2), c(31, 4), c(32, 8), c(33, 31), c(63, 32), c(64, 33), c(65, 100), c(127, 130), c(128, 1), c(129, 2),
  c(255, 3), c(256, 5), c(257, 7), c(1000, 10), c(1, 1000), c(2, 4096), c(3, 4097), c(1023, 65), c(1, 10000),
  c(65535, 1), c(65536, 1)
))

compare_backends <- function(run) {
  expect_same_bits(run("cuda"), run("cpu"))
}

test_that("every shape, target, step kind and precision gives the CPU's bits", {
  skip_without_gpu()
  failed <- character()
  for (target in case_target_kinds) {
    for (case in bit_cases(shapes, target)) {
      if (!same_bits(run_bit_case(case, "cuda"), run_bit_case(case, "cpu"))) {
        failed <- c(failed, case$label)
      }
    }
  }
  expect_none(failed)
})

test_that("every step kind crosses every target", {
  skip_without_gpu()
  failed <- character()
  for (n_dim in c(1, 3, 16, 33, 64, 130)) {
    for (target in case_target_kinds) {
      for (step in case_step_kinds) {
        for (precision in case_precisions) {
          case <- list(
            n = 97, d = n_dim, target = target, precision = precision, step = step,
            label = paste(n_dim, target, step, precision)
          )
          if (!same_bits(run_bit_case(case, "cuda"), run_bit_case(case, "cpu"))) {
            failed <- c(failed, case$label)
          }
        }
      }
    }
  }
  expect_none(failed)
})

test_that("mixtures of up to 40 components, also with weightless ones", {
  skip_without_gpu()
  for (k in c(1, 2, 31, 32, 33, 40)) {
    for (n_dim in c(1, 5, 64)) {
      weights <- grid_uniform(k, 901)
      if (k > 2) weights[2] <- 0
      density <- density_mixture(weights, case_means(k, n_dim), case_sds(k, n_dim))
      x <- grid_matrix(301, n_dim, 902)
      for (precision in case_precisions) {
        compare_backends(function(backend) {
          list(
            mh_step(x, density, 0.4, seed = 1, precision = precision, backend = backend),
            is_weights(x, density, precision = precision, backend = backend),
            is_weights(x, density_normal(0, 1), density, precision = precision, backend = backend)
          )
        })
      }
    }
  }
})

test_that("one of noise and u may be given, the generator makes the other", {
  skip_without_gpu()
  for (n_dim in c(1, 4, 7, 16, 17, 64)) {
    x <- grid_matrix(300, n_dim, 909)
    noise <- grid_matrix(300, n_dim, 910)
    u <- grid_uniform(300, 911)
    for (precision in case_precisions) {
      compare_backends(function(b) mh_step(x, u = u, seed = 1, precision = precision, backend = b))
      compare_backends(function(b) mh_step(x, noise = noise, seed = 1, precision = precision, backend = b))
    }
  }
})

test_that("steps, seeds and chain offsets from end to end", {
  skip_without_gpu()
  x <- grid_matrix(70, 6, 903)
  for (precision in case_precisions) {
    for (step in c(0:8, 2^31, 2^32 - 1)) {
      compare_backends(function(b) mh_step(x, seed = 2^53, step = step, precision = precision, backend = b))
    }
    for (offset in c(1, 2^32 - 35, 2^32, 2^53 - 70)) {
      compare_backends(function(b) mh_step(x, seed = 3, chain_offset = offset, precision = precision, backend = b))
    }
  }
})

test_that("log weights that are -Inf, NaN or +Inf, dropped or not", {
  skip_without_gpu()
  for (n in c(1, 2, 33, 4097, 100003)) {
    samples <- grid_matrix(n, 3, 904)
    log_weights <- grid_values(n, 905) * 20
    log_weights[seq_len(n) %% 7 == 1] <- -Inf
    compare_backends(function(b) suppressWarnings(is_weights(samples, log_weights = log_weights, backend = b)))
    log_weights[seq_len(n) %% 11 == 2] <- NaN
    log_weights[seq_len(n) %% 13 == 3] <- Inf
    compare_backends(function(b) {
      suppressWarnings(is_weights(samples, log_weights = log_weights, nonfinite = "drop", backend = b))
    })
  }
  far <- matrix(c(0.5, 1e200, 0.25, -1e200), 4)
  for (precision in c("double")) {
    compare_backends(function(b) {
      suppressWarnings(is_weights(far, density_normal(0, 1), nonfinite = "drop", precision = precision, backend = b))
    })
  }
  messages <- vapply(c("cpu", "cuda"), function(b) {
    conditionMessage(expect_error(
      is_weights(log_weights = c(0, NaN, Inf), backend = b),
      class = "fusedmc_error_nonfinite"
    ))
  }, "")
  expect_identical(messages[["cpu"]], messages[["cuda"]])
})

test_that("closed forms hold and agree on the GPU", {
  skip_without_gpu()
  for (log_weights in list(c(-1000, -1001, -1002), c(1e4, 1e4, -Inf), -7, numeric(0))) {
    compare_backends(function(b) is_weights(log_weights = log_weights, backend = b))
  }
  result <- mh_step(matrix(0, 100000, 2), density_normal(0, 1), 0.5, seed = 1, backend = "cuda")
  expect_rate(result$accepted, 0.8)
})

test_that("overflowing proposals and starts behave as on the CPU", {
  skip_without_gpu()
  factor <- matrix(c(1e308, 1e308, 0, 1e308), 2)
  noise <- rbind(c(1e-309, 1e-309), c(10, -10), c(0, 0), c(10, -10))
  said <- list()
  run <- function(backend) {
    withCallingHandlers(
      mh_step(matrix(1:8 + 0, 4), density_normal(0, 1e308), factor, noise = noise, u = rep(0, 4), backend = backend),
      warning = function(w) {
        said[[backend]] <<- conditionMessage(w)
        invokeRestart("muffleWarning")
      }
    )
  }
  # log_alpha of a NaN proposal is NaN: its payload is not promised
  expect_same_bits(run("cuda")[1:3], run("cpu")[1:3])
  expect_identical(said$cuda, said$cpu)
  start <- matrix(c(0, 1e200), 2)
  errors <- vapply(c("cpu", "cuda"), function(b) {
    conditionMessage(expect_error(mh_step(start, seed = 1, backend = b), class = "fusedmc_error"))
  }, "")
  expect_identical(errors[["cpu"]], errors[["cuda"]])
})

test_that("no chains, no samples", {
  skip_without_gpu()
  compare_backends(function(b) mh_step(matrix(0, 0, 3), seed = 1, backend = b))
  compare_backends(function(b) is_weights(matrix(0, 0, 3), density_normal(0, 1), backend = b))
})

test_that("set.seed() governs on the GPU as on the CPU", {
  skip_without_gpu()
  withr::local_preserve_seed()
  compare_backends(function(b) {
    set.seed(42)
    mh_step(matrix(0, 100, 3), backend = b)
  })
})

test_that("inputs too large for one piece are cut without a trace", {
  skip_without_gpu()
  n <- 2^22 + 3
  x <- grid_matrix(n, 5, 906)
  target <- case_target("mixture2", 5)$density
  compare_backends(function(b) mh_step(x, target, 0.5, seed = 1, backend = b))
  compare_backends(function(b) is_weights(x, target, backend = b))
  compare_backends(function(b) is_weights(x, target, weights = FALSE, backend = b))
})

test_that("a gigabyte of state gives the CPU's bits", {
  skip_without_gpu()
  skip_unless_long()
  x <- grid_matrix(2^23, 16, 907)
  target <- case_target("normal", 16)$density
  compare_backends(function(b) mh_step(x, target, 0.5, seed = 1, backend = b))
  compare_backends(function(b) is_weights(x, target, backend = b))
})

test_that("more elements than 2^31: the last rows are stepped, the first not overwritten", {
  skip_without_gpu()
  skip_unless_long()
  skip_if(Sys.getenv("FUSEDMC_HUGE_TESTS") != "1", "FUSEDMC_HUGE_TESTS is not 1")
  n <- 2^27 + 5
  result <- mh_step(matrix(0, n, 16), density_normal(0, 1), 0.5, seed = 1, backend = "cuda")
  for (rows in list(1:1000, (n - 999):n)) {
    part <- mh_step(matrix(0, 1000, 16), density_normal(0, 1), 0.5,
      seed = 1, chain_offset = rows[1] - 1, backend = "cpu"
    )
    expect_same_bits(result$x[rows, ], part$x)
    expect_same_bits(result$accepted[rows], part$accepted)
  }
})

test_that("thread counts do not matter when comparing with the GPU", {
  skip_without_gpu()
  x <- grid_matrix(5000, 7, 908)
  gpu <- mh_step(x, seed = 1, backend = "cuda")
  for (n in 1:2) {
    expect_same_bits(with_threads(n, mh_step(x, seed = 1, backend = "cpu")), gpu)
  }
})

test_that("calls in any order, many times, give the same bits", {
  skip_without_gpu()
  x <- grid_matrix(1000, 4, 909)
  small <- mh_step(x[1:3, ], seed = 1, backend = "cuda")
  large <- mh_step(x, seed = 1, backend = "cuda")
  for (i in 1:200) {
    if (!same_bits(mh_step(x, seed = 1, backend = "cuda"), large)) fail("a later call differs")
    if (!same_bits(mh_step(x[1:3, ], seed = 1, backend = "cuda"), small)) fail("a later small call differs")
  }
  expect_same_bits(mh_step(x, seed = 1, backend = "cuda"), large)
})

test_that("a device that is not there is an error that lists those that are", {
  skip_without_gpu()
  n <- gpu_count()
  condition <- expect_input_error(mh_step(matrix(0), seed = 1, backend = "cuda", device = n), "device", n)
  expect_match(conditionMessage(condition), "0")
  expect_input_error(is_weights(matrix(0), density_normal(0, 1), backend = "cuda", device = 99L), "device", "99")
  expect_silent(mh_step(matrix(0), seed = 1, backend = "cuda", device = n - 1))
})

test_that("every device gives the same bits", {
  skip_if(gpu_count() < 2, "fewer than two GPUs")
  x <- grid_matrix(5000, 7, 910)
  for (device in seq_len(gpu_count()) - 1) {
    expect_same_bits(
      mh_step(x, seed = 1, backend = "cuda", device = device), mh_step(x, seed = 1, backend = "cpu")
    )
  }
})

test_that("an error on the GPU leaves the session fit for the next call", {
  skip_without_gpu()
  expect_error(mh_step(matrix(1e200), seed = 1, backend = "cuda"), class = "fusedmc_error")
  expect_error(is_weights(log_weights = c(NaN, 0), backend = "cuda"), class = "fusedmc_error_nonfinite")
  compare_backends(function(b) mh_step(matrix(0, 10, 2), seed = 1, backend = b))
})

test_that("a child forked after CUDA was used gets a clear error, and does not hang", {
  skip_without_gpu()
  skip_on_os("windows")
  mh_step(matrix(0), seed = 1, backend = "cuda")
  job <- parallel::mcparallel({
    auto <- tryCatch(mh_step(matrix(0, 4, 2), seed = 1, backend = "cpu")$x, error = identity)
    cuda <- tryCatch(mh_step(matrix(0), seed = 1, backend = "cuda"), error = identity)
    gc()
    list(cpu = auto, class = class(cuda), message = if (inherits(cuda, "error")) conditionMessage(cuda))
  })
  answer <- parallel::mccollect(job, wait = FALSE, timeout = 30)
  if (is.null(answer)) {
    tools::pskill(job$pid, tools::SIGKILL)
    parallel::mccollect(job)
    fail("the child hangs")
  } else {
    child <- answer[[1]]
    expect_true("fusedmc_error_cuda" %in% child$class)
    expect_match(child$message, "fork")
    expect_same_bits(child$cpu, mh_step(matrix(0, 4, 2), seed = 1, backend = "cpu")$x)
  }
  compare_backends(function(b) mh_step(matrix(0, 10, 2), seed = 1, backend = b))
})

test_that("backend_info() lists the devices", {
  skip_without_gpu()
  info <- backend_info()
  expect_identical(info$build, "cpu+cuda")
  expect_true(all(info$devices$memory_gb > 0))
  expect_match(as.character(info$devices$compute_capability), "^[0-9]+\\.[0-9]+$")
})

test_that("every kind of density gives the CPU's bits", {
  skip_without_gpu()
  failed <- character()
  shapes <- list(
    c(1, 1), c(2, 63), c(3, 64), c(4, 65), c(7, 129), c(12, 1000), c(17, 500), c(19, 130), c(33, 200), c(70, 100)
  )
  for (shape in shapes) {
    d <- shape[1]
    failed <- c(failed, density_case_labels(
      d, shape[2], function(density, precision) run_density_case(density, d, precision, "cuda"),
      function(density, precision) run_density_case(density, d, precision, "cpu")
    ))
  }
  expect_none(failed)
})

test_that("regressions of many observations, full covariances in many dims, mixtures of many components", {
  skip_without_gpu()
  compare_density <- function(density, d, n, precision) {
    x <- grid_matrix(n, d, 921)
    compare_backends(function(b) {
      list(
        unclass(mh_step(x, density, 0.01, seed = 3, precision = precision, backend = b)),
        log_density(density, x, precision = precision, backend = b)
      )
    })
  }
  for (precision in case_precisions) {
    for (n in c(1, 300)) {
      compare_density(case_glm("binomial", 10, 1e5), 10, n, precision)
      compare_density(case_glm("poisson", 3, 4097), 3, n, precision)
      compare_density(case_glm("gaussian", 50, 8191, prior_df = 4), 51, n, precision)
    }
    compare_density(density_mvnormal(0.5, chol = case_factor(2000)), 2000, 3, precision)
    compare_density(density_student_t(3, as.vector(case_means(1, 2000)), 2), 2000, 40, precision)
    compare_density(density_mixture(
      grid_uniform(1000, 922), case_means(1000, 3),
      chols = lapply(1:1000, function(k) case_factor(3, 1000 + k))
    ), 3, 200, precision)
  }
})

test_that("a density that is a function of R takes the rest to the GPU", {
  skip_without_gpu()
  density <- density_function(function(x) -rowSums(x^2) / 2)
  for (precision in case_precisions) {
    for (d in c(1, 17, 64)) {
      x <- grid_matrix(500, d, 923)
      for (step in list(0.3, case_step("lower", d))) {
        compare_backends(function(b) mh_step(x, density, step, seed = 5, precision = precision, backend = b))
      }
      compare_backends(function(b) is_weights(x, density, precision = precision, backend = b))
    }
  }
})

test_that("a call that is long on the GPU can be cut into chunks without a change", {
  skip_without_gpu()
  density <- case_glm("binomial", 2, 20000)
  x <- grid_matrix(3e5, 2, 924)
  compare_backends(function(b) log_density(density, x, backend = b))
})
