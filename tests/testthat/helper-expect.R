# Expectations and switches shared by the tests.

# The bits of every number in x, recursively, attributes included.
bits_of <- function(x) {
  own <- if (is.list(x)) {
    lapply(seq_along(x), function(i) bits_of(x[[i]]))
  } else if (is.double(x)) {
    writeBin(as.vector(x), raw(), size = 8, endian = "little")
  } else if (is.logical(x) || is.integer(x)) {
    writeBin(as.integer(x), raw(), size = 4, endian = "little")
  } else {
    x
  }
  list(type = typeof(x), length = length(x), attributes = attributes(x), bits = own)
}

# identical() takes 0 and -0 for one and all NaN for one; bits do not.
same_bits <- function(actual, expected) {
  identical(actual, expected) && identical(bits_of(actual), bits_of(expected))
}

expect_same_bits <- function(actual, expected, info = NULL) {
  expect_true(identical(actual, expected), info = paste(c("identical()", info), collapse = " "))
  expect_true(identical(bits_of(actual), bits_of(expected)), info = paste(c("bits", info), collapse = " "))
}

# Many cases in one expectation: a loop collects the labels of the cases that failed.
expect_none <- function(failed) {
  expect_identical(failed, character())
}

largest_relative <- function(actual, expected, scale = abs(expected)) {
  if (length(actual) != length(expected)) {
    return(Inf)
  }
  worst <- max(0, abs(as.vector(actual) - as.vector(expected)) / pmax(1, scale))
  if (is.na(worst)) Inf else worst
}

# An input error says which argument and shows the value it got.
expect_input_error <- function(object, argument, value = NULL) {
  condition <- expect_error(object, class = "fusedmc_error_input")
  expect_s3_class(condition, "fusedmc_error")
  for (part in c(argument, value)) {
    expect_match(conditionMessage(condition), part, fixed = TRUE)
  }
  invisible(condition)
}

# Monte Carlo: a mean of n independent values with standard deviation sd, 4.5 standard errors wide.
# The seeds are fixed, so a pass is a pass for ever; 4.5 keeps a change of seed harmless.
expect_mc <- function(actual, expected, se, info = NULL) {
  expect_true(all(abs(actual - expected) < 4.5 * se), info = sprintf(
    "%s: got %s, expected %s, standard error %s", paste(info, collapse = " "),
    paste(format(utils::head(actual, 5), digits = 7), collapse = " "), format(expected[1]), format(se[1])
  ))
}

expect_rate <- function(accepted, expected, info = NULL) {
  expect_mc(mean(accepted), expected, sqrt(expected * (1 - expected) / length(accepted)), info)
}

# Acceptance of one step N(0, s^2 I) from the mode of N(0, I_d).
acceptance_at_mode <- function(s, d) (1 + s^2)^(-d / 2)

# ---- switches ------------------------------------------------------------------------------

with_threads <- function(n, code) withr::with_options(list(fusedmc.threads = n), code)

with_simd <- function(level, code) {
  previous <- set_simd(level)
  on.exit(set_simd(previous))
  force(code)
}

simd_levels <- function() {
  Filter(function(level) {
    tryCatch(with_simd(level, TRUE), error = function(e) FALSE)
  }, c("baseline", "avx2", "avx512"))
}

gpu_count <- function() nrow(backend_info()$devices)

skip_without_gpu <- function() skip_if(gpu_count() == 0, "no GPU that the package can use")

skip_with_gpu <- function() skip_if(gpu_count() > 0, "there is a GPU")

skip_unless_long <- function() {
  skip_if(Sys.getenv("FUSEDMC_LONG_TESTS") != "1", "FUSEDMC_LONG_TESTS is not 1")
}

# Run R code in a fresh R that loads the package from where this one did; returns its output lines.
run_in_fresh_r <- function(code, env = character(), timeout = 60) {
  home <- getNamespaceInfo(asNamespace("fusedmc"), "path")
  skip_if(!file.exists(file.path(home, "Meta", "package.rds")), "the package is not installed")
  script <- withr::local_tempfile(fileext = ".R")
  writeLines(c(sprintf("lib <- %s", deparse(dirname(home))), "library(fusedmc, lib.loc = lib)", code), script)
  rscript <- file.path(R.home("bin"), "Rscript")
  out <- withr::with_envvar(c(R_TESTS = "", env), suppressWarnings(
    system2(rscript, c("--no-init-file", shQuote(script)), stdout = TRUE, stderr = TRUE, timeout = timeout)
  ))
  status <- attr(out, "status")
  list(output = as.vector(out), status = if (is.null(status)) 0L else status)
}

# print() without its output, visibility kept.
print_quietly <- function(x) {
  utils::capture.output(out <- withVisible(print(x)))
  if (out$visible) out$value else invisible(out$value)
}

# A number as cat() shows it.
format_cat <- function(x) vapply(x, function(v) utils::capture.output(cat(v)), "")
