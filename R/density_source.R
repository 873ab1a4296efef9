#' A density written in C
#'
#' The density of which a C function gives the logarithm, compiled for the CPU and, when it is needed, for the GPU.
#'
#' @param code C code, a character vector of lines: functions of your own and
#'   `double log_density(const double *x, int n_dim)`, the log density at `x[0]` to `x[n_dim - 1]`, up to a constant.
#' @param data Named list of what the code may read, under the list's names: numbers, integers, logicals, vectors and
#'   matrices of them. Finite.
#' @param n_dim Number of dims: a whole number from 1 to 2^20.
#'
#' @details
#' Data are C variables of file scope, read-only, with the names that they have in `data`:
#'
#' | in R | in C |
#' |---|---|
#' | one number | `double name` |
#' | one integer or logical | `int name` |
#' | vector | `const double *name` or `const int *name`, and `int n_name`, its length |
#' | matrix | the same, by columns: entry i, j (from 0) is `name[i + j * nrow_name]`; also `nrow_name` and `ncol_name` |
#'
#' Names are those of C and must be free: no keyword, none of `x`, `n_dim`, `real` and `log_density`, no function of
#' `math.h`, nothing that starts with `fmc_`. Local variables of the code may have the same names and hide them.
#'
#' `real` may be written for `double` (then everywhere, in `log_density()` too). It is `float` with
#' `precision = "single"`, so that the code runs in floats; data are then `const real *`. Without it the code runs in
#' double there too, on states and data rounded to float, and its value is rounded to float.
#'
#' Beside `+ - * /`, these give the same bits on every machine, on CPU and GPU: `fmc_log`, `fmc_exp`, `fmc_log1p`,
#' `fmc_expm1`, `fmc_log1pexp` (log of 1 + exp), `fmc_lgamma`, `fmc_sqrt`, `fmc_fma(a, b, c)`, and the constants
#' `FMC_INF`, `FMC_NAN` and `FMC_HALF_LOG_2PI`. A function of `math.h` works as well, but its last bits depend on the
#' machine.
#'
#' Write what C11 and C++17 have in common: the GPU's compiler takes C++. Return `-FMC_INF` outside the support. On the
#' CPU several threads call the code at once: it must not write to static variables. An index out of bounds is not
#' caught: on the CPU it can end the session; on the GPU it is an error, after which the session can use the CPU alone.
#'
#' The code is compiled for the CPU at once, and else when it is first used; what was compiled is kept from session to
#' session (see [fusedmc_cache()]). On the CPU that takes the tools that packages are built with; on the GPU it takes
#' NVRTC, which comes with the CUDA toolkit (`options(fusedmc.nvrtc)` is its path where it is not found).
#'
#' @return A density, of class `fusedmc_density_source`: a list with `n_dim`, `code` and `data`.
#' @section Errors:
#' `fusedmc_error_input` for code without `log_density()` and for data that C cannot have; `fusedmc_error_compile`, with
#' the compiler's messages in the field `output`, where the code does not compile. Line numbers are those of `code`.
#' @export
#' @examplesIf nzchar(Sys.which("make"))
#' banana <- density_source("
#'   double log_density(const double *x, int n_dim) {
#'     double bent = x[1] - curvature * (x[0] * x[0] - 1);
#'     double sum = x[0] * x[0];
#'     for (int i = 0; i < n_y; i++)
#'       sum += (y[i] - bent) * (y[i] - bent);
#'     return -0.5 * sum;
#'   }", data = list(curvature = 0.3, y = c(0.1, -0.4, 0.2)), n_dim = 2)
#' banana
#' mh_step(matrix(0, 5, 2), banana, step_size = 0.5, seed = 1)
density_source <- function(code, data = list(), n_dim) {
  code <- check_code(code)
  data <- check_source_data(data)
  rule <- "a whole number from 1 to 2^20"
  if (missing(n_dim) || !qtest(n_dim, "X1[1,]") || is.object(n_dim) || n_dim > 2^20) {
    abort_input("n_dim", rule, if (missing(n_dim)) NULL else n_dim)
  }
  n_dim <- as.integer(n_dim)
  bare <- without_comments(code)
  if (!grepl("\\blog_density[ \n]*\\(", bare, perl = TRUE)) {
    abort_input("code", "C code with a function double log_density(const double *x, int n_dim)", code)
  }
  density <- new_density("fusedmc_density_source", n_dim,
    code = code, data = data, says_real = grepl("\\breal\\b", bare, perl = TRUE),
    largest = vapply(data, function(item) if (is.double(item) && length(item)) max(abs(item)) else 0, 0),
    hash = hash_of_text(code, "", data_signature(data), n_dim)
  )
  cpu_address(density, "double")
  density
}

check_code <- function(code) {
  if (!qtest(code, "S+") || !any(nzchar(trimws(code)))) {
    abort_input("code", "C code: a string, or a vector of lines", code)
  }
  gsub("\r\n?", "\n", paste(enc2utf8(code), collapse = "\n"))
}

# Code without comments, strings and character constants.
without_comments <- function(code) {
  gsub("(?s)/\\*.*?\\*/|//[^\n]*|\"(?:\\\\.|[^\"\\\\\n])*\"|'(?:\\\\.|[^'\\\\\n])*'", " ", code, perl = TRUE)
}

check_source_data <- function(data) {
  if (is.data.frame(data) || !is.list(data) || is.object(data)) {
    abort_input("data", "a named list of numbers, vectors and matrices", data)
  }
  if (length(data) > 0 && (is.null(names(data)) || anyNA(names(data)) || !all(nzchar(names(data))))) {
    abort_input("data", "a list with a name for every item", names(data))
  }
  check_item_names(data)
  items <- Map(check_item, data, names(data))
  attributes(items) <- list(names = names(data))
  items
}

# Doubles and integers without attributes but dim.
check_item <- function(item, name) {
  arg <- paste0("data$", name)
  plain <- is.numeric(item) || is.logical(item)
  if (!plain || is.object(item) || !match(length(dim(item)), c(0L, 2L), 0L) || length(item) > .Machine$integer.max) {
    abort_input(arg, "a number, a vector or a matrix of numbers, integers or logicals", item)
  }
  bad <- which(!is.finite(item))
  if (length(bad) > 0) {
    rule <- if (is.double(item)) "finite throughout" else "free of NA"
    where <- sprintf("%s at position %s", format(item[bad[1]]), format(bad[1], scientific = FALSE))
    abort("input", sprintf("`%s` must be %s; it has %s.", arg, rule, where), argument = arg)
  }
  if (is.logical(item)) {
    storage.mode(item) <- "integer"
  }
  attributes(item) <- if (is.null(dim(item))) NULL else list(dim = dim(item))
  item
}

is_scalar_item <- function(item) {
  is.null(dim(item)) && length(item) == 1
}

# The integers that come with an item: list(n_y = length(y)) and the like.
item_sizes <- function(item, name) {
  if (is_scalar_item(item)) {
    return(integer())
  }
  prefixes <- c("n_", if (is.matrix(item)) c("nrow_", "ncol_"))
  stats::setNames(c("n", if (is.matrix(item)) c("nrow", "ncol")), paste0(prefixes, name))
}

check_item_names <- function(data) {
  all_names <- list()
  for (i in seq_along(data)) {
    name <- names(data)[i]
    if (!grepl("^[A-Za-z][A-Za-z0-9_]*$", name)) {
      abort_input("data", "a list whose names are names in C: a letter, then letters, digits and _", name)
    }
    if (is_taken_name(name)) {
      abort_input("data", "a list whose names are free in C: no keyword, no function of math.h, none of its own", name)
    }
    for (own in c(name, names(item_sizes(data[[i]], name)))) {
      if (!is.null(all_names[[own]])) {
        abort("input", sprintf(
          "`data` must give every name in C once; `%s` comes from `data$%s` and from `data$%s`.", own, all_names[[own]],
          name
        ), argument = "data")
      }
      all_names[[own]] <- name
    }
  }
}

is_taken_name <- function(name) {
  own <- c("x", "n_dim", "real", "log_density")
  keywords <- c(
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern", "float",
    "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed", "sizeof",
    "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "alignas", "alignof",
    "and", "and_eq", "asm", "bitand", "bitor", "bool", "catch", "class", "compl", "constexpr", "const_cast", "decltype",
    "delete", "dynamic_cast", "explicit", "export", "false", "friend", "mutable", "namespace", "new", "noexcept", "not",
    "not_eq", "nullptr", "operator", "or", "or_eq", "private", "protected", "public", "reinterpret_cast",
    "static_assert", "static_cast", "template", "this", "thread_local", "throw", "true", "try", "typeid", "typename",
    "typeof", "using", "virtual", "wchar_t", "xor", "xor_eq", "main", "NULL", "INFINITY", "NAN", "offsetof",
    "math_errhandling", "isfinite", "isinf", "isnan", "isnormal", "signbit", "fpclassify", "isgreater",
    "isgreaterequal", "isless", "islessequal", "islessgreater", "isunordered"
  )
  math <- c(
    "acos", "asin", "atan", "atan2", "cos", "sin", "tan", "acosh", "asinh", "atanh", "cosh", "sinh", "tanh", "exp",
    "exp2", "expm1", "frexp", "ilogb", "ldexp", "log", "log10", "log1p", "log2", "logb", "modf", "scalbn", "scalbln",
    "cbrt", "fabs", "hypot", "pow", "sqrt", "erf", "erfc", "lgamma", "tgamma", "ceil", "floor", "nearbyint", "rint",
    "lrint", "llrint", "round", "lround", "llround", "trunc", "fmod", "remainder", "remquo", "copysign", "nan",
    "nextafter", "nexttoward", "fdim", "fmax", "fmin", "fma"
  )
  string <- c("memcpy", "memmove", "memset", "memcmp", "memchr")
  name %in% c(own, keywords, math, paste0(math, "f"), paste0(math, "l"), string) ||
    grepl("^(fmc_|FMC_|M_|FP_|HUGE_|INT[0-9_]|UINT|SIZE_|PTRDIFF_|str[a-z]|is[a-z])", name) || grepl("_t$", name)
}

# What of the data decides the text of the glue: names and kinds, not values.
data_signature <- function(data) {
  kinds <- vapply(data, function(item) {
    paste(typeof(item), if (is_scalar_item(item)) "number" else if (is.matrix(item)) "matrix" else "vector")
  }, "")
  paste(names(data), kinds)
}

#' @rdname fusedmc_density
#' @export
format.fusedmc_density_source <- function(x, ...) {
  lines <- strsplit(trimws(x$code), "\n")[[1]]
  items <- vapply(names(x$data), function(name) {
    item <- x$data[[name]]
    size <- if (is.matrix(item)) paste(dim(item), collapse = " x ") else length(item)
    if (is_scalar_item(item)) paste(name, "=", format(item, digits = 4)) else sprintf("%s[%s]", name, size)
  }, "")
  shown <- if (length(items) > 4) c(items[1:4], sprintf("... %d more", length(items) - 4L)) else items
  of <- if (length(items) == 0) "" else paste0(", data ", paste(shown, collapse = ", "))
  sprintf("<density> source in %s: %s of C%s", counted(x$n_dim, "dim"), counted(length(lines), "line"), of)
}

#' @export
density_nodes.fusedmc_density_source <- function(density, n_dim) {
  # What the code does is not known; that it reads each number once is a guess.
  ns <- 20 + 3 * (n_dim + sum(lengths(density$data)))
  list(node("source", ns = ns, source = density))
}

# Gives each node of a compiled density what C takes: list(key, in_float, cpu, cubin, items), with cpu the function's
# address or NULL, cubin the GPU's machine code or NULL, items the data.
link_sources <- function(nodes, precision, backend, device) {
  for (i in which(vapply(nodes, function(node) node$kind == "source", NA))) {
    density <- nodes[[i]]$source
    check_source_range(density, precision)
    gpu <- backend == "cuda"
    variant <- source_variant(density, precision)
    nodes[[i]]$source <- list(
      paste0(density$hash, "-", variant), variant == "float", if (!gpu) cpu_address(density, variant),
      if (gpu) gpu_cubin(density, variant, device_capability(device)), density$data
    )
  }
  nodes
}

# Code is compiled as "double"; for single precision as "float", where it says real, or as "rounded": double within,
# float outside.
source_variant <- function(density, precision) {
  if (precision == "double") "double" else if (density$says_real) "float" else "rounded"
}

check_source_range <- function(density, precision) {
  if (precision == "single" && any(density$largest > (2 - 2^-23) * 2^127)) {
    name <- names(density$data)[which.max(density$largest)]
    abort_input(paste0("data$", name), "in the range of single precision (up to 3.4e38)", max(density$largest))
  }
}

cpu_address <- function(density, variant) {
  cpu_symbol(paste0(density$hash, "-", variant), source_text_cpu(density, variant), density$code)
}

gpu_cubin <- function(density, variant, capability) {
  gpu_code(paste0(density$hash, "-", variant), source_text_gpu(density, variant), capability)
}
