# The C and CUDA text around the code of density_source().
#
# Data are variables that the code can only read. On the CPU they belong to a thread, since densities of the same code
# share the compiled object; a second file, which may write them, sets them before it calls the code. On the GPU they
# refer to the members of one struct in constant memory, which the host sends whole.

# A data frame of the C variables: type and name as the code sees them, the item's number from 0, and the member of
# fmc_source_value (core/source.h) that holds the value.
source_variables <- function(data, real) {
  rows <- lapply(seq_along(data), function(i) {
    name <- names(data)[i]
    item <- data[[i]]
    type <- if (is.integer(item)) "int" else real
    sizes <- item_sizes(item, name)
    scalar <- is_scalar_item(item)
    data.frame(
      type = c(if (scalar) type else paste0("const ", type, " *"), rep("int", length(sizes))),
      name = c(name, names(sizes)), item = i - 1L,
      member = c(if (!scalar) "array" else if (is.integer(item)) "integer" else "number", unname(sizes)),
      stringsAsFactors = FALSE
    )
  })
  none <- data.frame(type = character(), name = character(), item = integer(), member = character())
  do.call(rbind, c(list(none), rows))
}

# What `real` and a strip's numbers are.
source_types <- function(variant) {
  list(real = if (variant == "float") "float" else "double", strip = if (variant == "double") "double" else "float")
}

declared <- function(variables, pattern) {
  sprintf(pattern, variables$type, variables$name)
}

source_text_cpu <- function(density, variant) {
  type <- source_types(variant)
  variables <- source_variables(density$data, type$real)
  place <- if (density$n_dim > 4096) "static _Thread_local " else "" # a stack may be small
  code <- c(
    "#include \"core/user.h\"",
    sprintf("typedef %s real;", type$real),
    "#pragma GCC visibility push(hidden)",
    declared(variables, "extern _Thread_local %s const %s;"),
    "#line 1 \"code\"",
    density$code,
    "#line 1 \"fusedmc\"",
    "real log_density(const real *, int);",
    sprintf("void fmc_source_strip(const %s *fmc_x, size_t fmc_stride, int fmc_n,", type$strip),
    sprintf("                      %s *fmc_out) {", type$strip),
    "  for (int fmc_i = 0; fmc_i < fmc_n; fmc_i++) {",
    sprintf("    %sreal fmc_point[%d];", place, density$n_dim),
    sprintf("    for (size_t fmc_d = 0; fmc_d < %d; fmc_d++)", density$n_dim),
    "      fmc_point[fmc_d] = fmc_x[fmc_d * fmc_stride + (size_t)fmc_i];",
    sprintf("    fmc_out[fmc_i] = (%s)log_density(fmc_point, %d);", type$strip, density$n_dim),
    "  }",
    "}",
    "#pragma GCC visibility pop"
  )
  set <- sprintf("  %s = (%s)fmc_value[%d].%s;", variables$name, variables$type, variables$item, variables$member)
  glue <- c(
    "#include <stddef.h>",
    "#include \"core/source.h\"",
    "#pragma GCC visibility push(hidden)",
    declared(variables, "_Thread_local %s %s;"),
    "void fmc_source_strip(const void *, size_t, int, void *);",
    "#pragma GCC visibility pop",
    "__attribute__((visibility(\"default\")))",
    "void fmc_source_log_density(const void *fmc_values, const void *fmc_x, size_t fmc_stride, int fmc_n,",
    "                            void *fmc_out) {",
    "  const fmc_source_value *fmc_value = (const fmc_source_value *)fmc_values;",
    "  (void)fmc_value;",
    set,
    "  fmc_source_strip(fmc_x, fmc_stride, fmc_n, fmc_out);",
    "}"
  )
  list(code = code, glue = glue)
}

# An item's members of the struct, in the order in which cuda_source.h fills them.
gpu_members <- function(item, number, real) {
  type <- if (is.integer(item)) "int" else real
  if (is_scalar_item(item)) {
    return(sprintf("  %s fmc_%d_%s;", type, number, if (is.integer(item)) "integer" else "number"))
  }
  sprintf("  const %s *fmc_%d_array; int fmc_%d_n, fmc_%d_nrow, fmc_%d_ncol;", type, number, number, number, number)
}

source_text_gpu <- function(density, variant) {
  type <- source_types(variant)
  variables <- source_variables(density$data, type$real)
  suffix <- if (type$strip == "double") "f64" else "f32"
  c(
    sprintf("#define FMC_N_DIM %d", density$n_dim),
    sprintf("#define FMC_MEMBER %s", suffix),
    "#include \"core/source_device.h\"",
    sprintf("typedef %s real;", type$real),
    "struct fmc_data_type {",
    "  int fmc_first;",
    vapply(seq_along(density$data), function(i) gpu_members(density$data[[i]], i - 1L, type$real), ""),
    "};",
    "extern \"C\" { __constant__ fmc_data_type fmc_data; }",
    "namespace fmc_user {",
    sprintf(
      "static %s const &%s = fmc_data.fmc_%d_%s;", variables$type, variables$name, variables$item, variables$member
    ),
    "static __forceinline__ real log_density(const real *, int);",
    "#line 1 \"code\"",
    density$code,
    "#line 1 \"fusedmc\"",
    "}",
    sprintf("#include \"core/real_%s.h\"", suffix),
    "#include \"core/source_kernels.h\""
  )
}
