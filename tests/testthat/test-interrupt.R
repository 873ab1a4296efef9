# Ctrl-C in a fresh R that interrupts itself half a second into a call sized to take some seconds.

# `call` is R code over n rows of n_dim columns; its time must be proportional to n.
interrupted_call <- function(call, n_dim, first_n) {
  run <- run_in_fresh_r(c(
    "options(fusedmc.threads = 1)",
    "target <- density_mixture(rep(1, 500), matrix(seq(-1, 1, length.out = 1000), 500), 1)",
    sprintf("call <- function(n) { x <- matrix(0.5, n, %d); %s }", n_dim, call),
    sprintf("n <- %d", first_n),
    "repeat {",
    "  one <- system.time(call(n))[['elapsed']]",
    "  if (one > 0.1) break",
    "  n <- 2 * n",
    "}",
    "n <- ceiling(n * 8 / one)",
    "kept <- mh_step(matrix(0, 5, 2), target, seed = 1)",
    "started <- proc.time()[['elapsed']]",
    "system(sprintf('(sleep 0.5; kill -INT %d) &', Sys.getpid()))",
    "out <- tryCatch({ call(n); 'finished' }, interrupt = function(e) 'interrupted')",
    "seconds <- proc.time()[['elapsed']] - started",
    # a second is promised; the other half is for a busy machine
    "cat(out, if (seconds < 0.5 + 1.5) 'soon' else paste('after', seconds, 's'), '\\n')",
    "cat('same', identical(kept, mh_step(matrix(0, 5, 2), target, seed = 1)), '\\n')"
  ))
  grep("^(interrupted|finished|same)", run$output, value = TRUE)
}

test_that("mh_step() is interrupted soon, and the session goes on", {
  skip_on_cran()
  skip_on_os("windows")
  expect_identical(
    interrupted_call("mh_step(x, target, seed = 1, backend = 'cpu')", 2, 10000), c("interrupted soon ", "same TRUE ")
  )
})

test_that("is_weights() is interrupted soon, and the session goes on", {
  skip_on_cran()
  skip_on_os("windows")
  expect_identical(
    interrupted_call("is_weights(x, target, backend = 'cpu')", 2, 10000), c("interrupted soon ", "same TRUE ")
  )
})

test_that("draws that are weighed and summed are interrupted soon", {
  skip_on_cran()
  skip_on_os("windows")
  call <- paste(
    "door <- asNamespace('fusedmc'); proposal <- density_normal(c(0, 0), 3);",
    "nodes <- lapply(list(target, proposal), door$density_nodes, n_dim = 2);",
    "drawing <- door$draw_plan(list(proposal), 2);",
    "run <- door$run_for_importance('cpu', 0L, n, 2, unlist(nodes, recursive = FALSE), drawing);",
    "linked <- lapply(nodes, door$linked, precision = 'double', run = run);",
    "door$run_importance(n, 2, drawing = drawing, target = linked[[1]], proposal = linked[[2]], run = run)"
  )
  expect_identical(interrupted_call(call, 2, 10000), c("interrupted soon ", "same TRUE "))
})

test_that("a Cholesky step in many dimensions is interrupted soon", {
  skip_on_cran()
  skip_on_os("windows")
  call <- "mh_step(x, step_size = diag(2500), seed = 1, backend = 'cpu')"
  expect_identical(interrupted_call(call, 2500, 64), c("interrupted soon ", "same TRUE "))
})

test_that("more threads than the machine can start do no harm", {
  skip_on_cran()
  run <- run_in_fresh_r(c(
    "options(fusedmc.threads = 1e5)",
    "x <- matrix(0, 4e6, 1)",
    "many <- mh_step(x, seed = 1, backend = 'cpu')$x",
    "weights <- is_weights(x, density_normal(0, 1), backend = 'cpu')$ess",
    "options(fusedmc.threads = 1)",
    "cat('same', identical(many, mh_step(x, seed = 1, backend = 'cpu')$x), weights, '\\n')"
  ))
  expect_identical(run$output, "same TRUE 4e+06 ")
})
