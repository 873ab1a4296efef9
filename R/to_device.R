#' Matrices that stay on the GPU
#'
#' `to_device()` copies a matrix to the GPU once, and functions of this package that take a matrix take the result in
#' its place: [is_weights()] and [log_density()] read it where it lies, the others fetch it. `as.matrix()` brings it
#' back. `release()` gives its memory back at once; R does when nobody holds the object any more.
#'
#' @param x For `to_device()` a numeric matrix n x n_dim, or what counts as one for [is_weights()]; it need not be
#'   finite. For the others a result of `to_device()`.
#' @param precision `"double"` or `"single"`, which rounds to float and takes half the memory. Calls that read the
#'   matrix on the GPU run in this precision: it is their default, and another one is an error.
#' @param backend,device As in [mh_step()]. With `"cuda"`, or with `"auto"` where there is a GPU, the matrix goes to the
#'   GPU `device`. Else it stays with R, and everything works as well.
#' @param ... Not used.
#'
#' @details
#' Calls with `backend = "auto"` or `"cuda"` run on the GPU that the matrix lies on, whatever their `device`. With
#' `backend = "cpu"` they fetch it first. Functions of other packages, `colMeans()` among them, take `as.matrix(x)`.
#'
#' The memory is GPU memory: n x n_dim x 8 bytes, 4 in single precision; `backend_info()$devices` says how much all
#' such matrices hold. R collects garbage whenever new ones have taken an eighth of the GPU's memory, so forgotten ones
#' do not pile up. A forked child cannot use them.
#'
#' What [saveRDS()] writes does not contain a matrix that lies on the GPU: read back, it is an error to use it.
#'
#' @return `to_device()`: an object of class `fusedmc_matrix`, with `dim()`, `dimnames()`, `as.matrix()` and `print()`.
#'   `as.matrix()`: a matrix of doubles n x n_dim with the dimnames of the original; rounded to float in single
#'   precision. `release()`: `NULL`, invisibly; the object cannot be used afterwards, and releasing it again does
#'   nothing.
#' @section Errors:
#' `fusedmc_error_input` for arguments of the wrong type or shape, and where a matrix is used that was released or
#' comes from a file; `fusedmc_error_cuda` where `backend = "cuda"` cannot be had; `fusedmc_error_memory`, with the
#' bytes asked for, where the GPU's memory runs out.
#' @seealso [is_weights()], [log_density()], [backend_info()]
#' @export
#' @examples
#' x <- to_device(matrix(rnorm(2 * 5000, sd = 3), ncol = 2))
#' x
#' is_weights(x, density_normal(0, 1), density_normal(0, 3))
#' is_weights(x, density_student_t(4), density_normal(0, 3))
#' release(x)
to_device <- function(x, precision = c("double", "single"), backend = getOption("fusedmc.backend", "auto"),
                      device = 0L) {
  x <- check_matrix(x, "n", "x")
  precision <- check_precision(if (missing(precision)) "double" else precision)
  numbers <- as.double(nrow(x)) * ncol(x)
  run <- check_run(backend, device, cpu_ns = Inf, bytes = 0)
  run[[4]] <- numbers
  names <- dimnames(x)
  on_gpu <- run[[1]] == "cuda" && numbers > 0
  if (on_gpu) {
    place <- check_result(.Call(C_ffi_to_device, x, precision == "single", run), "cuda")
  } else {
    place <- new.env(parent = emptyenv())
    attributes(x) <- list(dim = dim(x))
    if (precision == "single") {
      x[] <- round_to_float(x)
    }
    place$x <- x
  }
  structure(
    list(
      place = place, dim = dim(x), dimnames = names, precision = precision, backend = if (on_gpu) "cuda" else "cpu",
      device = if (on_gpu) run[[2]] else NA_integer_
    ),
    class = "fusedmc_matrix"
  )
}

#' @rdname to_device
#' @export
release <- function(x) {
  if (!inherits(x, "fusedmc_matrix")) {
    abort_input("x", "a result of to_device()", x)
  }
  if (is_on_gpu(x)) {
    .Call(C_ffi_release_matrix, x$place)
  } else {
    rm(list = ls(x$place), envir = x$place)
  }
  invisible()
}

#' @rdname to_device
#' @export
as.matrix.fusedmc_matrix <- function(x, ...) {
  check_present(x, "x")
  place <- x$place
  if (is_on_gpu(x)) {
    run <- list("cuda", x$device, check_threads(), prod(dim(x)))
    out <- check_result(.Call(C_ffi_from_device, place, run), "cuda")
  } else {
    out <- place$x
  }
  dimnames(out) <- dimnames(x)
  out
}

#' @export
dim.fusedmc_matrix <- function(x) {
  x$dim
}

#' @export
dimnames.fusedmc_matrix <- function(x) {
  x$dimnames
}

#' @export
print.fusedmc_matrix <- function(x, ...) {
  where <- if (is_on_gpu(x)) sprintf("on GPU %d", x$device) else "with R"
  size <- prod(dim(x)) * if (x$precision == "single") 4 else 8
  shape <- paste(format(dim(x), big.mark = ",", trim = TRUE), collapse = " x ")
  state <- if (is_present(x)) "" else ", released or from a file"
  cat(sprintf("<matrix> %s %s, %s, %.3g MB%s\n", shape, where, x$precision, size / 1e6, state))
  invisible(x)
}

is_on_gpu <- function(x) {
  inherits(x, "fusedmc_matrix") && x$backend == "cuda"
}

is_present <- function(x) {
  if (is_on_gpu(x)) .Call(C_ffi_on_device, x$place) else !is.null(x$place$x)
}

check_present <- function(x, arg) {
  if (!is_present(x)) {
    message <- sprintf("`%s` must be a matrix that is still there; it was released, or comes from a file.", arg)
    abort("input", message, argument = arg)
  }
}

# The precision of a call on x: that of a matrix on the GPU, unless one is given.
precision_for <- function(x, precision) {
  if (!is.null(precision)) {
    return(check_precision(precision))
  }
  if (inherits(x, "fusedmc_matrix")) x$precision else "double"
}

# check_matrix() for calls that can read a matrix on the GPU: it stays there, unless the CPU shall do the work.
check_matrix_in_place <- function(x, rows, arg, precision, backend) {
  if (!is_on_gpu(x) || identical(backend, "cpu")) {
    return(check_matrix(x, rows, arg))
  }
  check_present(x, arg)
  if (precision != x$precision) {
    rule <- sprintf("\"%s\", in which `%s` lies on the GPU", x$precision, arg)
    abort_input("precision", rule, precision)
  }
  x
}

# How a call on x runs: where x lies, if that is a GPU.
run_where <- function(x, run) {
  if (is_on_gpu(x)) {
    run[1:2] <- list("cuda", x$device)
  }
  run
}

# x as C takes it: a matrix, or the pointer to one.
for_c <- function(x) {
  if (is_on_gpu(x)) x$place else x
}
