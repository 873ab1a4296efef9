skip_without_compiler()

local_cache <- function(env = parent.frame()) {
  directory <- withr::local_tempdir(.local_envir = env)
  withr::local_options(fusedmc.cache = directory, .local_envir = env)
  forget_compiled()
  withr::defer(forget_compiled(), envir = env)
  directory
}

code_for <- function(value) {
  sprintf("double log_density(const double *x, int n_dim) { return %s; }", value)
}

value_of <- function(density) log_density(density, matrix(0), backend = "cpu")

# The message of a compile error, whose output is its field.
compile_error <- function(object) {
  condition <- expect_error(object, class = "fusedmc_error_compile")
  expect_s3_class(condition, "fusedmc_error")
  expect_true(nzchar(condition$output))
  expect_match(conditionMessage(condition), condition$output, fixed = TRUE)
  condition$output
}

test_that("a compile error has the compiler's words and the code's own line numbers", {
  local_cache()
  make <- function(...) density_source(c(...), list(k = 1, y = c(1, 2)), 1)
  head <- "double log_density(const double *x, int n_dim) {"
  expect_match(compile_error(make("", head, "  return x[0] * unknown;", "}")), "code:3:.*unknown")
  expect_match(compile_error(make(head, "  return x[0]", "}")), "code:2:.*;")
  expect_match(compile_error(make(head, "", "  return nowhere(x[0]);", "}")), "code:3:.*nowhere")
  expect_match(compile_error(make(head, "  k = 2;", "  return k;", "}")), "code:2:.*k")
  expect_match(compile_error(make(head, "  y[1] = 2;", "  return k;", "}")), "code:2:")
  expect_match(compile_error(make("float log_density(const float *x, int n_dim) { return 0; }")), "log_density")
  expect_match(compile_error(make("double nowhere(double);", head, "  return nowhere(x[0]);", "}")), "nowhere")
  expect_identical(fusedmc_cache()$files, 0L)
  expect_identical(value_of(make(head, "return k;", "}")), 1)
})

test_that("what was compiled is found again, by the code's content", {
  directory <- local_cache()
  a <- density_source(code_for("1 + x[0]"), n_dim = 1)
  expect_identical(fusedmc_cache()$files, 1L)
  expect_identical(normalizePath(fusedmc_cache()$directory), normalizePath(directory))
  files <- list.files(directory, full.names = TRUE)
  before <- file.mtime(files)
  forget_compiled()
  expect_identical(value_of(density_source(code_for("1 + x[0]"), n_dim = 1)), 1)
  expect_identical(list.files(directory, full.names = TRUE), files)
  expect_identical(file.mtime(files), before)

  # other code, other dims, other data kinds, the other precision, another build: one file each
  density_source(code_for("2 + x[0]"), n_dim = 1)
  density_source(code_for("1 + x[0]"), n_dim = 2)
  density_source(code_for("1 + x[0]"), list(y = 1), n_dim = 1)
  density_source(code_for("1 + x[0]"), list(y = 1:2), n_dim = 1)
  expect_length(list.files(directory), 5)
  density_source(code_for("1 + x[0]"), list(y = 3:9), n_dim = 1)
  expect_length(list.files(directory), 5)
  log_density(a, matrix(0), precision = "single", backend = "cpu")
  expect_length(list.files(directory), 6)
})

test_that("another session needs no compiler", {
  directory <- local_cache()
  density_source(code_for("41 + n_dim"), n_dim = 1)
  out <- run_in_fresh_r(c(
    sprintf("options(fusedmc.cache = %s)", deparse(directory)),
    sprintf("code <- %s", deparse(code_for("41 + n_dim"))),
    "Sys.setenv(MAKE = '/bin/false')",
    "time <- system.time(d <- density_source(code, n_dim = 1))[[3]]",
    "cat(log_density(d, matrix(0)), '\\n')",
    "e <- tryCatch(density_source(paste(code, ' '), n_dim = 1), error = identity)",
    "cat(class(e)[1], '\\n')", "cat(time, '\\n')"
  ))
  expect_identical(trimws(out$output[1:2]), c("42", "fusedmc_error_compile"))
  message("a density from the cache, in seconds: ", out$output[3])
})

test_that("a file that is not whole is compiled again", {
  directory <- local_cache()
  density_source(code_for("7"), n_dim = 1)
  file <- list.files(directory, full.names = TRUE)
  bytes <- readBin(file, "raw", file.size(file))
  broken <- list(raw(0), bytes[1:20], bytes[seq_len(length(bytes) %/% 2)], rev(bytes), as.raw(rep(65, 5000)))
  flipped <- bytes
  flipped[1000] <- xor(flipped[1000], as.raw(1))
  for (content in c(broken, list(flipped))) {
    writeBin(content, file)
    forget_compiled()
    expect_identical(value_of(density_source(code_for("7"), n_dim = 1)), 7)
    expect_gt(file.size(file), 5000)
  }
  # whole, but no shared object
  text <- withr::local_tempfile()
  writeLines("not a library", text)
  writeBin(c(readBin(text, "raw", file.size(text)), charToRaw(unname(tools::md5sum(text)))), file)
  forget_compiled()
  expect_identical(value_of(density_source(code_for("7"), n_dim = 1)), 7)
  expect_gt(file.size(file), 5000)
})

test_that("processes that compile at once do not disturb each other", {
  skip_on_os("windows")
  directory <- local_cache()
  jobs <- lapply(1:4, function(i) {
    parallel::mcparallel(value_of(density_source(code_for("99"), n_dim = 1)), mc.set.seed = FALSE)
  })
  expect_identical(unname(unlist(parallel::mccollect(jobs))), rep(99, 4))
  expect_length(list.files(directory, all.files = TRUE, no.. = TRUE), 1)
  forget_compiled()
  expect_identical(value_of(density_source(code_for("99"), n_dim = 1)), 99)
})

test_that("without a directory to write, a temporary one stands in", {
  local_cache()
  file <- withr::local_tempfile()
  writeLines("", file)
  withr::local_options(fusedmc.cache = file.path(file, "below"))
  expect_identical(value_of(density_source(code_for("5"), n_dim = 1)), 5)
  expect_identical(dirname(fusedmc_cache()$directory), tempdir())
  withr::local_options(fusedmc.cache = 3)
  expect_input_error(fusedmc_cache(), "fusedmc.cache", "3")
})

test_that("the cache is the user's by default, and never while a package is checked", {
  withr::local_options(fusedmc.cache = NULL)
  home <- withr::local_tempdir()
  withr::local_envvar(R_USER_CACHE_DIR = home, "_R_CHECK_PACKAGE_NAME_" = NA)
  expect_identical(fusedmc_cache()$directory, file.path(home, "R", "fusedmc"))
  withr::local_envvar("_R_CHECK_PACKAGE_NAME_" = "fusedmc")
  expect_identical(dirname(fusedmc_cache()$directory), tempdir())
})

test_that("clearing removes what is there, and nothing else; old files make room", {
  directory <- local_cache()
  density <- density_source(code_for("3"), n_dim = 1)
  writeLines("", file.path(directory, "notes.txt"))
  cleared <- fusedmc_cache(clear = TRUE)
  expect_identical(cleared$files, 1L)
  expect_gt(cleared$bytes, 5000)
  expect_identical(list.files(directory), "notes.txt")
  expect_identical(value_of(density), 3)
  expect_input_error(fusedmc_cache(clear = NA), "clear", "NA")

  old <- file.path(directory, sprintf("%032x-avx2.so", 1:250))
  file.create(old)
  Sys.setFileTime(old, Sys.time() - 1e5 - 1:250)
  density_source(code_for("4"), n_dim = 1)
  expect_identical(fusedmc_cache()$files, 200L)
  expect_true(all(file.exists(old[1:199])))
})

# ---- GPU code, which NVRTC makes without a GPU -------------------------------------------------

test_that("the constants of math.h are there on the GPU too", {
  skip_if(nvrtc_missing(), "no NVRTC")
  density <- density_source(
    "double log_density(const double *x, int n_dim) { return x[0] > 0 ? x[0] < HUGE_VAL ? M_PI : NAN : -INFINITY; }",
    n_dim = 1
  )
  expect_type(compile_gpu(source_text_gpu(density, "double"), 90), "raw")
  expect_identical(log_density(density, matrix(c(1, -1)), backend = "cpu"), c(pi, -Inf))
})

test_that("every kind of code compiles for a GPU", {
  skip_if(nvrtc_missing(), "no NVRTC")
  local_cache()
  failed <- character()
  seconds <- numeric()
  for (d in c(1, 16, 17, 65)) {
    for (case in list(source_normal(d), source_portable(d, "real"))) {
      density <- make_source(case, d)
      for (variant in c("double", source_variant(density, "single"))) {
        seconds <- c(seconds, system.time(code <- try(compile_gpu(source_text_gpu(density, variant), 90)))[[3]])
        # an ELF file with both kernels
        names <- c("fmc_source_log_density_kernel", "fmc_data", if (d <= 64) "fmc_source_mh_step_kernel")
        whole <- is.raw(code) && identical(code[1:4], as.raw(c(0x7f, 0x45, 0x4c, 0x46))) &&
          all(vapply(names, function(name) length(grepRaw(name, code, fixed = TRUE)) > 0, NA))
        if (!whole) failed <- c(failed, paste(d, variant))
      }
    }
  }
  expect_none(failed)
  message(sprintf("NVRTC: %.2f s to %.2f s a density", min(seconds), max(seconds)))
})

test_that("names, headers and functions of C do in the GPU's compiler what they do in C's", {
  skip_if(nvrtc_missing(), "no NVRTC")
  local_cache()
  data <- list(
    y0 = 1, y1 = c(1, 2), j0 = 1L, gamma = matrix(1, 2, 2), index = 1, T = 1, REAL = 1, norm = 1, a = 1, table = 1:2,
    rsqrt = 1, out = 1, state = c(1, 2)
  )
  density <- density_source(c(
    "#include <math.h>", "#include <stdint.h>", "#include <float.h>", "#include <limits.h>",
    "#define N 2", "static const double weights[N] = {0.5, 0.25};",
    "static double dot(const double *a, const double *b, int n);",
    "double log_density(const double *x, int n_dim) {",
    "  uint32_t k = 3; double y1 = 2;",
    "  double sum = dot(x, weights, N) + y0 + y1 + gamma[3] + table[1];",
    "  return sum + exp(x[0]) + fabs(x[1]) + lgamma(3.0) + DBL_MIN + k + M_PI;",
    "}", "static double dot(const double *a, const double *b, int n) { return a[0] * b[0] + a[1] * b[1]; }"
  ), data, 2)
  for (variant in c("double", "rounded")) {
    expect_type(compile_gpu(source_text_gpu(density, variant), 90), "raw")
  }
})

test_that("an error in the GPU's compiler has the code's own line, too", {
  skip_if(nvrtc_missing(), "no NVRTC")
  local_cache()
  density <- density_source(c(
    "double log_density(const double *x, int n_dim) {", "  int class = 1; // free in C alone", "  return class;", "}"
  ), n_dim = 1)
  condition <- expect_error(compile_gpu(source_text_gpu(density, "double"), 90), class = "fusedmc_error_compile")
  expect_match(condition$output, "code\\(2\\): error")
  expect_match(conditionMessage(condition), "GPU")
})

test_that("code for the GPU is cached as that for the CPU is; a newer GPU gets PTX", {
  skip_if(nvrtc_missing(), "no NVRTC")
  directory <- local_cache()
  density <- density_source(code_for("6"), n_dim = 1)
  first <- gpu_cubin(density, "double", 90L)
  expect_length(list.files(directory, "sm_90[.]cubin$"), 1)
  forget_compiled()
  withr::local_options(fusedmc.nvrtc = "/no/such/library")
  expect_identical(gpu_cubin(density, "double", 90L), first)
  condition <- expect_error(gpu_cubin(density, "double", 89L), class = "fusedmc_error_compile")
  withr::local_options(fusedmc.nvrtc = NULL)
  ptx <- compile_gpu(source_text_gpu(density, "double"), 999)
  expect_match(rawToChar(ptx[ptx != 0]), ".target sm_", fixed = TRUE)
})

test_that("where there is no NVRTC the error says so", {
  withr::local_options(fusedmc.nvrtc = "/no/such/library")
  reason <- .Call(C_ffi_nvrtc_version, nvrtc_path())
  skip_if(!is.character(reason))
  expect_match(reason, "/no/such/library", fixed = TRUE)
  withr::local_options(fusedmc.nvrtc = 1)
  expect_input_error(nvrtc_path(), "fusedmc.nvrtc", "1")
})
