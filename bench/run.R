# Times calls of mh_step() and is_weights() on R matrices, of importance_sample(), resample() and smc_sample(), the R
# call included, and a step of a run of mh_sample(), beside the same in plain R, in one run.
#   Rscript bench/run.R [--large] [--only=calls|runs|importance|resample|smc|regression]
# Prints tables in Markdown. In that of calls: medians in milliseconds, and how many times plain R takes longer. A round
# times each `n_block` times in a row, as a loop of steps would, and takes the variants in random order: a machine that
# slows down slows all of them.

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

# Medians in milliseconds over all rounds; the first round does not count.
time_variants <- function(variants, n_rounds, n_block) {
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

report <- function(what, variants, n_rounds, n_block = 10) {
  ms <- time_variants(variants, n_rounds, n_block)
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

only <- sub("^--only=", "", grep("^--only=", commandArgs(TRUE), value = TRUE))
wanted <- function(part) length(only) == 0 || only == part

header <- function() cat("\n| call | variant | median, ms | plain R / this |\n|---|---|---|---|\n")

# ---- calls of mh_step() and is_weights() -----------------------------------------------------

time_calls <- function() {
  header()
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
}

# ---- runs ------------------------------------------------------------------------------------

# Microseconds of a step of a run: the difference between a long and a short one, so that what a call costs once, such
# as the states' way to a GPU, is left out.
step_us <- function(target, x, precision, device, n_steps, sums = FALSE, thin = 1, store = 0, n_rounds = 5,
                    step_size = 2.38 / sqrt(ncol(x))) {
  devices <- list(device)
  state <- fusedmc:::new_run_state(target, x, precision, devices)
  if (sums) state <- fusedmc:::begin_sums(state, 31)
  step_size <- rep_len(step_size, ncol(x))
  seconds <- function(n) {
    system.time(fusedmc:::run_steps(target, state, step_size, n, thin, store, 1, 0, precision, devices))[[3]]
  }
  n_short <- max(thin, n_steps %/% 10 %/% thin * thin)
  seconds(n_short)
  1e6 * stats::median(replicate(n_rounds, seconds(n_steps) - seconds(n_short))) / (n_steps - n_short)
}

report_run <- function(what, variant, us, numbers, plain = NA) {
  ratio <- if (is.na(plain)) "" else sprintf("%.1f", plain / us)
  cat(sprintf("| %s | %s | %.2f | %.0f | %s |\n", what, variant, us, numbers / us, ratio))
}

run_header <- function() {
  cat("\n| run | variant | us a step | million dim-steps a second | plain R / this |\n|---|---|---|---|---|\n")
}

# 4096 x 64 by instruction set, threads and precision.
time_cpu_runs <- function(n = 4096, n_dim = 64, n_steps = 500) {
  run_header()
  target <- density_normal(0, 1)
  x <- matrix(rnorm(n * n_dim), n)
  what <- sprintf("%d x %d", n, n_dim)
  plain <- 1e5 * stats::median(replicate(5, system.time(for (step in 1:10) plain_mh_step(x, 0.3))[[3]]))
  report_run(what, "plain R", plain, n * n_dim, plain)
  threads <- backend_info()$threads
  best <- backend_info()$simd
  on.exit(fusedmc:::set_simd(best))
  levels <- c("baseline", "avx2", "avx512")
  for (simd in rev(levels[seq_len(match(best, levels))])) {
    fusedmc:::set_simd(simd)
    steps <- if (simd == "baseline") n_steps %/% 5 else n_steps
    for (cores in unique(c(1, min(2, threads), threads))) {
      for (precision in c("double", "single")) {
        us <- with_threads(cores, function() step_us(target, x, precision, "cpu", steps))()
        report_run(what, sprintf("%s, %s, %s", simd, counted_threads(cores), precision), us, n * n_dim, plain)
      }
    }
  }
  fusedmc:::set_simd(best)
  for (precision in c("double", "single")) {
    name <- function(extra) sprintf("%s, %s, %s, %s", best, counted_threads(threads), precision, extra)
    report_run(what, name("sums"), step_us(target, x, precision, "cpu", n_steps, sums = TRUE), n * n_dim, plain)
    us <- step_us(target, x, precision, "cpu", n_steps, sums = TRUE, thin = 10, store = 1)
    report_run(what, name("sums, every 10th stored"), us, n * n_dim, plain)
  }
}

counted_threads <- function(n) sprintf("%d thread%s", n, if (n == 1) "" else "s")

time_gpu_runs <- function() {
  run_header()
  shapes <- list(c(4096, 64, 200000), c(1048576, 16, 5000), c(16384, 512, 10000)) # the last: steps
  for (shape in shapes) {
    x <- matrix(rnorm(shape[1] * shape[2]), shape[1])
    what <- sprintf("%d x %d", shape[1], shape[2])
    for (precision in c("double", "single")) {
      us <- function(...) step_us(density_normal(0, 1), x, precision, 0, shape[3], ...)
      report_run(what, paste("GPU,", precision), us(), length(x))
      report_run(what, sprintf("GPU, %s, sums", precision), us(sums = TRUE), length(x))
    }
  }
  x <- matrix(rnorm(4096 * 64), 4096)
  for (precision in c("double", "single")) {
    us <- step_us(density_normal(0, 1), x, precision, 0, 4000, thin = 10, store = 1)
    report_run("4096 x 64", sprintf("GPU, %s, every 10th stored", precision), us, length(x))
  }
  code <- "real log_density(const real *x, int n_dim) {
    real sum = 0;
    for (int d = 0; d < n_dim; d++)
      sum += x[d] * x[d];
    return -sum / 2;
  }"
  for (n_dim in c(16, 64)) {
    x <- matrix(rnorm(65536 * n_dim), 65536)
    for (precision in c("double", "single")) {
      what <- sprintf("65536 x %d", n_dim)
      name <- function(target) sprintf("GPU, %s, %s", precision, target)
      us <- step_us(density_normal(0, 1), x, precision, 0, 5000)
      report_run(what, name("density_normal()"), us, length(x))
      us <- step_us(density_source(code, n_dim = n_dim), x, precision, 0, 500)
      report_run(what, name("density_source()"), us, length(x))
    }
  }
}

# A first use compiles; the text differs from round to round, so that nothing is found in the cache.
time_nvrtc <- function(n_rounds = 5) {
  cat("\n| density_source(), 3 lines of C | seconds |\n|---|---|\n")
  text <- "real log_density(const real *x, int n_dim) { return -x[0] * x[0] * %d; }"
  stamp <- as.integer(Sys.time()) %% 1000000L * 100L
  seconds <- replicate(n_rounds, {
    stamp <<- stamp + 1L
    cpu <- system.time(target <- density_source(sprintf(text, stamp), n_dim = 1))[[3]]
    gpu <- system.time(log_density(target, matrix(0, 2, 1), backend = "cuda"))[[3]]
    c(cpu = cpu, gpu = gpu, again = system.time(log_density(target, matrix(0, 2, 1), backend = "cuda"))[[3]])
  })
  rows <- c("R's toolchain", "NVRTC, first use", "second use")
  cat(sprintf("| %s | %.3f |\n", rows, apply(seconds, 1, stats::median)), sep = "")
}

# ---- a step of a logistic regression ---------------------------------------------------------

# The log densities of the states are known, as in a run: a step evaluates the proposals alone.
plain_logistic_step <- function(b, log_old, x_signed, step_size) {
  proposal <- b + step_size * matrix(rnorm(length(b)), nrow(b))
  log_new <- colSums(plogis(tcrossprod(x_signed, proposal), log.p = TRUE)) - rowSums(proposal^2) / (2 * 2.5^2)
  accepted <- log(runif(nrow(b))) < log_new - log_old
  b[accepted, ] <- proposal[accepted, ]
  list(x = b, log_density = ifelse(accepted, log_new, log_old))
}

# Plain R with 128 of the chains, times 8: its matrix of all observations and chains would have 0.8 GB.
time_regression <- function(n_obs, plain = FALSE, n_chains = 1024, n_dim = 10, n_plain = 128) {
  x <- cbind(1, matrix(rnorm(n_obs * (n_dim - 1)), n_obs))
  y <- as.numeric(runif(n_obs) < plogis(drop(x %*% seq(-0.5, 0.5, length.out = n_dim))))
  target <- density_glm(x = x, y = y, family = binomial(), prior_sd = 2.5)
  b <- matrix(rnorm(n_chains * n_dim, sd = 0.01), n_chains)
  what <- sprintf("logistic, n = %s, %d x %d", format(n_obs, scientific = FALSE), n_chains, n_dim)
  info <- backend_info()
  plain_us <- NA
  if (plain) {
    few <- b[seq_len(n_plain), ]
    log_old <- log_density(target, few)
    one <- function() system.time(plain_logistic_step(few, log_old, (2 * y - 1) * x, 0.003))[[3]]
    plain_us <- 1e6 * stats::median(replicate(3, one())) * n_chains / n_plain
    report_step(what, "plain R, 128 chains, times 8", plain_us, plain_us)
    for (cores in unique(c(1, min(2, info$threads), info$threads))) {
      for (precision in c("double", "single")) {
        us <- with_threads(cores, function() step_us(target, b, precision, "cpu", 4, n_rounds = 5, step_size = 0.003))()
        report_step(what, sprintf("CPU, %s, %s", counted_threads(cores), precision), us, plain_us)
      }
    }
  }
  for (precision in if (nrow(info$devices) > 0) c("double", "single")) {
    n_steps <- max(20, 2e7 %/% n_obs)
    us <- step_us(target, b, precision, 0, n_steps, step_size = 0.003)
    report_step(what, paste("GPU,", precision), us, plain_us)
  }
}

report_step <- function(what, variant, us, plain_us) {
  ratio <- if (is.na(plain_us)) "" else sprintf("%.1f", plain_us / us)
  cat(sprintf("| %s | %s | %.3f | %s |\n", what, variant, us / 1e3, ratio))
}

# ---- importance sampling ---------------------------------------------------------------------

# Sums of samples that are drawn and forgotten; and, with --large, weights of a matrix of 1.28 GB.
time_importance <- function() {
  header()
  weights <- c(0.2, 0.3, 0.5)
  means <- matrix(rnorm(3 * 16), 3)
  sds <- matrix(runif(3 * 16, 0.5, 1.5), 3)
  target <- density_mixture(weights, means, sds)
  proposal <- density_normal(0, 3)
  large <- "--large" %in% commandArgs(TRUE)
  report_sampled <- function(n, variants, n_rounds) {
    report(sprintf("importance_sample() %.0f x 16, K = 3", n), variants, n_rounds, 2)
  }
  sampled <- function(n, plain = NULL) {
    variants_of(plain, function(backend, precision) {
      importance_sample(target, proposal, n, seed = 1, precision = precision, backend = backend)
    })
  }
  plain <- function() plain_is_weights(matrix(rnorm(2^20 * 16, sd = 3), ncol = 16), weights, means, sds, 3)
  report_sampled(2^20, sampled(2^20, plain), 2)
  if (large) {
    report_sampled(2^24, without_plain(sampled(2^24)), 2)
    if (has_gpu) report_sampled(1e9, only_gpu(sampled(1e9)), 2)
    samples <- matrix(rnorm(1e7 * 16, sd = 3), ncol = 16)
    weighed <- variants_of(
      function() plain_is_weights(samples, weights, means, sds, 3),
      function(backend, precision) is_weights(samples, target, precision = precision, backend = backend)
    )
    report("is_weights() 1e7 x 16, K = 3", weighed, 2, 1)
    for (precision in if (has_gpu) c("double", "single")) {
      x <- to_device(samples, precision, backend = "cuda")
      resident <- list(function() is_weights(x, target, weights = FALSE))
      names(resident) <- paste("GPU, samples there,", precision)
      report("is_weights(weights = FALSE) 1e7 x 16, K = 3", resident, 2)
      release(x)
    }
    summed <- variants_of(NULL, function(backend, precision) {
      is_weights(samples, target, weights = FALSE, precision = precision, backend = backend)
    })
    report("is_weights(weights = FALSE) 1e7 x 16, K = 3", without_plain(summed), 2, 1)
  }
}

without_plain <- function(variants) variants[names(variants) != "plain R"]
only_gpu <- function(variants) variants[grepl("^GPU", names(variants))]

# ---- tempered sequential Monte Carlo ---------------------------------------------------------

# Temperatures, moves and scales of stages are given; the shape of proposals is the particles' sds, as there.
plain_smc <- function(log_target, n, n_dim, initial_sd, stages) {
  log_initial <- function(x) rowSums(dnorm(x, 0, initial_sd, log = TRUE))
  x <- matrix(rnorm(n * n_dim, sd = initial_sd), n)
  log_evidence <- 0
  before <- 0
  for (i in seq_len(nrow(stages))) {
    beta <- stages$beta[i]
    log_w <- (beta - before) * (log_target(x) - log_initial(x))
    w <- exp(log_w - max(log_w))
    log_evidence <- log_evidence + max(log_w) + log(mean(w))
    x <- x[findInterval((seq_len(n) - runif(1)) / n, cumsum(w) / sum(w)) + 1, ]
    step_size <- stages$scale[i] * 2.38 / sqrt(n_dim) * apply(x, 2, sd)
    log_old <- (1 - beta) * log_initial(x) + beta * log_target(x)
    for (move in seq_len(stages$n_moves[i])) {
      proposal <- x + rep(step_size, each = n) * matrix(rnorm(n * n_dim), n)
      log_new <- (1 - beta) * log_initial(proposal) + beta * log_target(proposal)
      accepted <- log(runif(n)) < log_new - log_old
      x[accepted, ] <- proposal[accepted, ]
      log_old[accepted] <- log_new[accepted]
    }
    before <- beta
  }
  list(draws = x, log_evidence = log_evidence)
}

time_smc <- function(n = 16384, n_dim = 8) {
  header()
  means <- rbind(rep(-4, n_dim), rep(4, n_dim))
  target <- density_mixture(c(0.2, 0.8), means, 0.5)
  log_target <- function(x) {
    parts <- vapply(1:2, function(k) log(c(0.2, 0.8)[k]) + colSums(dnorm(t(x), means[k, ], 0.5, log = TRUE)), x[, 1])
    top <- pmax(parts[, 1], parts[, 2])
    top + log(rowSums(exp(parts - top)))
  }
  initial <- density_normal(0, 5)
  run <- function(backend, precision) {
    smc_sample(target, initial, n, covariance = "diagonal", seed = 1, precision = precision, backend = backend)
  }
  stages <- run("cpu", "double")$stages
  what <- sprintf("smc_sample() %d x %d, two modes, %d moves", n, n_dim, sum(stages$n_moves))
  report(what, variants_of(function() plain_smc(log_target, n, n_dim, 5, stages), run), 1, 1)
}

# ---- resampling ------------------------------------------------------------------------------

# Posterior's methods are loops in R: one call is enough.
time_resample <- function(n = 1e6) {
  header()
  log_weights <- rnorm(n)
  plain <- list(
    systematic = function() findInterval((seq_len(n) - runif(1)) / n, cumsum(exp(log_weights)) / sum(exp(log_weights))),
    multinomial = function() sample.int(n, n, TRUE, exp(log_weights))
  )
  for (method in names(plain)) {
    variants <- list("plain R" = plain[[method]])
    threads <- backend_info()$threads
    for (cores in unique(c(1, min(2, threads), threads))) {
      name <- sprintf("CPU, %s", counted_threads(cores))
      variants[[name]] <- with_threads(cores, function() {
        resample(log_weights = log_weights, method = method, seed = 1, backend = "cpu")
      })
    }
    if (has_gpu) {
      variants$GPU <- function() resample(log_weights = log_weights, method = method, seed = 1, backend = "cuda")
    }
    report(sprintf("resample(), %s, 1e6 from 1e6", method), variants, 2)
  }
  if (requireNamespace("posterior", quietly = TRUE)) {
    draws <- posterior::as_draws_matrix(matrix(0, n, 1, dimnames = list(NULL, "x")))
    seconds <- system.time(posterior::resample_draws(draws, exp(log_weights), method = "stratified"))[[3]]
    cat(sprintf("| resample_draws(), stratified, 1e6 from 1e6 | posterior | %.0f | |\n", 1e3 * seconds))
  }
}

# ---- all -------------------------------------------------------------------------------------

set.seed(1)
print(backend_info())
has_gpu <- nrow(backend_info()$devices) > 0
if (wanted("calls")) time_calls()
if (wanted("runs")) {
  time_cpu_runs()
  if (has_gpu) {
    time_gpu_runs()
    time_nvrtc()
  }
}
if (wanted("importance")) time_importance()
if (wanted("resample")) time_resample()
if (wanted("smc")) time_smc()
if (wanted("regression")) {
  cat("\n| a step of a run | variant | ms | plain R / this |\n|---|---|---|---|\n")
  time_regression(100000, plain = TRUE)
  if (has_gpu) for (n_obs in c(100, 1000, 10000, 1000000)) time_regression(n_obs)
}
