# Compiling the code of density_source(), and the cache of what was compiled.
#
# A compiled object is named by a hash of all that it depends on, so a name never has two meanings. It is written under
# another name and renamed, so a reader sees all of it or nothing; its last 32 bytes are the hash of the rest.

# What this session has compiled or loaded, by key, and facts that are worked out once.
session <- new.env(parent = emptyenv())

once <- function(name, value) {
  if (is.null(session[[name]])) {
    assign(name, value, envir = session)
  }
  session[[name]]
}

#' Compiled densities kept on disk
#'
#' Says where the compiled code of [density_source()] is kept and how much there is, and removes it.
#'
#' @param clear Whether to remove what is there: `TRUE` or `FALSE`. What this session has loaded stays usable.
#'
#' @return A list: `directory`; `files`, their number; `bytes`, their size. After `clear = TRUE` the last two say what
#'   was removed.
#' @section Options:
#' `fusedmc.cache` is the directory to use. The default is `tools::R_user_dir("fusedmc", "cache")`. Where it cannot be
#' written, and while `R CMD check` runs, a temporary one stands in for it. The 200 newest files are kept.
#' @export
#' @examples
#' fusedmc_cache()
fusedmc_cache <- function(clear = FALSE) {
  clear <- check_flag(clear, "clear")
  directory <- cache_directory()
  files <- cached_files(directory)
  found <- list(directory = directory, files = length(files), bytes = sum(file.size(files)))
  if (clear) {
    unlink(files)
  }
  found
}

cached_files <- function(directory) {
  list.files(directory, pattern = "^[0-9a-f]{32}-[a-z0-9_]+[.](so|cubin)$", full.names = TRUE)
}

# A directory that can be written.
cache_directory <- function() {
  wanted <- getOption("fusedmc.cache")
  if (!is.null(wanted) && !qtest(wanted, "S1")) {
    abort_input("options(fusedmc.cache)", "the path of a directory, or NULL", wanted)
  }
  checking <- nzchar(Sys.getenv("_R_CHECK_PACKAGE_NAME_"))
  if (is.null(wanted) && !checking) {
    wanted <- tools::R_user_dir("fusedmc", "cache")
  }
  for (directory in c(wanted, file.path(tempdir(), "fusedmc-cache"))) {
    dir.create(directory, recursive = TRUE, showWarnings = FALSE)
    if (file.access(directory, 2) == 0) {
      return(directory)
    }
  }
  abort("compile", sprintf("There is no directory for compiled code: %s cannot be written.", directory))
}

cache_put <- function(name, path) {
  directory <- cache_directory()
  other <- tempfile(paste0(name, "-"), tmpdir = directory)
  on.exit(unlink(other))
  bytes <- c(readBin(path, "raw", file.size(path)), charToRaw(unname(tools::md5sum(path))))
  # Without a cache the call goes on with what it has compiled.
  try(
    {
      writeBin(bytes, other)
      file.rename(other, file.path(directory, name))
      files <- cached_files(directory)
      unlink(files[order(file.mtime(files), decreasing = TRUE)][-seq_len(200)])
    },
    silent = TRUE
  )
  invisible()
}

# The path of a copy in the session's own directory, or NULL where there is none that is whole.
cache_get <- function(name) {
  path <- file.path(cache_directory(), name)
  if (!file.exists(path)) {
    return(NULL)
  }
  bytes <- tryCatch(readBin(path, "raw", file.size(path)), error = function(e) raw())
  n <- length(bytes) - 32
  if (n > 0) {
    copy <- session_file(name)
    writeBin(bytes[seq_len(n)], copy)
    if (identical(charToRaw(unname(tools::md5sum(copy))), bytes[-seq_len(n)])) {
      return(copy)
    }
  }
  unlink(path)
  NULL
}

# A new path for a compiled object: a loader that has seen a path does not look at it again.
session_file <- function(name) {
  tempfile("fusedmc-", fileext = paste0(".", tools::file_ext(name)))
}

hash_of_text <- function(...) {
  path <- tempfile("fusedmc-")
  on.exit(unlink(path))
  connection <- file(path, "wb")
  writeLines(enc2utf8(c(...)), connection, useBytes = TRUE)
  close(connection)
  unname(tools::md5sum(path))
}

include_dir <- function() {
  once("include", {
    directory <- system.file("include", "fusedmc", package = "fusedmc")
    if (!nzchar(directory)) {
      abort("compile", "The package's headers are not installed: density_source() needs the package from a library.")
    }
    directory
  })
}

# What every compiled object depends on: the package and its headers.
package_hash <- function() {
  once("package", {
    headers <- sort(list.files(file.path(include_dir(), "core"), full.names = TRUE), method = "radix") # in any locale
    version <- as.character(utils::packageVersion("fusedmc"))
    hash_of_text(version, tools::md5sum(c(headers, file.path(include_dir(), "flags"))))
  })
}

# And what those for the CPU depend on: R, its C compiler, the flags of the site and of the user.
toolchain_hash <- function() {
  once("toolchain", {
    makeconf <- readLines(file.path(R.home("etc"), Sys.getenv("R_ARCH"), "Makeconf"))
    makeconf <- grep("^(CC|CFLAGS|CPPFLAGS|LDFLAGS|SHLIB_LDFLAGS) *=", makeconf, value = TRUE)
    words <- strsplit(sub("^CC *= *", "", grep("^CC *=", makeconf, value = TRUE)), " +")[[1]]
    compiler <- normalizePath(Sys.which(words), mustWork = FALSE)
    compiler <- compiler[nzchar(compiler)]
    makevars <- c(tools::makevars_user(), tools::makevars_site())
    hash_of_text(
      R.version.string, makeconf, compiler, format(file.mtime(compiler)), file.size(compiler),
      unlist(lapply(makevars, readLines, warn = FALSE))
    )
  })
}

# ---- CPU ---------------------------------------------------------------------------------------

# The address of a compiled function. `text` is list(code, glue), the files code.c and glue.c, made when they are
# needed.
cpu_symbol <- function(key, text, user_code) {
  level <- .Call(C_ffi_simd_level)
  key <- paste0(key, "-", level)
  if (is.null(session[[key]])) {
    name <- sprintf("%s-%s.so", hash_of_text(key, package_hash(), toolchain_hash()), level)
    cached <- cache_get(name)
    symbol <- if (is.null(cached)) NULL else tryCatch(load_symbol(cached), error = function(e) NULL)
    if (is.null(symbol)) {
      path <- compile_cpu(text, user_code, level, session_file(name))
      symbol <- tryCatch(load_symbol(path), error = function(e) abort_compile("CPU", conditionMessage(e)))
      cache_put(name, path)
    }
    assign(key, symbol, envir = session)
  }
  session[[key]]
}

load_symbol <- function(path) {
  dll <- dyn.load(path)
  getNativeSymbolInfo("fmc_source_log_density", dll)$address
}

# By R's own toolchain, in a directory of its own. The flags stand after those of the site and the user, as they do for
# the package itself.
compile_cpu <- function(text, user_code, level, path) {
  directory <- tempfile("fusedmc-")
  dir.create(directory)
  on.exit(unlink(directory, recursive = TRUE))
  rule <- function(file) {
    c(
      sprintf("%s.o: %s.c", file, file),
      sprintf("\t$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) $(FLAGS) -c %s.c -o %s.o", file, file)
    )
  }
  # A call of what is not declared, or with what does not fit, is a mistake that C would let pass.
  strict <- "-Werror=implicit-function-declaration -Werror=incompatible-pointer-types -Werror=int-conversion"
  makevars <- c(
    readLines(file.path(include_dir(), "flags")),
    sprintf("PKG_CPPFLAGS = -I'%s'", include_dir()), "PKG_LIBS = -lm",
    sprintf("FLAGS = $(KERNEL_CFLAGS)%s -std=c11 %s",
      switch(level, avx2 = " $(AVX2_CFLAGS)", avx512 = " $(AVX512_CFLAGS)", ""), strict
    ),
    "all: $(SHLIB)", rule("code"), rule("glue")
  )
  write_text(user_code, file.path(directory, "code")) # compilers quote the line in question from here
  write_text(text$code, file.path(directory, "code.c"))
  write_text(text$glue, file.path(directory, "glue.c"))
  write_text(makevars, file.path(directory, "Makevars"))
  command <- sprintf(
    "cd %s && R_TESTS= MAKEFLAGS= %s CMD SHLIB -o density.so code.c glue.c 2>messages >commands", shQuote(directory),
    shQuote(file.path(R.home("bin"), "R"))
  )
  status <- system(command)
  object <- file.path(directory, "density.so")
  if (status != 0 || !file.exists(object)) {
    messages <- readLines(file.path(directory, "messages"), warn = FALSE)
    abort_compile("CPU", grep("^(g?make|ERROR: compilation failed)", messages, value = TRUE, invert = TRUE))
  }
  file.copy(object, path, overwrite = TRUE)
  path
}

write_text <- function(text, path) {
  connection <- file(path, "wb")
  on.exit(close(connection))
  writeLines(enc2utf8(text), connection, useBytes = TRUE)
}

abort_compile <- function(where, output) {
  output <- paste(output, collapse = "\n")
  abort("compile", sprintf("`code` does not compile for the %s:\n%s", where, output), output = output)
}

# ---- GPU ---------------------------------------------------------------------------------------

# Machine code for a compute capability such as 90. `text` is made when it is needed.
gpu_code <- function(key, text, capability) {
  key <- paste0(key, "-sm_", capability)
  if (is.null(session[[key]])) {
    name <- sprintf("%s-sm_%d.cubin", hash_of_text(key, package_hash()), capability)
    path <- cache_get(name)
    if (is.null(path)) {
      path <- session_file(name)
      writeBin(compile_gpu(text, capability), path)
      cache_put(name, path)
    }
    assign(key, readBin(path, "raw", file.size(path)), envir = session)
    unlink(path)
  }
  session[[key]]
}

compile_gpu <- function(text, capability) {
  text <- paste(c(enc2utf8(text), ""), collapse = "\n")
  result <- .Call(C_ffi_nvrtc_compile, text, as.integer(capability), include_dir(), nvrtc_path())
  if (!result$ok) {
    abort_compile("GPU", sub("\n+$", "", result$log))
  }
  result$code
}

# Where NVRTC is, or "" to look for it.
nvrtc_path <- function() {
  path <- getOption("fusedmc.nvrtc", "")
  if (!qtest(path, "S1")) {
    abort_input("options(fusedmc.nvrtc)", "the path of libnvrtc.so, or unset", path)
  }
  path.expand(path)
}

has_nvrtc <- function() {
  is.numeric(.Call(C_ffi_nvrtc_version, nvrtc_path()))
}

device_capability <- function(device) {
  once(paste0("capability-", device), {
    capability <- .Call(C_ffi_device_capability, as.integer(device))
    if (is.character(capability)) {
      abort("cuda", sprintf("CUDA backend: %s.", capability))
    }
    capability
  })
}
