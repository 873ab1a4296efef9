# Indices against the oracle, which shares no code with src/: identical.

methods <- c("systematic", "stratified", "multinomial", "residual")

# What a call gives without the seed that it used.
indices_of <- function(...) as.vector(resample(..., backend = "cpu"))

# Spread over many orders of magnitude, with some zeros; the same on every machine.
test_log_weights <- function(n, salt = 981) {
  x <- 8 * grid_values(n, salt)
  x[seq_len(n) %% 11 == 3] <- -Inf
  x
}

test_that("indices are the oracle's", {
  failed <- character()
  for (method in methods) {
    for (n_weights in c(1, 2, 7, 64, 300)) {
      for (n in c(1, 5, 300, 1000)) {
        log_weights <- test_log_weights(n_weights)
        weights <- grid_uniform(n_weights, 982)
        expected <- oracle_resample(log_weights, n, method, 2^40 + 3, 5)
        natural <- oracle_resample(weights, n, method, 2^53, is_log = FALSE)
        chosen <- indices_of(log_weights = log_weights, n = n, method = method, seed = 2^40 + 3, step = 5)
        if (!identical(chosen, expected) ||
          !identical(indices_of(weights = weights, n = n, method = method, seed = 2^53), natural)) {
          failed <- c(failed, paste(method, n_weights, n))
        }
      }
    }
  }
  expect_none(failed)
})

test_that("the number of the first draw and the step choose the words", {
  log_weights <- test_log_weights(50)
  for (method in methods) {
    for (offset in c(1, 2^32 - 20, 2^53 - 100)) {
      expect_identical(
        resample_indices(log_weights, 40, method, 7, 2^32 - 1, offset),
        oracle_resample(log_weights, 40, method, 7, 2^32 - 1, offset)
      )
    }
    expect_false(identical(
      indices_of(weights = grid_uniform(50), n = 40, method = method, seed = 7),
      indices_of(weights = grid_uniform(50), n = 40, method = method, seed = 7, step = 1)
    ))
  }
  whole <- resample_indices(log_weights, 100, "multinomial", 7)
  expect_identical(resample_indices(log_weights, 60, "multinomial", 7, offset = 40), whole[41:100])
})

test_that("weights of any size are exact up to powers of two", {
  weights <- grid_uniform(100, 983)
  for (method in methods) {
    kept <- indices_of(weights = weights, n = 200, method = method, seed = 3)
    for (exponent in c(-1000, -1, 1, 1000)) {
      expect_identical(indices_of(weights = weights * 2^exponent, n = 200, method = method, seed = 3), kept)
    }
  }
  tiny <- c(3, 1, 0, 4) * 2^-1074
  expect_identical(
    indices_of(weights = tiny, n = 50, method = "multinomial", seed = 3),
    indices_of(weights = c(3, 1, 0, 4), n = 50, method = "multinomial", seed = 3)
  )
  largest <- c(1, 0.5, 0.25) * .Machine$double.xmax
  expect_identical(
    indices_of(weights = largest, n = 50, method = "systematic", seed = 3),
    indices_of(weights = largest / 2^1000, n = 50, method = "systematic", seed = 3)
  )
})

test_that("underflow does not make weights equal", {
  w <- c(0.665241, 0.244728, 0.090031)
  n <- 1e5
  for (shift in c(-1000, -1e4, 1e4)) {
    for (method in methods) {
      counts <- tabulate(indices_of(log_weights = shift - 0:2, n = n, method = method, seed = 11), 3)
      expect_mc(counts / n, w, sqrt(w * (1 - w) / n), paste(method, shift))
      if (method == "systematic") expect_true(all(abs(counts - n * w) < 1 + n * 1e-6))
    }
  }
})

test_that("a single positive weight is an index, not a range of values", {
  for (method in methods) {
    expect_identical(indices_of(weights = c(rep(0, 6), 1, 0, 0, 0), n = 5, method = method, seed = 1), rep(7L, 5))
    expect_identical(indices_of(log_weights = -7, n = 3, method = method, seed = 1), rep(1L, 3))
  }
})

test_that("counts are as close to n w as the method promises", {
  w <- c(0.45, 0.35, 0.2)
  for (seed in 1:50) {
    for (n in c(7, 1, 20)) {
      systematic <- tabulate(indices_of(weights = w, n = n, method = "systematic", seed = seed), 3)
      expect_true(all(systematic >= floor(n * w - 1e-9) & systematic <= ceiling(n * w + 1e-9)))
      stratified <- tabulate(indices_of(weights = w, n = n, method = "stratified", seed = seed), 3)
      expect_true(all(abs(stratified - n * w) < 2))
      residual <- indices_of(weights = w, n = n, method = "residual", seed = seed)
      copies <- rep(1:3, floor(n * w + 1e-9))
      expect_identical(residual[seq_along(copies)], copies)
      expect_length(residual, n)
    }
  }
  expect_identical(indices_of(weights = rep(2, 5), method = "residual", seed = 1), 1:5)
  expect_identical(indices_of(weights = rep(2, 5), method = "systematic", seed = 1), 1:5)
})

test_that("a weight of zero is never chosen", {
  for (n_weights in c(1000, 50001)) {
    weights <- grid_uniform(n_weights, 984)
    weights[seq_len(n_weights) %% 3 != 1] <- 0
    weights[n_weights] <- 0
    weights[1] <- 0
    for (method in methods) {
      chosen <- indices_of(weights = weights, n = 1e6, method = method, seed = 5)
      expect_true(all(weights[chosen] > 0))
      expect_length(chosen, 1e6)
      log_chosen <- indices_of(log_weights = log(weights), n = 1e6, method = method, seed = 5)
      expect_true(all(weights[log_chosen] > 0))
    }
  }
})

test_that("every method chooses in proportion to the weights", {
  weights <- c(seq_len(40), 0, 100, 3)
  w <- weights / sum(weights)
  n <- 33
  n_seeds <- 2000
  for (method in methods) {
    counts <- vapply(seq_len(n_seeds), function(seed) {
      tabulate(resample_indices(weights, n, method, seed, is_log = FALSE), length(w))
    }, integer(length(w)))
    # a count's own variance is at most that of multinomial resampling for three of the methods
    se <- if (method == "systematic") apply(counts, 1, sd) else sqrt(n * w * (1 - w))
    expect_mc(rowMeans(counts), n * w, (se + 1e-12) / sqrt(n_seeds), method)
  }
  counts <- tabulate(resample_indices(weights, 1e6, "multinomial", 12, is_log = FALSE), length(w))
  expected <- 1e6 * w[w > 0]
  expect_lt(sum((counts[w > 0] - expected)^2 / expected), qchisq(1 - 1e-6, length(expected) - 1))
})

test_that("draws of multinomial and residual resampling are independent of their place", {
  chosen <- resample_indices(c(1, 1), 1e5, "multinomial", 21, is_log = FALSE)
  expect_rate(chosen[-1] == chosen[-1e5], 0.5)
  stratified <- resample_indices(rep(1, 1000), 999, "stratified", 21, is_log = FALSE)
  expect_false(is.unsorted(stratified))
})

test_that("threads and instruction sets change nothing", {
  for (n_weights in c(5, 4095, 4096, 4097, 100003)) {
    log_weights <- test_log_weights(n_weights)
    for (method in methods) {
      for (n in c(300, 150001)) {
        call <- function() {
          resample_indices(log_weights, n, method, 9, run = list("cpu", 0L, check_threads(), 1e9))
        }
        kept <- with_threads(1, call())
        expect_identical(with_threads(2, call()), kept)
        for (level in simd_levels()) {
          expect_identical(with_simd(level, call()), kept)
        }
      }
    }
  }
})

test_that("a search without a guide finds the same", {
  # with few draws all weights are searched; more draws of the same words go by the guide
  log_weights <- test_log_weights(20000)
  many <- resample_indices(log_weights, 20000, "multinomial", 13)
  expect_identical(resample_indices(log_weights, 1000, "multinomial", 13), many[1:1000])
  # nearly all weights in a few buckets
  crowded <- c(rep(-19, 30000), 0)
  many <- resample_indices(crowded, 400000, "multinomial", 13)
  hits <- which(many < 30001)
  expect_gt(length(hits), 20)
  expect_identical(vapply(hits, function(j) {
    resample_indices(crowded, 1, "multinomial", 13, offset = j - 1)
  }, 1L), many[hits])
})

test_that("pieces give what the whole gives", {
  n_weights <- 9000
  log_weights <- test_log_weights(n_weights)
  largest <- max(log_weights)
  for (sizes in list(9000, c(4096, 4904), c(1, 8998, 1), rep(1000, 9))) {
    ends <- cumsum(sizes)
    pieces <- Map(function(end, size) log_weights[(end - size + 1):end], ends, sizes)
    sums <- lapply(pieces, resample_sum, max = largest, n_all = n_weights)
    bases <- Reduce(add_sums, sums, c(0, 0), accumulate = TRUE)
    total <- bases[[length(bases)]]
    for (method in setdiff(methods, "residual")) {
      for (n in c(50, 20000)) {
        chosen <- integer(n)
        for (k in seq_along(pieces)) {
          own <- resample_piece(
            pieces[[k]], n, method, 31, 2, 4,
            max = largest, n_all = n_weights, base = bases[[k]], total = total
          )
          expect_false(any(chosen > 0 & own > 0))
          chosen <- ifelse(own > 0, own + ends[k] - length(pieces[[k]]), chosen)
        }
        expect_identical(as.integer(chosen), resample_indices(log_weights, n, method, 31, 2, 4))
      }
    }
  }
  expect_identical(add_sums(c(1, 2^32 - 1), c(2, 3)), c(4, 2))
  expect_identical(resample_sum(c(0, -Inf), 0, 2), c(2^20, 0))
})

test_that("nothing of nothing is nothing", {
  expect_identical(indices_of(log_weights = numeric(), seed = 1), integer())
  for (method in methods) {
    expect_identical(indices_of(log_weights = c(0, 1), n = 0, method = method, seed = 1), integer())
  }
})

test_that("the seed is returned, and drawn from R's generator where none is given", {
  set.seed(4)
  first <- resample(weights = 1:9)
  second <- resample(weights = 1:9)
  set.seed(4)
  expect_identical(resample(weights = 1:9), first)
  expect_false(identical(first, second))
  before <- .Random.seed
  again <- resample(weights = 1:9, seed = attr(first, "seed"))
  expect_identical(again, first)
  expect_identical(.Random.seed, before)
  expect_identical(names(attributes(again)), "seed")
})

test_that("results of is_weights() and of importance sampling are taken", {
  samples <- grid_matrix(200, 2, 985)
  weighted <- is_weights(samples, density_normal(0.5, 0.5))
  expect_identical(
    resample(weighted, n = 50, seed = 6), resample(log_weights = weighted$log_weights, n = 50, seed = 6)
  )
  colnames(samples) <- c("a", "b")
  drawn <- structure(list(draws = samples, log_weights = weighted$log_weights, n = 200), class = "is_draws")
  chosen <- resample(drawn, 50, method = "stratified", seed = 6)
  indices <- resample_indices(weighted$log_weights, 50, "stratified", 6)
  expect_identical(attr(chosen, "indices"), indices)
  expect_identical(attr(chosen, "seed"), 6)
  expect_identical(chosen[, ], samples[indices, ])
  expect_identical(names(attributes(chosen)), c("dim", "dimnames", "indices", "seed"))
  expect_input_error(resample(is_weights(samples, density_normal(0, 1), weights = FALSE)), "`x`")
  expect_input_error(resample(structure(list(draws = NULL, log_weights = NULL), class = "is_draws")), "keep")
})

test_that("draws of posterior are taken in every format", {
  skip_if_not_installed("posterior")
  values <- array(grid_values(120, 986), c(20, 2, 3), list(NULL, NULL, c("x[1]", "x[2]", "y")))
  draws <- posterior::as_draws_array(values)
  log_weights <- test_log_weights(40)
  indices <- resample_indices(log_weights, 30, "systematic", 8)
  expected <- matrix(values, 40, 3)[indices, ]
  for (format in c("draws_matrix", "draws_array", "draws_df", "draws_list", "draws_rvars")) {
    as_format <- getExportedValue("posterior", paste0("as_", format))
    weighted <- posterior::weight_draws(as_format(draws), log_weights, log = TRUE)
    chosen <- resample(weighted, 30, seed = 8)
    expect_s3_class(chosen, format)
    expect_identical(attr(chosen, "seed"), 8)
    expect_null(weights(chosen))
    expect_identical(posterior::ndraws(chosen), 30L)
    plain <- unclass(posterior::as_draws_matrix(chosen))
    expect_identical(colnames(plain), c("x[1]", "x[2]", "y"))
    expect_identical(unname(plain[, ]), expected)
  }
  expect_input_error(resample(draws), "`x`")
})

test_that("input errors name the argument", {
  expect_input_error(resample(), "`x`")
  expect_input_error(resample(c(0, 1)), "`x`", "log_weights =")
  expect_input_error(resample(matrix(0, 2, 2)), "`x`")
  expect_input_error(resample(log_weights = 1, weights = 1), "`log_weights`", "`weights`")
  expect_input_error(resample(is_weights(log_weights = c(0, 1)), weights = 1), "`x`")
  for (bad in list("a", TRUE, NULL, matrix(1, 2, 2), factor("a"), list(1))) {
    expect_input_error(resample(weights = bad), if (is.null(bad)) "`x`" else "`weights`")
    expect_input_error(resample(log_weights = bad), if (is.null(bad)) "`x`" else "`log_weights`")
  }
  for (bad in list(-1, 0.5, NA, NaN, Inf, "1", 1:2, 2^51)) {
    expect_input_error(resample(weights = 1, n = bad), "`n`")
  }
  for (bad in list(-1, 0.5, NA_real_, 2^32, "1")) {
    expect_input_error(resample(weights = 1, step = bad), "`step`")
    if (!identical(bad, 2^32)) expect_input_error(resample(weights = 1, seed = bad), "`seed`")
  }
  expect_input_error(resample(weights = 1, method = "other"), "`method`", "\"other\"")
  expect_input_error(resample(weights = 1, backend = "gpu"), "`backend`")
  expect_input_error(resample(weights = 1, device = -1), "`device`")
  expect_input_error(resample(weights = numeric(), n = 1), "`weights`")
  expect_input_error(resample_indices(numeric(), 1, "systematic", 1, run = stop("C was called")), "`log_weights`")
  condition <- expect_input_error(resample(weights = c(1, -1, NaN, NA, Inf)), "weights", "2, 3, 4 and 5")
  expect_identical(condition$n, 4)
})

test_that("log weights that are none, and weights that are all zero, are errors", {
  for (method in methods) {
    condition <- expect_error(
      resample(log_weights = c(0, NaN, 1, Inf, -Inf), method = method), "2 of 5.*2 and 4",
      class = "fusedmc_error_nonfinite"
    )
    expect_identical(condition$indices, c(2, 4))
    expect_error(
      resample(log_weights = c(-Inf, -Inf), n = 3, method = method), "nothing to choose",
      class = "fusedmc_error_nonfinite"
    )
    expect_error(resample(weights = c(0, 0), method = method), "nothing", class = "fusedmc_error_nonfinite")
  }
  many <- rep(NaN, 10000)
  expect_error(resample(log_weights = many), "and 9995 more", class = "fusedmc_error_nonfinite")
})

test_that("a result that does not fit is refused", {
  withr::local_options(fusedmc.max_gb = 0.2)
  expect_error(resample(weights = 1, n = 1e8), "0.4 GB", class = "fusedmc_error_memory")
})

# ---- the GPU ---------------------------------------------------------------------------------

test_that("the GPU gives the CPU's indices", {
  skip_without_gpu()
  failed <- character()
  for (n_weights in c(1, 2, 255, 256, 257, 4095, 4096, 4097, 8192, 100003, 1e6, 5e6)) {
    log_weights <- test_log_weights(n_weights)
    weights <- exp(log_weights)
    for (method in methods) {
      for (n in c(1, 257, n_weights, 1200000)) {
        run <- function(backend) {
          list(
            resample(log_weights = log_weights, n = n, method = method, seed = 14, step = 3, backend = backend),
            resample(weights = weights, n = n, method = method, seed = 15, backend = backend)
          )
        }
        if (!identical(run("cuda"), run("cpu"))) {
          failed <- c(failed, paste(method, n_weights, n))
        }
      }
    }
  }
  expect_none(failed)
})

test_that("the GPU takes pieces and refuses bad weights as the CPU does", {
  skip_without_gpu()
  log_weights <- test_log_weights(9000)
  largest <- max(log_weights)
  on <- function(backend, n) list(backend, 0L, NA_integer_, 1e6)
  for (part in list(1:4096, 5000:9000)) {
    sums <- lapply(c("cpu", "cuda"), function(b) resample_sum(log_weights[part], largest, 9000, on(b)))
    expect_identical(sums[[1]], sums[[2]])
    total <- resample_sum(log_weights, largest, 9000, on("cpu"))
    for (method in setdiff(methods, "residual")) {
      pieces <- lapply(c("cpu", "cuda"), function(b) {
        resample_piece(
          log_weights[part], 5000, method, 3,
          max = largest, n_all = 9000, base = c(2^19, 7), total = total, run = on(b)
        )
      })
      expect_identical(pieces[[1]], pieces[[2]])
    }
  }
  for (bad in list(c(0, NaN, Inf), c(-Inf, -Inf))) {
    messages <- vapply(c("cpu", "cuda"), function(b) {
      conditionMessage(expect_error(resample(log_weights = bad, backend = b), class = "fusedmc_error_nonfinite"))
    }, "")
    expect_identical(messages[["cpu"]], messages[["cuda"]])
  }
  expect_identical(as.vector(resample(log_weights = c(0, 1), n = 0, backend = "cuda")), integer())
})
