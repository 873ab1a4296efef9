#' Join results of importance sampling
#'
#' Joins results over neighbouring ranges of samples, of one run of [importance_sample()] or of one set of stored
#' samples by [is_summary()], into the result of all.
#'
#' @param ... Results of one run, or one list of them, in any order: the same seed, target, proposal and settings, and
#'   ranges of samples (`offset`, `n`) that follow each other without gaps.
#'
#' @details
#' Where the ranges meet at multiples of 4096 the result is that of one run over all, to the bit, apart from `fit$run`
#' (take it away to compare: `fit$run <- NULL`). Ranges that meet elsewhere give it up to rounding.
#'
#' A result holds the sums of the aligned blocks of 4096, 8192, ... samples that its range covers, about 2 log2(n /
#' 4096) of them, so it is small and parts can be joined in any grouping: `is_merge(is_merge(a, b), c)`. Draws are
#' joined where every part holds them; resampled draws are not, for each part's belong to that part alone.
#'
#' @section Other processes and machines:
#' Each of them makes a range and sends back its result.
#' ```
#' future::plan(future::multisession)
#' starts <- seq(0, by = 2^20, length.out = 16)
#' parts <- future.apply::future_lapply(starts, function(offset) {
#'   fusedmc::importance_sample(target, proposal, n = 2^20, offset = offset, seed = 1)
#' }, future.seed = NULL)
#' is_merge(parts)
#' ```
#' `importance_sample(workers = 16)` does just that.
#'
#' @section Samples that do not fit into memory:
#' Read them in pieces, weigh each piece, keep its result. Pieces of a multiple of 4096 rows make the result independent
#' of their size. The example below reads a file of doubles. From an Arrow data set (package \pkg{arrow}), whose batches
#' come in any size, so up to rounding:
#' ```
#' reader <- arrow::as_record_batch_reader(arrow::open_dataset("samples/"))
#' total <- NULL
#' at <- 0
#' while (!is.null(batch <- reader$read_next_batch())) {
#'   part <- is_summary(as.data.frame(batch), target, proposal, offset = at)
#'   total <- if (is.null(total)) part else is_merge(total, part)
#'   at <- at + nrow(batch)
#' }
#' ```
#' From a data base (package \pkg{DBI}):
#' ```
#' total <- NULL
#' at <- 0
#' result <- DBI::dbSendQuery(connection, "SELECT a, b FROM samples")
#' while (!DBI::dbHasCompleted(result)) {
#'   piece <- DBI::dbFetch(result, n = 2^18)
#'   part <- is_summary(piece, target, proposal, offset = at)
#'   total <- if (is.null(total)) part else is_merge(total, part)
#'   at <- at + nrow(piece)
#' }
#' DBI::dbClearResult(result)
#' ```
#' @return An `is_draws` as from [importance_sample()]. In `run`, seconds are those of the parts together.
#' @section Errors:
#' `fusedmc_error_input` where the parts are not of one run, naming what differs, or where samples are missing between
#' them or doubled, naming their numbers.
#' @seealso [importance_sample()], [is_summary()]
#' @export
#' @examples
#' target <- density_normal(c(1, 2), 1)
#' proposal <- density_student_t(5, c(0, 0), 2)
#' run <- function(n, offset = 0) importance_sample(target, proposal, n, offset = offset, seed = 1)
#' both <- is_merge(run(8192), run(11808, offset = 8192))
#' whole <- run(20000)
#' both$run <- whole$run <- NULL
#' identical(both, whole)
#'
#' # a file that is read in pieces
#' file <- tempfile()
#' x <- draw(density_normal(0, 3), 20000, seed = 1, n_dim = 2)
#' writeBin(as.vector(t(x)), file)
#' input <- file(file, "rb")
#' total <- NULL
#' at <- 0
#' while (length(numbers <- readBin(input, "double", 2 * 4096)) > 0) {
#'   piece <- matrix(numbers, ncol = 2, byrow = TRUE)
#'   part <- is_summary(piece, density_normal(1, 1), density_normal(0, 3), offset = at)
#'   total <- if (is.null(total)) part else is_merge(total, part)
#'   at <- at + nrow(piece)
#' }
#' close(input)
#' total
is_merge <- function(...) {
  parts <- list(...)
  if (length(parts) == 1 && !inherits(parts[[1]], "is_draws")) {
    parts <- parts[[1]]
  }
  check_are_parts(parts)
  parts <- unname(parts)
  check_same_samples(parts)
  full <- Filter(function(part) part$n > 0, parts)
  if (length(full) > 0) {
    parts <- full
  }
  parts <- parts[order(vapply(parts, `[[`, 0, "offset"))]
  check_neighbours(parts)

  first <- parts[[1]]
  with_draws <- all(vapply(parts, function(part) !is.null(part$log_weights), NA))
  first$settings <- first$settings[c("keep", "precision", "covariance", "n_tail")]
  first$settings$keep <- if (with_draws) "draws" else "summary"
  joined <- join_parts(lapply(parts, part_of, with_draws), first$settings$n_tail)
  fit <- new_is_draws(plan_of(first), first$offset, joined)
  fit["run"] <- list(merge_runs(lapply(parts, `[[`, "run")))
  fit
}

# What new_is_draws() was given.
plan_of <- function(fit) {
  plan <- unclass(fit)[c("target", "proposal", "seed", "settings", "parameters")]
  c(plan, list(shift = fit$sums$shift, n_dim = length(fit$parameters)))
}

part_of <- function(fit, with_draws) {
  part <- list(nodes = fit$sums$nodes, tail = fit$sums$tail, first_bad = fit$first_bad)
  if (with_draws) c(part, unclass(fit)[c("draws", "log_weights")]) else part
}

check_are_parts <- function(parts) {
  rule <- "results of importance_sample() or is_summary(), or one list of them"
  if (!is.list(parts) || length(parts) == 0) {
    abort_input("...", rule, if (is.list(parts)) NULL else parts)
  }
  other <- which(!vapply(parts, inherits, NA, "is_draws"))
  if (length(other) > 0) {
    what <- describe(parts[[other[1]]])
    abort("input", sprintf("`...` must be %s; part %d is %s.", rule, other[1], what), argument = "...")
  }
}

check_same_samples <- function(parts) {
  first <- parts[[1]]
  for (i in seq_along(parts)) {
    part <- parts[[i]]
    setting <- function(name) identical(part$settings[[name]], first$settings[[name]])
    same <- c(
      seed = identical(part$seed, first$seed), target = same_density(part$target, first$target, first),
      proposal = same_density(part$proposal, first$proposal, first),
      parameters = identical(part$parameters, first$parameters),
      precision = setting("precision"), covariance = setting("covariance"), n_tail = setting("n_tail"),
      shift = identical(part$sums$shift, first$sums$shift)
    )
    if (!all(same)) {
      rule <- sprintf("parts of one run, but part %d has another %s than part 1", i, names(which(!same))[1])
      abort("input", sprintf("`...` must be %s.", rule), argument = "...")
    }
  }
}

# Functions of R of the same code may still differ in what they use: that is seen from their values, at two points.
same_density <- function(x, y, fit) {
  if (!same_target(x, y)) {
    return(FALSE)
  }
  if (!is_in_r(x)) {
    return(TRUE)
  }
  points <- matrix(fit$sums$shift, 2, length(fit$sums$shift), byrow = TRUE, dimnames = list(NULL, fit$parameters))
  points[2, ] <- points[2, ] + 1
  value <- function(density) tryCatch(evaluate_in_r(density, points, fit$settings$precision), error = conditionMessage)
  identical(value(x), value(y))
}

# Parts in the order of their offsets.
check_neighbours <- function(parts) {
  ends <- vapply(parts, function(part) part$offset + part$n, 0)
  for (i in seq_along(parts)[-1]) {
    gap <- c(ends[i - 1], parts[[i]]$offset)
    if (gap[1] != gap[2]) {
      last <- if (gap[1] < gap[2]) gap[2] - 1 else min(gap[1], ends[i]) - 1
      what <- if (gap[1] < gap[2]) "missing" else "in two parts"
      rule <- sprintf("neighbouring ranges, but samples number %s to %s are %s", whole(min(gap)), whole(last), what)
      abort("input", sprintf("`...` must be %s.", rule), argument = "...")
    }
  }
}

merge_runs <- function(runs) {
  known <- Filter(Negate(is.null), runs)
  if (length(known) == 0) {
    return(NULL)
  }
  list(
    backend = unique(unlist(lapply(known, `[[`, "backend"))), devices = unique(unlist(lapply(known, `[[`, "devices"))),
    workers = max(vapply(known, function(run) as.double(run$workers), 0)),
    seconds = sum(vapply(known, `[[`, 0, "seconds"))
  )
}
