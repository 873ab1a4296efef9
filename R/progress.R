# Progress of long runs, on the standard error.

# NULL, or a list of at(n_done) and close(). `progress` is the user's argument, `what` is counted.
new_progress <- function(n_total, progress, what = "step") {
  if (!wants_progress(progress) || n_total == 0) {
    return(NULL)
  }
  if (interactive() && requireNamespace("cli", quietly = TRUE)) cli_progress(n_total) else plain_progress(n_total, what)
}

wants_progress <- function(progress) {
  if (is.null(progress)) {
    progress <- interactive() && !isTRUE(getOption("knitr.in.progress"))
  }
  check_flag(progress, "progress")
}

cli_progress <- function(n_total) {
  env <- new.env()
  id <- cli::cli_progress_bar("Sampling", total = n_total, .envir = env, .auto_close = FALSE)
  list(
    at = function(n) cli::cli_progress_update(set = n, id = id, .envir = env),
    close = function() cli::cli_progress_done(id = id, .envir = env)
  )
}

# A line for each tenth, at most one in half a second: a log file stays short.
plain_progress <- function(n_total, what = "step") {
  shown <- 0
  last <- proc.time()[[3]]
  list(
    at = function(n) {
      now <- proc.time()[[3]]
      if (n >= shown + n_total / 10 && now - last > 0.5) {
        shown <<- n
        last <<- now
        message(sprintf("%s %s of %s", what, format(n, scientific = FALSE), format(n_total, scientific = FALSE)))
      }
    },
    close = function() NULL
  )
}
