# Checks of arguments. Each returns the value in the form that C takes, or aborts naming the argument and the value. A
# step of few chains takes microseconds, so the checks are by checkmate's qtest(), and rules are put into words only
# where one is broken: R evaluates an argument when it is needed.

check_choice <- function(x, choices, arg) {
  if (!qtest(x, "S1") || !match(x, choices, 0L)) {
    abort_input(arg, paste("one of", paste0("\"", choices, "\"", collapse = ", ")), x)
  }
  x
}

check_precision <- function(precision) {
  check_choice(precision, c("double", "single"), "precision")
}

check_flag <- function(x, arg) {
  if (!qtest(x, "B1")) {
    abort_input(arg, "TRUE or FALSE", x)
  }
  x
}

# A whole number from 0 to `upper`.
check_whole <- function(x, upper, arg, shown_upper = format(upper, scientific = FALSE)) {
  if (!qtest(x, "N1[0,]") || is.object(x) || x > upper || x != floor(x)) {
    abort_input(arg, sprintf("a whole number from 0 to %s", shown_upper), x)
  }
  as.double(x)
}

# The number of dims of densities (`of` names them), which is `known`, or NA where they fit any.
check_n_dim <- function(n_dim, known, of) {
  if (is.null(n_dim)) {
    if (is.na(known)) {
      abort_input("n_dim", sprintf("a number of dims, since any would do for %s", of), n_dim)
    }
    return(known)
  }
  if (!qtest(n_dim, "N1[1,]") || is.object(n_dim) || n_dim != floor(n_dim) || n_dim > 2^30) {
    abort_input("n_dim", "a whole number from 1 to 2^30, or NULL", n_dim)
  }
  if (!is.na(known) && known != n_dim) {
    abort_input("n_dim", sprintf("NULL or %d, with %s in %s", known, of, counted(known, "dim")), n_dim)
  }
  as.integer(n_dim)
}

# A vector of finite numbers without attributes.
check_numbers <- function(x, arg, rule = "finite numbers") {
  if (!qtest(x, "N+()") || is.object(x)) {
    abort_input(arg, rule, x)
  }
  as.double(x)
}

# A matrix of doubles with at least one column, from a matrix, a data frame of numbers or one that lies on the GPU.
# Non-finite entries are let through: the caller decides.
check_matrix <- function(x, rows, arg) {
  if (is.data.frame(x)) {
    x <- check_data_frame(x, arg)
  } else if (inherits(x, "fusedmc_matrix")) {
    check_present(x, arg)
    x <- as.matrix(x)
  }
  if (!is_numbers(x) || !is.matrix(x) || ncol(x) == 0) {
    rule <- sprintf("a numeric matrix (%s x n_dim) or a data frame of numbers", rows)
    if (is_numbers(x) && is.null(dim(x))) {
      how <- sprintf("use matrix(%s, nrow = 1) for one row, matrix(%s, ncol = 1) for n_dim = 1", arg, arg)
      abort_input(arg, sprintf("%s: %s", rule, how), x)
    }
    abort_input(arg, paste0(rule, if (is.matrix(x)) " with at least one column"), x)
  }
  if (is.object(x) || typeof(x) != "double") {
    x <- matrix(as.double(x), nrow(x), ncol(x), dimnames = dimnames(x))
  }
  x
}

# Numbers, or what counts as such.
is_numbers <- function(x) {
  is.numeric(x) || is.logical(x)
}

check_data_frame <- function(x, arg) {
  numbers <- vapply(x, function(column) is_numbers(column) && is.null(dim(column)), logical(1))
  if (!all(numbers)) {
    bad <- which(!numbers)[1]
    rule <- sprintf("numeric in every column, but column \"%s\" is not", names(x)[bad])
    abort_input(arg, rule, x[[bad]])
  }
  numbered <- identical(attr(x, "row.names"), seq_len(nrow(x)))
  x <- as.matrix(x)
  if (numbered) {
    rownames(x) <- NULL
  }
  x
}

# Rows of a matrix with an entry that is not finite.
not_finite_rows <- function(x) {
  which(!is.finite(rowSums(x * 0)))
}

check_finite_rows <- function(x, arg) {
  rows <- not_finite_rows(x)
  if (length(rows) > 0) {
    rule <- sprintf("finite, but is not in %s", enumerate_rows(utils::head(rows, 5), length(rows)))
    abort_input(arg, rule, x[rows[1], ])
  }
}

# The seed as a double; drawn from R's generator where NULL.
check_seed <- function(seed) {
  if (is.null(seed)) {
    return(sum(floor(stats::runif(2) * c(2^26, 2^27)) * c(2^27, 1)))
  }
  check_whole(seed, 2^53, "seed", "2^53")
}
