# The door to importance sampling against the oracle: draws, log weights, nodes and tails.

# What is drawn from by name: list(densities, groups of parts for the oracle, n_dim, exact = whether the oracle's draws
# have the same bits). A t takes logarithms on the way, and the oracle's are R's.
importance_case <- function(kind) {
  part <- function(mean, factor, df = Inf, weight = 1) list(mean = mean, factor = factor, df = df, weight = weight)
  lower <- core_cholesky(grid_covariance(3, 981))$factor
  sds <- case_sds(3, 3)
  means <- case_means(3, 3)
  weights <- c(0.25, 0.5, 0.25)
  mixture <- Map(function(k) part(means[k, ], sds[k, ], Inf, weights[k]), 1:3)
  normal <- part(grid_values(5, 982), as.vector(case_sds(1, 5)))
  switch(kind,
    normal = list(list(density_normal(normal$mean, normal$factor)), list(list(normal)), 5, TRUE),
    mixture = list(list(density_mixture(weights, means, sds)), list(mixture), 3, TRUE),
    full = list(list(density_mvnormal(1:3, chol = lower)), list(list(part(1:3, lower))), 3, TRUE),
    student = list(list(density_student_t(1.5, 1:2, 2)), list(list(part(1:2, c(2, 2), 1.5))), 2, FALSE),
    kinds = list(
      list(density_mixture(weights, components = list(
        density_normal(1, 2), density_mvnormal(c(1, 2, 3), chol = lower), density_student_t(7, c(0, 1, 2))
      ))),
      list(Map(replace, list(
        part(rep(1, 3), rep(2, 3)), part(1:3, lower), part(0:2, rep(1, 3), 7)
      ), "weight", weights)),
      3, FALSE
    ),
    groups = list(
      list(density_normal(0, 2), density_mixture(weights, means, sds), density_normal(5, 1)),
      list(list(part(rep(0, 3), rep(2, 3))), mixture, list(part(rep(5, 3), rep(1, 3)))), 3, TRUE
    ),
    apiece = list(
      list(density_normal(0, 2), density_normal(3, 1)),
      list(list(part(0, 2)), list(part(3, 1))), 1, TRUE
    )
  )
}

case_drawings <- c("normal", "mixture", "full", "student", "kinds", "groups", "apiece")
case_moments <- c("none", "squares", "products")

on_cpu <- function(threads = 1L, cpu_ns = 1e8) list("cpu", 0L, threads, cpu_ns)

# A run with draws and log weights, weighed against a t that lies elsewhere.
importance_run <- function(kind, n, offset = 0, precision = "double", moments = "none", n_tail = 0, run = on_cpu(),
                           seed = 2^40 + 3, keep = TRUE) {
  case <- importance_case(kind)
  d <- case[[3]]
  nodes <- lapply(importance_densities(kind), density_nodes, n_dim = d)
  run_importance(
    n, d, seed, offset,
    drawing = draw_plan(case[[1]], d), target = linked(nodes[[1]], precision, run),
    proposal = linked(nodes[[2]], precision, run), moments = moments, shift = grid_values(d, 983), n_tail = n_tail,
    keep_draws = keep, keep_log_weights = keep, precision = precision, run = run
  )
}

importance_densities <- function(kind) {
  case <- importance_case(kind)
  from <- case[[1]]
  proposal <- if (length(from) == 1) from[[1]] else density_mixture(rep(1, length(from)), components = from)
  list(density_student_t(4, rep(0.5, case[[3]]), 1.5), proposal)
}

# Where a result differs from the oracle's for its own draws and log weights.
importance_faults <- function(result, offset, moments, n_tail, precision, label) {
  shift <- grid_values(ncol(result$draws), 983)
  expected <- oracle_importance(result$log_weights, result$draws, offset, moments, shift, n_tail, precision)
  faults <- !vapply(names(expected), function(name) same_bits(result[[name]], expected[[name]]), NA)
  if (any(faults)) paste(label, paste(names(which(faults)), collapse = "+")) else character()
}

expect_oracle_draws <- function(draws, kind, offset, precision) {
  case <- importance_case(kind)
  expected <- oracle_draw_groups(case[[2]], nrow(draws), 2^40 + 3, offset, precision)
  if (case[[4]]) {
    expect_same_bits(draws, expected, paste(kind, precision))
  } else {
    error <- max(abs(draws - expected) / pmax(1, abs(expected)))
    expect_lt(error, if (precision == "single") 1e-6 else 1e-14)
  }
}

test_that("draws are those of the words, in both precisions", {
  for (kind in case_drawings) {
    for (precision in case_precisions) {
      for (offset in c(0, 2^32 - 77)) {
        expect_oracle_draws(importance_run(kind, 333, offset, precision)$draws, kind, offset, precision)
      }
    }
  }
})

test_that("draws in double precision are those of draw()", {
  for (kind in setdiff(case_drawings, c("groups", "apiece"))) {
    drawn <- draw(importance_case(kind)[[1]][[1]], 5000, 2^40 + 3, 2^32 - 77)
    attr(drawn, "seed") <- NULL
    expect_same_bits(importance_run(kind, 5000, 2^32 - 77)$draws, drawn, kind)
  }
})

test_that("log weights are differences of log densities", {
  for (kind in case_drawings) {
    densities <- importance_densities(kind)
    for (precision in case_precisions) {
      result <- importance_run(kind, 300, 1000, precision)
      values <- lapply(densities, log_density, result$draws, precision = precision, backend = "cpu")
      expect_same_bits(result$log_weights, round_to(values[[1]] - values[[2]], precision), paste(kind, precision))
    }
  }
})

test_that("nodes and tails are the oracle's, whatever n and offset", {
  faults <- character()
  turn <- 0
  for (n in c(1, 31, 32, 33, 255, 256, 257, 4095, 4096, 4097, 12345)) {
    for (offset in c(0, 4096 * 3, 1000, 2^40 + 4095)) {
      turn <- turn + 1
      kind <- case_drawings[turn %% length(case_drawings) + 1]
      moments <- case_moments[turn %/% 2 %% 3 + 1]
      precision <- case_precisions[turn %/% 3 %% 2 + 1]
      n_tail <- c(0, 1, 100, 5000)[turn %% 4 + 1]
      result <- importance_run(kind, n, offset, precision, moments, n_tail)
      label <- paste(kind, n, offset, precision, moments)
      faults <- c(faults, importance_faults(result, offset, moments, n_tail, precision, label))
    }
  }
  expect_none(faults)
})

test_that("nodes and tails are the oracle's for every drawing, precision and kind of moments", {
  faults <- character()
  for (kind in case_drawings) {
    for (precision in case_precisions) {
      for (moments in case_moments) {
        result <- importance_run(kind, 4500, 3900, precision, moments, 50)
        faults <- c(faults, importance_faults(result, 3900, moments, 50, precision, paste(kind, precision, moments)))
      }
    }
  }
  expect_none(faults)
})

test_that("no samples make no nodes", {
  for (offset in c(0, 1000)) {
    result <- importance_run("normal", 0, offset, moments = "squares", n_tail = 5)
    expect_identical(dim(result$nodes), c(18L, 0L))
    expect_identical(result$tail, numeric())
    expect_identical(dim(result$draws), c(0L, 5L))
    expect_identical(result$log_weights, numeric())
    expect_identical(result$first_bad, NA_real_)
    total <- total_nodes(result$nodes)
    expect_identical(total[c("n", "max", "sum")], list(n = 0, max = -Inf, sum = 0))
    expect_identical(total[c("sum_x", "second")], list(sum_x = numeric(5), second = numeric(5)))
  }
})

test_that("what is not kept changes nothing else", {
  for (kind in c("normal", "kinds")) {
    kept <- importance_run(kind, 10000, 77, moments = "squares", n_tail = 10)
    bare <- importance_run(kind, 10000, 77, moments = "squares", n_tail = 10, keep = FALSE)
    expect_null(bare$draws)
    expect_null(bare$log_weights)
    expect_same_bits(bare[c("nodes", "tail", "first_bad")], kept[c("nodes", "tail", "first_bad")])
  }
})

test_that("given samples and log weights give the nodes of draws", {
  drawn <- importance_run("mixture", 9000, 5000, moments = "products", n_tail = 20)
  nodes <- lapply(importance_densities("mixture"), density_nodes, n_dim = 3)
  shift <- grid_values(3, 983)
  for (run in list(on_cpu(), on_cpu(2L))) {
    given <- run_importance(9000, 3,
      offset = 5000, samples = drawn$draws, target = linked(nodes[[1]], "double", run),
      proposal = linked(nodes[[2]], "double", run), moments = "products", shift = shift, n_tail = 20,
      keep_log_weights = TRUE, run = run
    )
    expect_same_bits(given[c("nodes", "tail", "log_weights")], drawn[c("nodes", "tail", "log_weights")])
    weighed <- run_importance(9000, 3,
      offset = 5000, samples = drawn$draws, log_weights = drawn$log_weights, moments = "products", shift = shift,
      n_tail = 20, run = run
    )
    expect_same_bits(weighed[c("nodes", "tail")], drawn[c("nodes", "tail")])
    again <- run_importance(9000, 3,
      seed = 2^40 + 3, offset = 5000, drawing = draw_plan(importance_case("mixture")[[1]], 3),
      log_weights = drawn$log_weights, moments = "products", shift = shift, keep_draws = TRUE,
      keep_log_weights = TRUE, run = run
    )
    expect_same_bits(again[c("nodes", "draws", "log_weights")], drawn[c("nodes", "draws", "log_weights")])
    alone <- run_importance(9000, 3, offset = 5000, log_weights = drawn$log_weights, n_tail = 20, run = run)
    expect_same_bits(alone$nodes, drawn$nodes[1:8, ])
  }
})

test_that("samples that are given are rounded in single precision, log weights are not", {
  x <- grid_matrix(5000, 2, 984)
  log_weights <- grid_values(5000, 985)
  result <- run_importance(5000, 2,
    samples = x, log_weights = log_weights, moments = "squares", shift = c(0.1, 0.2), precision = "single",
    run = on_cpu()
  )
  expected <- oracle_importance(log_weights, x, moments = "squares", shift = c(0.1, 0.2), precision = "single")
  expect_same_bits(result$nodes, expected$nodes)
})

test_that("sums are those of is_weights()", {
  x <- grid_matrix(20000, 3, 986)
  densities <- importance_densities("mixture")
  run <- on_cpu(2L)
  nodes <- lapply(densities, function(density) linked(density_nodes(density, 3), "double", run))
  result <- run_importance(20000, 3, samples = x, target = nodes[[1]], proposal = nodes[[2]], run = run)
  total <- total_nodes(result$nodes)
  expected <- is_weights(x, densities[[1]], densities[[2]], backend = "cpu")
  expect_same_bits(total$sum_x / total$sum, expected$mean)
  expect_same_bits(total$sum^2 / total$sum_squares, expected$ess)
  expect_identical(total$n, 20000)
})

test_that("a run cut at borders of tiles has the nodes of the whole", {
  for (offset in c(0, 4096 * 5, 1000)) {
    n <- 12 * 4096 + 100
    whole <- importance_run("mixture", n, offset, moments = "squares", n_tail = 100)
    cuts <- list(1, c(1, 2, 3), c(4, 8), c(2, 5, 6, 11), 12)
    for (cut in cuts) {
      bounds <- c(0, cut * 4096 - offset %% 4096, n)
      parts <- Map(function(from, to) {
        importance_run("mixture", to - from, offset + from, moments = "squares", n_tail = 100)
      }, utils::head(bounds, -1), bounds[-1])
      joined <- join_nodes(do.call(cbind, lapply(parts, `[[`, "nodes")))
      expect_same_bits(joined, whole$nodes)
      tail <- sort(unlist(lapply(parts, `[[`, "tail")), decreasing = TRUE)[1:100]
      expect_same_bits(tail, whole$tail)
      expect_same_bits(do.call(rbind, lapply(parts, `[[`, "draws")), whole$draws)
    }
  }
})

test_that("a run cut elsewhere has the same nodes but for rounding", {
  n <- 30000
  whole <- importance_run("full", n, 500, moments = "products")
  for (cut in list(c(0, 1, 2, 3), c(0, 3595, 3596, 3597), c(0, 5000, 6000, 7000, 20000), c(0, 100, 29999))) {
    bounds <- c(cut, n)
    parts <- Map(function(from, to) {
      importance_run("full", to - from, 500 + from, moments = "products")$nodes
    }, utils::head(bounds, -1), bounds[-1])
    joined <- join_nodes(do.call(cbind, parts))
    expect_identical(joined[1:6, ], whole$nodes[1:6, ])
    expect_lt(max(abs(joined - whole$nodes) / abs(whole$nodes[7, ])[col(joined)]), 1e-12)
    expect_equal(total_nodes(joined), total_nodes(whole$nodes), tolerance = 1e-12)
  }
})

test_that("nodes with gaps between them are left apart", {
  first <- importance_run("normal", 4096, 0)$nodes
  third <- importance_run("normal", 4096, 2 * 4096)$nodes
  fourth <- importance_run("normal", 4096, 3 * 4096)$nodes
  joined <- join_nodes(cbind(first, third, fourth))
  expect_identical(joined["first", ], c(0, 2))
  expect_identical(joined["level", ], c(0, 1))
  # neighbours, but not the halves of an aligned run
  second <- importance_run("normal", 4096, 4096)$nodes
  expect_identical(join_nodes(cbind(second, third))["level", ], c(0, 0))
})

test_that("a total is the tree of is_weights() at every number of tiles", {
  for (n_tiles in c(1, 2, 3, 5, 7, 8, 11)) {
    n <- n_tiles * 4096 - 17
    log_weights <- 30 * grid_values(n, 987)
    x <- grid_matrix(n, 2, 988)
    total <- total_nodes(run_importance(n, 2, samples = x, log_weights = log_weights, run = on_cpu())$nodes)
    # tiles by twos, the last one without a neighbour going up by itself
    tiles <- lapply(split(seq_len(n), (seq_len(n) - 1) %/% 4096), function(i) {
      oracle_tile(0, (i - 1) %% 4096, log_weights[i], x[i, , drop = FALSE])
    })
    while (length(tiles) > 1) {
      pairs <- split(tiles, (seq_along(tiles) - 1) %/% 2)
      tiles <- lapply(pairs, function(pair) if (length(pair) == 2) oracle_join(pair[[1]], pair[[2]], 0) else pair[[1]])
    }
    expect_same_bits(unname(unlist(total)), tiles[[1]][-(1:2)], n_tiles)
  }
})

test_that("threads, in both ways to share the work, and SIMD builds change nothing", {
  for (kind in case_drawings) {
    for (precision in case_precisions) {
      n <- 20 * 4096 + 7
      run <- function(threads = 1L, cpu_ns = 1e8) {
        importance_run(kind, n, 4000, precision, "squares", 300, on_cpu(threads, cpu_ns), keep = FALSE)
      }
      expected <- run()
      expect_same_bits(run(2L), expected, kind) # a tile a thread
      expect_same_bits(run(3L), expected, kind) # parts of tiles
      expect_same_bits(run(1L, 1e10), expected, kind) # parts of tiles between looks for an interrupt
      for (level in simd_levels()) {
        expect_same_bits(with_simd(level, run()), expected, paste(kind, level))
      }
    }
  }
})

test_that("a tail is the largest log weights, however many there are and in any order", {
  n <- 3e5
  for (order in c("mixed", "rising", "falling", "equal")) {
    log_weights <- grid_values(n, 989)
    log_weights <- switch(order,
      mixed = log_weights,
      rising = sort(log_weights),
      falling = sort(log_weights, decreasing = TRUE),
      equal = rep(c(1, 2, 3), length.out = n)
    )
    for (n_tail in c(1, 2, 1000, n, 2 * n)) {
      tail <- run_importance(n, 0, log_weights = log_weights, n_tail = n_tail, run = on_cpu(2L))$tail
      expect_same_bits(tail, utils::head(sort(log_weights, decreasing = TRUE), n_tail), paste(order, n_tail))
    }
  }
})

test_that("zero weights and bad ones are counted and weigh nothing", {
  n <- 9000
  log_weights <- grid_values(n, 990)
  x <- grid_matrix(n, 2, 991)
  log_weights[c(5, 5000)] <- -Inf
  log_weights[c(7000, 8999)] <- c(NaN, Inf)
  x[c(5, 5000, 7000, 8999), ] <- c(Inf, NaN, -Inf, NA)
  for (offset in c(0, 1234)) {
    result <- run_importance(n, 2,
      offset = offset, samples = x, log_weights = log_weights, moments = "products", shift = c(1, 2), n_tail = 9,
      run = on_cpu()
    )
    expected <- oracle_importance(log_weights, x, offset, "products", c(1, 2), 9)
    expect_same_bits(result[names(expected)], expected)
    total <- total_nodes(result$nodes)
    expect_identical(c(total$n, total$n_zero, total$n_bad), c(n, 2, 2))
    expect_identical(result$first_bad, offset + 6999)
    expect_true(all(is.finite(result$nodes)))
  }
  none <- run_importance(5000, 0, log_weights = rep(-Inf, 5000), n_tail = 9, run = on_cpu())
  expect_identical(total_nodes(none$nodes)[c("n_zero", "max", "sum")], list(n_zero = 5000, max = -Inf, sum = 0))
  expect_identical(none$tail, numeric())
})

test_that("a shift of log weights moves the largest and nothing else", {
  log_weights <- grid_values(10000, 992)
  base <- run_importance(10000, 0, log_weights = log_weights, n_tail = 3, run = on_cpu())
  for (shift in c(-2^13, 2^13)) { # exact in all of them
    moved <- run_importance(10000, 0, log_weights = log_weights + shift, n_tail = 3, run = on_cpu())
    expect_identical(moved$nodes["max", ], base$nodes["max", ] + shift)
    expect_identical(moved$nodes[-6, ], base$nodes[-6, ])
    expect_identical(moved$tail, base$tail + shift)
  }
  far <- run_importance(3, 0, log_weights = c(-1000, -1001, -1002), run = on_cpu())$nodes
  expect_equal(far[["max", 1]] + log(far[["sum", 1]] / 3), -1000.691006, tolerance = 1e-9)
  expect_equal(far[["sum", 1]]^2 / far[["sum_squares", 1]], 1.958699, tolerance = 1e-6)
})

test_that("second moments are those of the samples", {
  x <- draw(density_mvnormal(c(1, -1), matrix(c(2, 0.5, 0.5, 1), 2)), 20000, 4)
  run <- function(moments, shift) {
    total_nodes(run_importance(20000, 2,
      samples = x, log_weights = numeric(20000), moments = moments, shift = shift, run = on_cpu()
    )$nodes)
  }
  centred <- sweep(x, 2, c(1, -1))
  expect_equal(run("squares", c(1, -1))$second, colSums(centred^2), tolerance = 1e-12)
  products <- run("products", c(1, -1))$second
  expect_equal(products, crossprod(centred)[c(1, 2, 4)], tolerance = 1e-12, ignore_attr = TRUE)
  # far from the shift nothing is lost where the shift follows
  expect_equal(run("squares", c(1e3, 0))$second, colSums(sweep(x, 2, c(1e3, 0))^2), tolerance = 1e-12)
})
