#' What runs here
#'
#' Reports the build of the package, the GPUs it can use, and how it uses the CPU.
#'
#' @return A list of class `fusedmc_backend_info`:
#'   * `version`: of the package;
#'   * `build`: `"cpu"` or `"cpu+cuda"`;
#'   * `toolkit`, `driver`: CUDA version the package was built with, and the newest that the driver supports; `NA`
#'     where there is none;
#'   * `devices`: a data frame with a row per GPU: `device` (the number that [mh_step()] and the others take, from 0),
#'     `name`, `memory_gb` (1e9 bytes), `compute_capability`, `resident_gb` (what matrices of [to_device()] hold);
#'   * `cuda_status`: `"ok"`, or why no GPU can be used;
#'   * `simd`: the CPU build in use, `"baseline"`, `"avx2"` or `"avx512"`;
#'   * `threads`: CPU threads in use at most;
#'   * `backend`: the default backend.
#' @export
#' @examples
#' backend_info()
backend_info <- function() {
  info <- .Call(C_ffi_backend_info)
  devices <- data.frame(
    device = seq_along(info$name) - 1L, name = info$name, memory_gb = info$memory / 1e9,
    compute_capability = info$capability, resident_gb = info$resident / 1e9, stringsAsFactors = FALSE
  )
  threads <- check_threads()
  structure(
    list(
      version = as.character(utils::packageVersion("fusedmc")), build = if (info$cuda) "cpu+cuda" else "cpu",
      toolkit = info$toolkit, driver = info$driver, devices = devices,
      cuda_status = if (nrow(devices) > 0) "ok" else info$why, simd = info$simd,
      threads = if (is.na(threads)) info$threads else min(threads, info$threads),
      backend = getOption("fusedmc.backend", "auto")
    ),
    class = "fusedmc_backend_info"
  )
}

#' @export
print.fusedmc_backend_info <- function(x, ...) {
  cat(sprintf("fusedmc %s, built for %s\n", x$version, if (x$build == "cpu") "the CPU" else "the CPU and CUDA"))
  if (x$build != "cpu") {
    cat(sprintf("CUDA: toolkit %s, driver %s\n", x$toolkit, if (is.na(x$driver)) "none" else x$driver))
  }
  if (nrow(x$devices) == 0) {
    cat(sprintf("GPU: none (%s)\n", x$cuda_status))
  }
  for (i in seq_len(nrow(x$devices))) {
    d <- x$devices[i, ]
    held <- if (d$resident_gb > 0) sprintf(" (%.3g held by matrices)", d$resident_gb) else ""
    cat(sprintf(
      "GPU %d: %s, %.0f GB%s, compute capability %s\n", d$device, d$name, d$memory_gb, held, d$compute_capability
    ))
  }
  cat(sprintf("CPU: %s build, %s\n", x$simd, counted(x$threads, "thread")))
  cat(sprintf("default backend: %s\n", x$backend))
  invisible(x)
}

# Checks how a call is to run; returns list(backend, device, threads, cpu_ns) with the backend decided. `cpu_ns` is
# what one CPU thread needs for the call, `bytes` what would travel to the GPU and back; both only have to be right
# to a factor of two. A user's code among `nodes` needs a compiler for the GPU.
check_run <- function(backend, device, cpu_ns, bytes, nodes = NULL) {
  check_choice(backend, c("auto", "cpu", "cuda"), "backend")
  device <- check_whole(device, .Machine$integer.max, "device")
  threads <- check_threads()
  if (backend != "cpu") {
    found <- .Call(C_ffi_cuda_n_devices)
    if (backend == "cuda" && found$n == 0) {
      abort("cuda", sprintf("`backend` is \"cuda\", but no GPU can be used: %s.", found$why), argument = "backend")
    }
    if (found$n > 0 && device >= found$n) {
      valid <- if (found$n == 1) "0 (there is one GPU)" else sprintf("a whole number from 0 to %d", found$n - 1L)
      abort_input("device", valid, device)
    }
    if (backend == "auto") {
      cpu_time <- cpu_ns / min(threads, found$threads, na.rm = TRUE)
      use_gpu <- found$n > 0 && gpu_is_faster(cpu_time, bytes) && (!has_source(nodes) || has_nvrtc())
      backend <- if (use_gpu) "cuda" else "cpu"
    }
  }
  list(backend, as.integer(device), threads, cpu_ns)
}

# A call on the GPU costs about 150 us, and matrices travel at about 18 bytes a nanosecond (bench/RESULTS.md).
gpu_is_faster <- function(cpu_time, bytes) {
  cpu_time > 150e3 + bytes / 18
}

# The most threads to use, or NA for all there are. R CMD check allows two.
check_threads <- function() {
  threads <- getOption("fusedmc.threads")
  if (!is.null(threads)) {
    if (!qtest(threads, "N1[1,]") || threads != floor(threads)) {
      abort_input("options(fusedmc.threads)", "a whole number from 1 on, or NULL", threads)
    }
    return(as.integer(min(threads, .Machine$integer.max)))
  }
  if (nzchar(Sys.getenv("_R_CHECK_LIMIT_CORES_"))) 2L else NA_integer_
}
