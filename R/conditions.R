# Classed conditions. Every error of the package also has class fusedmc_error.

# The call the user wrote: the outermost one to a function of this package.
user_call <- function() {
  namespace <- topenv(environment(user_call))
  for (i in seq_len(sys.nframe())) {
    if (identical(topenv(environment(sys.function(i))), namespace)) {
      return(sys.call(i))
    }
  }
  NULL
}

abort <- function(kind, message, ...) {
  class <- c(paste0("fusedmc_error_", kind), "fusedmc_error", "error", "condition")
  stop(structure(class = class, list(message = message, call = user_call(), ...)))
}

# "`arg` must be <rule>; it is <value>."
abort_input <- function(arg, rule, value) {
  message <- sprintf("`%s` must be %s; it is %s.", arg, rule, describe(value))
  abort("input", message, argument = arg)
}

warn <- function(kind, message, ...) {
  class <- c(paste0("fusedmc_warning_", kind), "fusedmc_warning", "warning", "condition")
  warning(structure(class = class, list(message = message, call = user_call(), ...)))
}

# A value in a few words, for an error message.
describe <- function(x) {
  if (is.null(x)) {
    return("NULL")
  }
  if (is.data.frame(x)) {
    return(sprintf("a data frame of %d rows and %d columns", nrow(x), ncol(x)))
  }
  if (is.atomic(x) && length(dim(x)) == 2) {
    return(sprintf("a %d x %d %s matrix%s", nrow(x), ncol(x), typeof(x), describe_not_finite(x)))
  }
  if (is.atomic(x) && !is.factor(x) && is.null(dim(x))) {
    if (length(x) <= 5) {
      shown <- paste(deparse(unname(x), width.cutoff = 500L), collapse = " ")
      return(if (is.character(x)) paste(shown, "(character)") else shown)
    }
    return(sprintf("a %s vector of length %d%s", typeof(x), length(x), describe_not_finite(x)))
  }
  sprintf("an object of class \"%s\"", class(x)[1])
}

describe_not_finite <- function(x) {
  bad <- if (is.numeric(x)) which(!is.finite(x)) else integer()
  if (length(bad) == 0) "" else sprintf(" with %s at position %s", format(x[bad[1]]), format(bad[1], big.mark = ""))
}

# "1 chain", "2 chains".
counted <- function(n, what) {
  sprintf("%s %s%s", format(n, scientific = FALSE), what, if (n == 1) "" else "s")
}

# "2, 5 and 7", and how many more.
enumerate <- function(x, n = length(x)) {
  shown <- format(x, scientific = FALSE, trim = TRUE)
  if (n > length(x)) {
    return(sprintf("%s and %s more", paste(shown, collapse = ", "), format(n - length(x), scientific = FALSE)))
  }
  if (length(shown) < 2) {
    return(shown)
  }
  paste(paste(shown[-length(shown)], collapse = ", "), "and", shown[length(shown)])
}

# "row 2", "rows 2 and 5".
enumerate_rows <- function(rows, n) {
  paste(if (n == 1) "row" else "rows", enumerate(rows, n))
}

# Turns what a .Call entry reports into its condition; gives back a result as it is.
check_result <- function(result, backend) {
  if (!inherits(result, "fusedmc_failure")) {
    return(result)
  }
  switch(result$status,
    interrupted = raise_interrupt(),
    memory = abort("memory", paste0(toupper(backend), " backend: ", result$message, "."), bytes = result$bytes),
    abort("cuda", paste0("CUDA backend: ", result$message, "."))
  )
}

# What R itself does at Ctrl-C, once everything has been released.
raise_interrupt <- function() {
  signalCondition(structure(class = c("interrupt", "condition"), list(message = "interrupted", call = NULL)))
  invokeRestart("abort")
}
