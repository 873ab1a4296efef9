# Importance sampling on the GPU against the CPU: nodes, tails, draws and log weights identical, bit for bit.

on_backend <- function(backend, cpu_ns = 1e7) list(backend, 0L, NA_integer_, cpu_ns)

importance_parts <- function(kind, n_dim) {
  means <- case_means(3, n_dim)
  sds <- case_sds(3, n_dim)
  lower <- core_cholesky(grid_covariance(n_dim, 941))$factor
  switch(kind,
    normal = density_normal(means[1, ], sds[1, ]),
    standard = density_normal(0, 1),
    centred = density_normal(0, 1.5),
    uncentred = density_normal(0.25, 1.5),
    narrow_last = density_normal(0, c(rep(2, n_dim - 1), 1.75)),
    alike2 = density_mixture(1:2, case_means(2, n_dim), 1.25),
    alike3 = density_mixture(1:3, means, 0.75),
    alike6 = density_mixture(1:6, case_means(6, n_dim), 1.25),
    mixture2 = density_mixture(1:2, case_means(2, n_dim), case_sds(2, n_dim)),
    mixture6 = density_mixture(1:6, case_means(6, n_dim), case_sds(6, n_dim)),
    mixture25 = density_mixture(1:25, case_means(25, n_dim), case_sds(25, n_dim)),
    mixture = density_mixture(c(0.5, 0.2, 0.3), means, sds),
    student = density_student_t(3.5, means[2, ], 1.5),
    full = density_mvnormal(means[3, ], chol = lower),
    kinds = density_mixture(c(1, 2), components = list(density_normal(0, 2), density_student_t(5, means[1, ])))
  )
}

# Samples that are drawn from `proposals` in turn, or given, or on the GPU already, or log weights that are given.
importance_on <- function(backend, n, n_dim, target, proposals, from = "drawn", offset = 0, precision = "double",
                          moments = "none", n_tail = 0, keep = FALSE, cpu_ns = 1e7) {
  run <- on_backend(backend, cpu_ns)
  proposals <- lapply(proposals, importance_parts, n_dim = n_dim)
  proposal <- if (length(proposals) == 1) {
    proposals[[1]]
  } else {
    density_mixture(rep(1, length(proposals)), components = proposals)
  }
  drawn <- from %in% c("drawn", "drawn given")
  nodes <- list(NULL, NULL)
  given <- NULL
  if (grepl("given", from)) {
    given <- grid_values(n, 942) * 30
    given[seq_len(n) %% 5 == 3] <- -Inf
    given[seq_len(n) %% 4099 == 17] <- NaN
  } else {
    nodes <- lapply(list(importance_parts(target, n_dim), proposal), function(density) {
      linked(density_nodes(density, n_dim), precision, run)
    })
  }
  samples <- if (from %in% c("samples", "samples given", "resident")) grid_matrix(n, n_dim, 943) * 2
  if (from == "resident" && backend == "cuda") samples <- to_device(samples, precision, "cuda")
  run_importance(
    n, n_dim, 2^41 + 5, offset,
    samples = samples,
    drawing = if (drawn) draw_plan(proposals, n_dim), target = nodes[[1]], proposal = nodes[[2]],
    log_weights = given, moments = if (from == "given") "none" else moments, shift = grid_values(n_dim, 944),
    n_tail = n_tail, keep_draws = keep && drawn, keep_log_weights = keep, precision = precision, run = run
  )
}

compare_importance <- function(...) {
  same_bits(importance_on("cuda", ...), importance_on("cpu", ...))
}

# Rows of a data frame of arguments for which CPU and GPU differ.
different_rows <- function(cases, ...) {
  same <- vapply(seq_len(nrow(cases)), function(i) do.call(compare_importance, c(as.list(cases[i, ]), list(...))), NA)
  vapply(which(!same), function(i) paste(cases[i, ], collapse = " "), "")
}

test_that("every source, moment, precision and keep gives the CPU's bits", {
  skip_without_gpu()
  cases <- expand.grid(
    from = c("drawn", "samples", "given", "samples given", "drawn given"), moments = c("none", "squares", "products"),
    precision = case_precisions, keep = c(FALSE, TRUE), n_dim = c(1, 3, 16, 17), stringsAsFactors = FALSE
  )
  expect_none(different_rows(cases, n = 9000, target = "mixture", proposals = "normal", n_tail = 50))
})

test_that("any density, drawn from or weighed", {
  skip_without_gpu()
  failed <- character()
  kinds <- c("normal", "mixture", "student", "full", "kinds")
  for (target in kinds) {
    for (proposal in c(as.list(kinds), list(c("normal", "mixture"), c("full", "student", "normal")))) {
      for (precision in case_precisions) {
        same <- compare_importance(5000, 5, target, proposal, precision = precision, moments = "squares")
        if (!same) failed <- c(failed, paste(target, toString(proposal), precision))
      }
    }
  }
  expect_none(failed)
})

test_that("means of zero, one sd for all dims, and few or many components", {
  skip_without_gpu()
  targets <- c("standard", "uncentred", "normal", "alike2", "alike3", "alike6", "mixture2", "mixture6", "mixture25")
  proposals <- c("centred", "narrow_last", "uncentred", "normal", "alike3", "mixture2", "alike6", "mixture6")
  cases <- expand.grid(
    target = targets, proposals = proposals, precision = case_precisions, n_dim = c(4, 11, 16),
    stringsAsFactors = FALSE
  )
  expect_none(different_rows(cases, n = 5000)) # nothing kept: drawn, weighed and summed by one kernel
  expect_none(different_rows(cases[cases$n_dim == 16, ], n = 5000, moments = "squares", n_tail = 100))
  # Enough samples for the kernel that reads them once.
  cases <- cases[cases$n_dim %in% c(11, 16) & cases$proposals %in% c("centred", "narrow_last", "alike6"), ]
  expect_none(different_rows(cases, n = 3e5 + 1, from = "resident"))
  cases <- cases[cases$target %in% c("standard", "alike3", "mixture6"), ]
  expect_none(different_rows(cases, n = 3e5 + 1, from = "resident", moments = "squares", offset = 4, n_tail = 500))
})

test_that("log weights far apart, on both sides of what a weight can be", {
  skip_without_gpu()
  cases <- expand.grid(
    target = c("standard", "alike3", "mixture"), precision = case_precisions, n_dim = c(4, 16),
    moments = c("none", "squares"), scale = c(1, 8, 20, 40), stringsAsFactors = FALSE
  )
  same <- vapply(seq_len(nrow(cases)), function(i) {
    case <- cases[i, ]
    x <- grid_matrix(3e5, case$n_dim, 945) * case$scale
    proposal <- density_normal(0, case$scale / 20)
    result <- lapply(c("cuda", "cpu"), function(backend) {
      run <- on_backend(backend)
      nodes <- lapply(list(importance_parts(case$target, case$n_dim), proposal), function(density) {
        linked(density_nodes(density, case$n_dim), case$precision, run)
      })
      run_importance(
        nrow(x), case$n_dim,
        samples = if (backend == "cuda") to_device(x, case$precision, "cuda") else x, target = nodes[[1]],
        proposal = nodes[[2]], moments = case$moments, shift = numeric(case$n_dim), n_tail = 100,
        keep_log_weights = TRUE, precision = case$precision, run = run
      )
    })
    same_bits(result[[1]], result[[2]])
  }, NA)
  expect_none(vapply(which(!same), function(i) paste(cases[i, ], collapse = " "), ""))
})

test_that("sizes and offsets around tiles, and chunks of every size", {
  skip_without_gpu()
  cases <- expand.grid(
    n = c(0, 1, 255, 256, 4095, 4096, 4097, 2^18 + 3), offset = c(0, 3 * 4096, 1000, 1001, 255 * 4096 + 4000, 2^33 + 6),
    from = c("drawn", "samples"), n_dim = c(4, 6), stringsAsFactors = FALSE
  )
  expect_none(different_rows(cases, target = "mixture", proposals = "normal", n_tail = 7))
  cases <- data.frame(cpu_ns = c(1e7, 1e11, 1e12))
  expect_none(different_rows(
    cases,
    n = 2^18 + 3, n_dim = 4, target = "mixture", proposals = "mixture", offset = 77, n_tail = 1000
  ))
})

test_that("a tail of log weights that keep rising loses none", {
  skip_without_gpu()
  n <- 400000
  for (log_weights in list(as.double(seq_len(n)), as.double(rev(seq_len(n))), rep(0, n), rep(c(-Inf, 1), n / 2))) {
    result <- lapply(c("cuda", "cpu"), function(backend) {
      run_importance(n, 0, log_weights = log_weights, n_tail = 30000, run = on_backend(backend))
    })
    expect_same_bits(result[[1]], result[[2]])
    expect_identical(result[[1]]$tail, sort(log_weights[is.finite(log_weights)], decreasing = TRUE)[1:30000])
  }
})

test_that("many samples, joined on the GPU, fused or not", {
  skip_without_gpu()
  for (precision in case_precisions) {
    expect_true(compare_importance(3e6, 16, "mixture", "normal", precision = precision, n_tail = 100))
    expect_true(compare_importance(2^20 + 1, 3, "mixture", "normal", precision = precision, moments = "squares"))
    expect_true(compare_importance(2^20 + 1, 3, "full", "normal", precision = precision, moments = "products"))
  }
})

test_that("a large matrix on the GPU is weighed as on the CPU", {
  skip_without_gpu()
  for (n_dim in c(2, 16)) {
    x <- grid_matrix(1e6, n_dim, 945) * 3
    for (precision in case_precisions) {
      y <- to_device(x, precision, "cuda")
      target <- importance_parts("mixture", n_dim)
      expect_same_bits(is_weights(y, target), is_weights(x, target, precision = precision, backend = "cpu"))
      release(y)
    }
  }
})
