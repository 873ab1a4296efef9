# Formula or matrix to model: list(x = n_obs x n_coef with column names, y, weights, offset (n_obs numbers each, or
# NULL), rows = names of the observations, argument = what errors in x are blamed on).

check_glm_interface <- function(formula, data, x, y, contrasts) {
  if (is.null(formula) == is.null(x)) {
    abort_input("x", "given with `y`, or else `formula` in their place", x)
  }
  if (is.null(x)) {
    if (!inherits(formula, "formula")) {
      abort_input("formula", "a formula, such as y ~ x; a model matrix is given as `x`, with `y`", formula)
    }
    if (!is.null(y)) {
      abort_input("y", "NULL where there is a `formula`, whose left side is the response", y)
    }
    if (!is.null(data) && !is.list(data) && !is.environment(data)) {
      abort_input("data", "a data frame, a list, an environment or NULL", data)
    }
    return(invisible())
  }
  if (!is.null(data)) {
    abort_input("data", "NULL where there is `x`", data)
  }
  if (!is.null(contrasts)) {
    abort_input("contrasts", "NULL where there is `x`", contrasts)
  }
}

# As stats::glm() does: what the call says is evaluated where it was written.
formula_model <- function(call, caller, contrasts) {
  wanted <- c("formula", "data", "subset", "weights", "na.action", "offset")
  frame_call <- call[c(1L, match(wanted, names(call), 0L))]
  frame_call$drop.unused.levels <- TRUE
  frame_call[[1L]] <- quote(stats::model.frame)
  frame <- blaming("formula", "a formula that fits `data`", eval(frame_call, caller))
  if (attr(attr(frame, "terms"), "response") == 0) {
    abort("input", "`formula` must be a formula with a response; it has none.", argument = "formula")
  }
  x <- blaming("formula", "a formula that makes a model matrix", {
    stats::model.matrix(attr(frame, "terms"), frame, contrasts)
  })
  model_of(frame, x, stats::model.response(frame), "formula")
}

matrix_model <- function(x, y, options) {
  x <- check_matrix(x, "n_obs", "x")
  if (is.data.frame(y)) {
    y <- check_data_frame(y, "y")
  }
  if (!(is.atomic(y) && length(dim(y)) <= 2) || NROW(y) != nrow(x)) {
    abort_input("y", sprintf("a response for each of the %d rows of `x`", nrow(x)), y)
  }
  for (name in c("weights", "offset")) {
    if (!is.null(options[[name]]) && length(options[[name]]) != nrow(x)) {
      abort_input(name, sprintf("%d numbers, one per row of `x`, or NULL", nrow(x)), options[[name]])
    }
  }
  if (is.null(colnames(x))) {
    colnames(x) <- paste0("x", seq_len(ncol(x)))
  }
  frame <- blaming("x", "a model matrix that fits `y`, `weights`, `offset`, `subset` and `na.action`", {
    do.call(stats::model.frame, c(list(y ~ x), options, drop.unused.levels = TRUE))
  })
  model_of(frame, frame$x, frame$y, "x")
}

model_of <- function(frame, x, y, argument) {
  offset <- blaming("offset", "numeric", stats::model.offset(frame))
  list(
    x = x, y = y, weights = stats::model.weights(frame), offset = offset, rows = rownames(frame), argument = argument
  )
}

# The value of `code`; an error in it becomes one of ours, about `arg`.
blaming <- function(arg, rule, code) {
  tryCatch(code, error = function(e) {
    message <- sprintf("`%s` must be %s; R says: %s.", arg, rule, sub("[.\n]*$", "", conditionMessage(e)))
    abort("input", message, argument = arg)
  })
}

# Checks all but the response and leaves observations of weight 0 out.
check_model <- function(model) {
  if (ncol(model$x) == 0) {
    abort("input", sprintf("`%s` must give at least one coefficient; it gives none.", model$argument),
      argument = model$argument
    )
  }
  if (nrow(model$x) == 0) {
    abort("input", sprintf("`%s` must leave at least one observation; it leaves none.", model$argument),
      argument = model$argument
    )
  }
  bad <- which(!is.finite(rowSums(model$x * 0)))
  if (length(bad) > 0) {
    row <- model$x[bad[1], ]
    column <- which(!is.finite(row))[1]
    rule <- sprintf(
      "a finite model matrix, but is not in column \"%s\" of row %s", colnames(model$x)[column], model$rows[bad[1]]
    )
    abort_input(model$argument, rule, row[[column]])
  }
  model$offset <- check_per_observation(model$offset, model, "offset", "finite numbers", -Inf)
  model$weights <- check_per_observation(model$weights, model, "weights", "finite numbers >= 0", 0)
  if (!is.null(model$weights) && any(model$weights == 0)) {
    model <- model_rows(model, which(model$weights > 0))
    if (nrow(model$x) == 0) {
      abort_input("weights", "positive for at least one observation", 0)
    }
  }
  model
}

check_per_observation <- function(x, model, arg, rule, lowest) {
  if (is.null(x)) {
    return(NULL)
  }
  if (!is.numeric(x) || is.object(x) || length(x) != nrow(model$x)) {
    abort_input(arg, rule, x)
  }
  bad <- which(!is.finite(x) | x < lowest)
  if (length(bad) > 0) {
    abort_input(arg, sprintf("%s, but is not in row %s", rule, model$rows[bad[1]]), x[[bad[1]]])
  }
  as.double(x)
}

model_rows <- function(model, rows) {
  model$x <- model$x[rows, , drop = FALSE]
  model$y <- if (is.matrix(model$y)) model$y[rows, , drop = FALSE] else model$y[rows]
  model$weights <- model$weights[rows]
  model$offset <- model$offset[rows]
  model$rows <- model$rows[rows]
  model
}
