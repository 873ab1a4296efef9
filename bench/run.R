# Times mh_step() and is_weights() on R matrices, the R call included, beside the same in plain R, in one run.
#   Rscript bench/run.R [--large]
# Prints a table in Markdown: medians in milliseconds, and how many times plain R takes longer. A round times each
# `n_block` times in a row, as a loop of steps would, and takes the variants in random order: a machine that slows down
# slows all of them.

suppressPackageStartupMessages(library(fusedmc))

plain_mh_step <- function(x, step_size) {
  proposal <- x + step_size * matrix(rnorm(length(x)), nrow(x))
  log_alpha <- 0.5 * (rowSums(x^2) - rowSums(proposal^2))
  accepted <- log(runif(nrow(x))) < log_alpha
  x[accepted, ] <- proposal[accepted, ]
  list(x = x, accepted = accepted, log_alpha = log_alpha)
}

plain_is_weights <- function(x, weights, means, sds, proposal_sd) {
  log_terms <- vapply(seq_along(weights), function(k) {
    log(weights[k]) + colSums(dnorm(t(x), means[k, ], sds[k, ], log = TRUE))
  }, numeric(nrow(x)))
  top <- do.call(pmax, as.data.frame(log_terms))
  log_p <- top + log(rowSums(exp(log_terms - top)))
  log_q <- rowSums(dnorm(x, 0, proposal_sd, log = TRUE))
  log_weights <- log_p - log_q
  w <- exp(log_weights - max(log_weights))
  w <- w / sum(w)
  list(log_weights = log_weights, weights = w, mean = colSums(w * x), ess = 1 / sum(w^2))
}

n_block <- 10

# Medians in milliseconds over all rounds; the first round does not count.
time_variants <- function(variants, n_rounds) {
  seconds <- array(NA_real_, c(n_rounds, n_block, length(variants)))
  for (round in 0:n_rounds) {
    for (v in sample(length(variants))) {
      for (call in seq_len(n_block)) {
        start <- Sys.time()
        variants[[v]]()
        if (round > 0) seconds[round, call, v] <- as.double(difftime(Sys.time(), start, units = "secs"))
      }
    }
  }
  1e3 * apply(seconds, 3, stats::median)
}

report <- function(what, variants, n_rounds) {
  ms <- time_variants(variants, n_rounds)
  for (v in seq_along(variants)) {
    cat(sprintf("| %s | %s | %.3f | %.1f |\n", what, names(variants)[v], ms[v], ms[1] / ms[v]))
  }
}

with_threads <- function(threads, call) {
  force(threads)
  force(call)
  function() {
    old <- options(fusedmc.threads = threads)
    on.exit(options(old))
    call()
  }
}

# `call` takes backend and precision.
variants_of <- function(plain, call) {
  info <- backend_info()
  variants <- list("plain R" = plain)
  for (threads in unique(c(1, min(2, info$threads), info$threads))) {
    for (precision in c("double", "single")) {
      name <- sprintf("CPU, %d thread%s, %s", threads, if (threads == 1) "" else "s", precision)
      variants[[name]] <- with_threads(threads, local({
        p <- precision
        function() call("cpu", p)
      }))
    }
  }
  for (precision in if (nrow(info$devices) > 0) c("double", "single")) {
    variants[[paste("GPU,", precision)]] <- local({
      p <- precision
      function() call("cuda", p)
    })
  }
  variants
}

set.seed(1)
print(backend_info())
cat("\n| call | variant | median, ms | plain R / this |\n|---|---|---|---|\n")
weights <- c(0.2, 0.3, 0.5)
means <- matrix(rnorm(3 * 16), 3)
sds <- matrix(runif(3 * 16, 0.5, 1.5), 3)
target <- density_mixture(weights, means, sds)

shapes <- list(c(4096, 20))
if ("--large" %in% commandArgs(TRUE)) shapes <- c(shapes, list(c(1048576, 1)))
for (shape in shapes) {
  n <- shape[1]
  n_dim <- if (n == 4096) 64 else 16
  x <- matrix(rnorm(n * n_dim), n)
  report(
    sprintf("mh_step() %d x %d", n, n_dim),
    variants_of(
      function() plain_mh_step(x, 0.1),
      function(backend, precision) mh_step(x, seed = 1, precision = precision, backend = backend)
    ), shape[2]
  )
  samples <- matrix(rnorm(n * 16, sd = 3), n)
  report(
    sprintf("is_weights() %d x 16, K = 3", n),
    variants_of(
      function() plain_is_weights(samples, weights, means, sds, 3),
      function(backend, precision) is_weights(samples, target, precision = precision, backend = backend)
    ), shape[2]
  )
}
