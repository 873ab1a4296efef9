skip_without_compiler()

test_that("the value is the code's, for any number of dims", {
  for (d in c(1, 2, 3, 16, 64, 257, 2000, 5000)) {
    case <- source_normal(d)
    x <- grid_matrix(37, d, 501)
    expect_lt(largest_relative(log_density(make_source(case, d), x, backend = "cpu"), case$log_density(x)), 1e-12)
  }
  for (d in c(1, 5)) {
    case <- source_portable(d)
    x <- grid_matrix(70, d, 502)
    actual <- log_density(make_source(case, d), x, backend = "cpu")
    expect_lt(largest_relative(actual, case$log_density(x), case$scale(x)), 1e-12)
  }
})

test_that("no rows, one row, and strips that are not full", {
  case <- source_normal(2)
  density <- make_source(case, 2)
  x <- grid_matrix(100, 2, 503)
  whole <- log_density(density, x, backend = "cpu")
  for (n in c(0, 1, 31, 32, 33, 64, 65)) {
    rows <- seq_len(n)
    expect_same_bits(log_density(density, x[rows, , drop = FALSE], backend = "cpu"), whole[rows])
  }
})

test_that("mh_step() and is_weights() take it", {
  case <- source_normal(3)
  density <- make_source(case, 3)
  oracle <- list(log_density = function(x, precision) case$log_density(x))
  x <- grid_matrix(200, 3, 504)
  actual <- mh_step(x, density, 0.7, seed = 11, step = 4, backend = "cpu")
  expect_same_bits(actual$log_density, log_density(density, actual$x, backend = "cpu"))
  noise <- oracle_noise(200, 3, 11, 4)
  proposal <- oracle_proposal(x, 0.7, noise)
  log_alpha <- case$log_density(proposal) - case$log_density(x)
  expect_lt(max(abs(actual$log_alpha - log_alpha)), 1e-12)
  moved <- log_alpha >= 0 | log(oracle_uniform(200, 11, 4)) < log_alpha
  expect_identical(actual$accepted, moved)
  expect_same_bits(actual$x, ifelse(matrix(moved, 200, 3), proposal, x))

  weights <- is_weights(x, density, density_normal(0, 1), backend = "cpu")
  log_q <- rowSums(matrix(stats::dnorm(x, log = TRUE), 200))
  expect_lt(max(abs(weights$log_weights - (case$log_density(x) - log_q))), 1e-12)
})

test_that("data of every kind are seen under their names, with their sizes", {
  data <- list(
    number = 0.1, whole = 7L, yes = TRUE, y = c(0.5, 2), k = c(3L, -4L), flags = c(TRUE, FALSE, TRUE),
    m = matrix(c(1, 2, 3, 4, 5, 6) / 8, 2), im = matrix(1:6, 3), one = matrix(2.5), none = numeric(),
    rows = matrix(0, 0, 3), nothing = integer()
  )
  values <- c(
    number = 0.1, whole = 7, yes = 1, "y[1]" = 2, n_y = 2, "k[1]" = -4, n_k = 2, "flags[0] + 10 * flags[1]" = 1,
    n_flags = 3, "m[1 + 2 * nrow_m]" = 0.75, nrow_m = 2, ncol_m = 3, n_m = 6, "im[2 + 1 * nrow_im]" = 6, nrow_im = 3,
    ncol_im = 2, "one[0]" = 2.5, n_one = 1, nrow_one = 1, n_none = 0, n_rows = 0, nrow_rows = 0, ncol_rows = 3,
    n_nothing = 0, "(double)sizeof(number)" = 8, "(double)sizeof(whole)" = 4, "(double)sizeof(*k)" = 4,
    "(double)sizeof(*y)" = 8, n_dim = 1
  )
  # one function that returns the value whose number x says
  lines <- sprintf("    case %d: return %s;", seq_along(values), names(values))
  code <- c(
    "double log_density(const double *x, int n_dim) {", "  switch ((int)x[0]) {", lines, "  }", "  return -1;", "}"
  )
  density <- density_source(code, data, 1)
  expect_identical(log_density(density, matrix(seq_along(values)), backend = "cpu"), unname(values))
  expect_match(format(density), "1 dim", fixed = TRUE)
  expect_match(format(density), "number = 0.1, whole = 7, yes = 1, y[2], ... 8 more", fixed = TRUE)
})

test_that("names that only old or foreign libraries use are free, and locals may hide data", {
  data <- as.list(stats::setNames(c(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024), c(
    "y0", "y1", "j0", "gamma", "index", "beta", "T", "REAL", "out", "value", "linux"
  )))
  expect_identical(evaluate_c(paste(names(data), collapse = " + "), data), 2047)
  data <- lapply(data, function(v) c(v, v))
  expect_identical(evaluate_c(paste0(names(data), "[1]", collapse = " + "), data), 2047)
  hidden <- density_source(
    "double log_density(const double *x, int n_dim) { double n_y = 3; { double y = 4; n_y += y; } return n_y + y[0]; }",
    list(y = c(100, 2)), 1
  )
  expect_identical(log_density(hidden, matrix(0), backend = "cpu"), 107)
})

test_that("functions of the code's own see the data; a static log_density() and comments are fine", {
  density <- density_source(c(
    "#include <math.h>", "/* real in a comment */ static const char *word = \"real\"; // real",
    "double helper(int i) { return a[i]; }", "static double log_density(const double *point, int n)",
    "{ (void)word; return helper(n - 1) + fabs(point[0]); }"
  ), list(a = c(5, 7)), 2)
  expect_false(density$says_real)
  expect_identical(log_density(density, matrix(c(-1, 0), 1), backend = "cpu"), 8)
})

test_that("single precision: double code rounds its inputs and its value; code that says real runs in float", {
  x <- grid_matrix(50, 2, 505)
  data <- list(a = 0.1, y = c(1 / 3, 0.7))
  formula <- "x[0] * a + y[1] * x[1]"
  expect_double <- round_to(x[, 1], "single") * round_to(0.1, "single") +
    round_to(0.7, "single") * round_to(x[, 2], "single")
  code <- sprintf("double log_density(const double *x, int n_dim) { return %s; }", formula)
  actual <- log_density(density_source(code, data, 2), x, precision = "single", backend = "cpu")
  expect_same_bits(actual, round_to(expect_double, "single"))

  rounded <- function(v) round_to(v, "single")
  expect_float <- rounded(rounded(rounded(x[, 1]) * rounded(0.1)) + rounded(rounded(0.7) * rounded(x[, 2])))
  code <- sprintf("real log_density(const real *x, int n_dim) { return %s; }", formula)
  density <- density_source(code, data, 2)
  expect_same_bits(log_density(density, x, precision = "single", backend = "cpu"), expect_float)
  expect_same_bits(log_density(density, x, backend = "cpu"), x[, 1] * 0.1 + 0.7 * x[, 2])
  expect_false(same_bits(actual, expect_float))
  expect_identical(evaluate_c("sizeof(real) + 0 * x[0]", real = "real", precision = "single"), 4)
  expect_identical(evaluate_c("sizeof(real) + 0 * x[0]", real = "real"), 8)
})

test_that("the portable functions are the core's, in the type that they are given", {
  x <- c(0.3, 1.7, 5.25)
  for (name in c("log", "exp", "log1p", "expm1", "log1pexp", "lgamma")) {
    for (precision in case_precisions) {
      for (value in x) {
        call <- sprintf("fmc_%s(x[0])", name)
        actual <- evaluate_c(call, x = value, real = "real", precision = precision)
        expect_same_bits(actual, core_math(name, value, precision), paste(name, precision, value))
      }
    }
    # an int counts as double, a float stays one
    expect_same_bits(evaluate_c(sprintf("fmc_%s(n_dim + 1)", name)), core_math(name, 2))
    expect_same_bits(evaluate_c(sprintf("fmc_%s(1.7f)", name)), core_math(name, round_to(1.7, "single"), "single"))
  }
  expect_same_bits(evaluate_c("fmc_sqrt(x[0])", x = 2), sqrt(2))
  expect_same_bits(evaluate_c("fmc_sqrt(2.0f)"), round_to(sqrt(2), "single"))
  # 2^-60 in one rounding, 0 in two
  expect_identical(evaluate_c("fmc_fma(x[0], x[0], -(1.0 + 0x1p-29))", x = 1 + 2^-30), 2^-60)
  expect_identical(evaluate_c("x[0] * x[0] - (1.0 + 0x1p-29)", x = 1 + 2^-30), 0)
  expect_identical(evaluate_c("fmc_fma(3.0f, x[0], 1)", x = 0.1), 3 * 0.1 + 1)
  expect_identical(evaluate_c("-FMC_INF"), -Inf)
  expect_identical(evaluate_c("FMC_NAN"), NaN)
  expect_equal(evaluate_c("FMC_HALF_LOG_2PI"), log(2 * pi) / 2, tolerance = 1e-15)
})

test_that("every build and every number of threads gives the same bits", {
  x <- grid_matrix(3000, 5, 506)
  for (real in c("double", "real")) {
    case <- source_portable(5, real)
    density <- make_source(case, 5)
    run <- function(precision) {
      list(
        log_density(density, x, precision = precision, backend = "cpu"),
        mh_step(x, density, 0.2, seed = 2, precision = precision, backend = "cpu")
      )
    }
    for (precision in case_precisions) {
      expected <- run(precision)
      for (n in 1:2) expect_same_bits(with_threads(n, run(precision)), expected, paste("threads", n))
      for (level in simd_levels()) expect_same_bits(with_simd(level, run(precision)), expected, level)
    }
  }
})

test_that("densities of the same code keep their data apart", {
  code <- "double log_density(const double *x, int n_dim) { return a * x[0] + y[n_y - 1]; }"
  first <- density_source(code, list(a = 1, y = c(0, 10)), 1)
  second <- density_source(code, list(a = 2, y = c(7, 7, 20)), 1)
  expect_identical(first$hash, second$hash)
  x <- grid_matrix(20000, 1, 507)
  for (n in 1:2) {
    log_weights <- with_threads(n, is_weights(x, first, second, backend = "cpu"))$log_weights
    expect_same_bits(log_weights, (x[, 1] + 10) - (2 * x[, 1] + 20))
  }
  # a number and an integer of one name are other code
  expect_false(identical(density_source(code, list(a = 1L, y = 1:2), 1)$hash, first$hash))
})

test_that("a density survives saveRDS() and a new session", {
  case <- source_normal(2)
  density <- make_source(case, 2)
  path <- withr::local_tempfile()
  saveRDS(density, path)
  x <- grid_matrix(5, 2, 508)
  forget_compiled()
  expect_same_bits(log_density(readRDS(path), x), log_density(density, x))
  code <- c(
    sprintf("options(fusedmc.cache = %s)", deparse(getOption("fusedmc.cache"))),
    sprintf("density <- readRDS(%s)", deparse(path)), "cat(sprintf('%a', log_density(density, matrix(0.5, 1, 2))))"
  )
  expect_identical(run_in_fresh_r(code)$output, sprintf("%a", log_density(density, matrix(0.5, 1, 2))))
})

test_that("a value that is not finite follows the policy", {
  edge <- density_source("double log_density(const double *x, int n_dim) {
    return x[0] > 1 ? FMC_NAN : x[0] < -1 ? -FMC_INF : 0;
  }", n_dim = 1)
  x <- matrix(0, 2000)
  expect_warning(out <- mh_step(x, edge, 1, seed = 1, backend = "cpu"), class = "fusedmc_warning_nonfinite")
  expect_true(all(abs(out$x) <= 1))
  expect_true(all(out$log_density == 0))
  expect_error(mh_step(matrix(2), edge, seed = 1, backend = "cpu"), class = "fusedmc_error_input")
})

test_that("every rule for code and n_dim", {
  one <- "double log_density(const double *x, int n_dim) { return 0; }"
  expect_input_error(density_source(1, n_dim = 1), "code", "1")
  expect_input_error(density_source(character(), n_dim = 1), "code")
  expect_input_error(density_source(NA_character_, n_dim = 1), "code", "NA")
  expect_input_error(density_source(c("", "  "), n_dim = 1), "code")
  expect_input_error(density_source("double f(const double *x, int n_dim) { return 0; }", n_dim = 1), "log_density")
  expect_input_error(density_source("/* log_density() */ int i; // log_density()", n_dim = 1), "log_density")
  expect_input_error(density_source(one), "n_dim", "NULL")
  for (bad in list(0, 1.5, NA, -1, Inf, "2", 1:2, NULL, 2^20 + 1)) {
    expect_input_error(density_source(one, n_dim = bad), "n_dim")
  }
  expect_input_error(log_density(density_source(one, n_dim = 2), matrix(0, 1, 3)), "density", "2 dims")
})

test_that("every rule for data names the item", {
  one <- "double log_density(const double *x, int n_dim) { return 0; }"
  make <- function(...) density_source(one, list(...), 1)
  expect_input_error(density_source(one, 1:3, 1), "data")
  expect_input_error(density_source(one, data.frame(y = 1), 1), "data")
  expect_input_error(density_source(one, list(1, 2), 1), "data")
  expect_input_error(make(y = 1, 2), "data")
  plain_but_wrong <- list("a", list(1), NULL, 1i, raw(1), mean, array(0, c(1, 1, 1)))
  for (bad in c(plain_but_wrong, list(factor("a"), Sys.Date(), data.frame(a = 1)))) {
    expect_input_error(density_source(one, list(y = bad), 1), "data$y")
  }
  expect_input_error(make(y = c(1, NA)), "data$y", "position 2")
  expect_input_error(make(y = c(1, 2, Inf)), "data$y", "Inf at position 3")
  expect_input_error(make(y = NaN), "data$y", "NaN")
  expect_input_error(make(k = c(1L, NA)), "data$k", "NA at position 2")
  expect_input_error(make(k = NA), "data$k", "NA")
  for (name in c(
    "log.y", "2y", "_y", "y z", "x", "n_dim", "log_density", "real", "double", "class", "fmc_y", "FMC_Y", "exp", "logf",
    "lgamma", "size_t", "NULL", "isnan", "\u00e9"
  )) {
    expect_input_error(density_source(one, stats::setNames(list(1), name), 1), "data", name)
  }
  expect_input_error(make(y = 1:2, n_y = 3), "n_y", "data$y")
  expect_input_error(density_source(one, stats::setNames(list(1, 2), c("y", "y")), 1), "data$y")
  expect_input_error(make(m = matrix(0, 2, 2), nrow_m = 1), "nrow_m", "data$m")
  expect_silent(make(y = 1, n_y = 3)) # a number has no length beside it
})

test_that("data out of single precision's range are refused there alone", {
  density <- density_source(
    "double log_density(const double *x, int n_dim) { return y[0] / y[1]; }", list(y = c(1e300, 1e299)), 1
  )
  expect_equal(log_density(density, matrix(0), backend = "cpu"), 10)
  expect_input_error(log_density(density, matrix(0), precision = "single", backend = "cpu"), "data$y", "1e+300")
})

test_that("it prints in one line", {
  density <- make_source(source_normal(2), 2)
  expect_match(capture.output(print(density)), "^<density> source in 2 dims: 7 lines of C, data mean\\[2 x 1\\], ")
  bare <- density_source("double log_density(const double *x, int n_dim) { return 0; }", n_dim = 1)
  expect_identical(format(bare), "<density> source in 1 dim: 1 line of C")
})

# ---- GPU ---------------------------------------------------------------------------------------

# All that takes a density, with every kind of step.
run_source <- function(density, x, precision, backend) {
  d <- ncol(x)
  step <- function(...) unclass(mh_step(x, density, ..., precision = precision, backend = backend))
  list(
    log_density(density, x, precision = precision, backend = backend), step(0.1, seed = 1),
    step(case_step("vector", d), seed = 2^40, step = 3, chain_offset = 2^33),
    step(0.1, seed = 1, u = grid_uniform(nrow(x), 512)),
    step(0.1, noise = grid_matrix(nrow(x), d, 513), seed = 4),
    if (d <= 65) step(case_step("lower", d), seed = 5),
    unclass(is_weights(x, density, density_normal(0, 2), precision = precision, backend = backend))
  )
}

test_that("the GPU gives the CPU's bits for portable code", {
  skip_without_gpu()
  failed <- character()
  for (d in c(1, 2, 3, 4, 5, 15, 16, 17, 31, 63, 64, 65, 130, 2000)) {
    x <- grid_matrix(if (d > 100) 70 else 1027, d, 511)
    for (case in list(source_normal(d), source_normal(d, "real"), source_portable(d), source_portable(d, "real"))) {
      density <- make_source(case, d)
      for (precision in case_precisions) {
        if (!same_bits(run_source(density, x, precision, "cuda"), run_source(density, x, precision, "cpu"))) {
          failed <- c(failed, paste(d, precision, case$code))
        }
      }
    }
  }
  expect_none(failed)
})

test_that("two densities of the same code, and many codes, on the GPU", {
  skip_without_gpu()
  code <- "double log_density(const double *x, int n_dim) { return a * x[0] + y[n_y - 1]; }"
  first <- density_source(code, list(a = 1, y = c(0, 10)), 1)
  second <- density_source(code, list(a = 2, y = c(7, 7, 20)), 1)
  x <- grid_matrix(5000, 1, 514)
  for (i in 1:3) {
    weights <- is_weights(x, first, second, backend = "cuda")$log_weights
    expect_same_bits(weights, (x[, 1] + 10) - (2 * x[, 1] + 20))
  }
  for (i in 1:40) { # more modules than are kept
    expect_identical(evaluate_c(sprintf("%d + x[0]", i), backend = "cuda"), as.double(i))
  }
  expect_same_bits(is_weights(x, first, second, backend = "cuda")$log_weights, weights)
})

test_that("an index out of bounds on the GPU is an R error, and the session lives on", {
  skip_without_gpu()
  lines <- run_in_fresh_r(c(
    sprintf("options(fusedmc.cache = %s)", deparse(getOption("fusedmc.cache"))),
    "wild <- density_source('double log_density(const double *x, int n_dim) {",
    "  return x[0] < 1e9 ? y[(long)(1e12 * x[0])] : 0; }', list(y = c(1, 2)), 1)",
    "e <- tryCatch(mh_step(matrix(1, 100), wild, seed = 1, backend = 'cuda'), error = identity)",
    "cat(inherits(e, 'fusedmc_error_cuda'), '\\n')",
    "e <- tryCatch(mh_step(matrix(1, 100), seed = 1, backend = 'cuda'), error = identity)",
    "cat(inherits(e, 'fusedmc_error_cuda') || inherits(e, 'fusedmc_mh_step'), '\\n')",
    "cat(nrow(mh_step(matrix(1, 100), seed = 1, backend = 'cpu')$x), '\\n')"
  ))
  expect_identical(lines$status, 0L)
  expect_identical(trimws(lines$output), c("TRUE", "TRUE", "100"))
})
