# Where chains start. Starts are draws with a seed of their own, made from words of purpose 4, so they share no word
# with anything else that is made with the run's seed: see inst/design/random-numbers.md. The number of the chain is
# that of the draw.

start_seed <- function(seed) {
  derived_seed(seed, 4, 0)
}

# list(x, superchain, parameters, step_size): n_chains x n_dim without names, and step_size NULL but for a fit.
# n_chains is NULL where it was not given.
find_starts <- function(init, target, n_chains, n_superchains, seed, chain_offset) {
  given <- is.data.frame(init) || is.matrix(init) || inherits(init, c("mh_draws", "fusedmc_matrix"))
  if (given) {
    starts <- given_starts(init, n_chains)
    check_density(target, ncol(starts$x), "target", "init")
  } else {
    n_chains <- check_positive_whole(if (is.null(n_chains)) 1024 else n_chains, "n_chains")
    starts <- made_starts(init, target, n_chains, start_seed(seed), chain_offset)
  }
  check_finite_rows(starts$x, "init")
  starts$superchain <- superchain_of(nrow(starts$x), n_superchains, by_default = !given)
  starts$x <- join_starts(starts$x, starts$superchain, given)
  starts$parameters <- parameter_names(starts$parameters, target, ncol(starts$x))
  starts
}

given_starts <- function(init, n_chains) {
  fit <- if (inherits(init, "mh_draws")) init
  if (!is.null(fit)) {
    check_whole_fit(fit, "init")
  }
  x <- if (is.null(fit)) check_matrix(init, "n_chains", "init") else fit$state$x
  if (!is.null(n_chains) && !(qtest(n_chains, "N1") && n_chains == nrow(x))) {
    abort_input("n_chains", sprintf("%d, as `init` has, or left out", nrow(x)), n_chains)
  }
  parameters <- if (is.null(fit)) colnames(x) else fit$parameters
  list(x = unname(x), parameters = parameters, step_size = fit$step_size)
}

made_starts <- function(init, target, n_chains, seed, offset) {
  if (inherits(init, "fusedmc_density")) {
    return(drawn_starts(init, target, n_chains, seed, offset))
  }
  centre <- if (is.null(init)) default_centre(target) else list(mean = check_init(init, target), sd = 0.1)
  n_dim <- length(centre$mean)
  z <- draw_rows(density_normal(0, 1), n_chains, n_dim, seed, offset)
  x <- rep(centre$mean, each = n_chains) + rep(rep_len(centre$sd, n_dim), each = n_chains) * z
  list(x = matrix(x, n_chains, n_dim), parameters = names(init))
}

check_init <- function(init, target) {
  rule <- "a matrix n_chains x n_dim, n_dim numbers, a density, an earlier result, or NULL"
  if (!is.numeric(init) || is.object(init) || !is.null(dim(init)) || length(init) == 0) {
    abort_input("init", rule, init)
  }
  if (!all(is.finite(init))) {
    abort_input("init", "finite", init)
  }
  if (!is.na(target$n_dim) && length(init) != target$n_dim) {
    rule <- sprintf("%d numbers, since `target` is in %s", target$n_dim, counted(target$n_dim, "dim"))
    abort_input("init", rule, init)
  }
  as.double(init)
}

default_centre <- function(target) {
  n_dim <- target$n_dim
  if (is.na(n_dim)) {
    abort_input("init", "given where `target` fits any number of dims", NULL)
  }
  prior <- target$prior
  if (is.null(prior)) {
    return(list(mean = numeric(n_dim), sd = 1))
  }
  n_coef <- n_dim - (target$family == "gaussian" && is.null(target$sigma))
  mean <- c(rep_len(prior$mean, n_coef), numeric(n_dim - n_coef))
  list(mean = mean, sd = c(pmin(rep_len(prior$sd, n_coef), 1), rep(1, n_dim - n_coef)))
}

drawn_starts <- function(init, target, n_chains, seed, offset) {
  n_dim <- if (is.na(target$n_dim)) init$n_dim else target$n_dim
  if (is.na(n_dim)) {
    abort_input("init", "a density of a stated number of dims, since `target` fits any number", init)
  }
  if (!is.na(init$n_dim) && init$n_dim != n_dim) {
    message <- sprintf("`init` must be a density in %s, as `target` is; it is %s.", counted(n_dim, "dim"), format(init))
    abort("input", message, argument = "init")
  }
  if (length(draw_parts(init, n_dim)) == 0) {
    message <- sprintf("`init` must be a density that can be drawn from, see draw(); it is %s.", format(init))
    abort("input", message, argument = "init")
  }
  list(x = draw_rows(init, n_chains, as.integer(n_dim), seed, offset), parameters = init$parameters)
}

# The group of each chain: whole numbers from 1 on, neighbours together.
superchain_of <- function(n_chains, n_superchains, by_default) {
  if (is.null(n_superchains)) {
    n_superchains <- if (by_default && n_chains >= 32 && n_chains %% 16 == 0) 16 else n_chains
  } else {
    n_superchains <- check_positive_whole(n_superchains, "n_superchains")
    if (n_superchains > n_chains || n_chains %% n_superchains != 0) {
      abort_input("n_superchains", sprintf("a whole number that divides the %d chains", n_chains), n_superchains)
    }
  }
  rep(seq_len(n_superchains), each = n_chains / max(1, n_superchains))
}

# Every chain of a group at the start of its first; starts that were given must agree.
join_starts <- function(x, superchain, given) {
  if (anyDuplicated(superchain) == 0) {
    return(x)
  }
  joined <- x[match(superchain, superchain), , drop = FALSE]
  if (given) {
    apart <- which(rowSums(joined != x) > 0)
    if (length(apart) > 0) {
      rows <- enumerate_rows(utils::head(apart, 5), length(apart))
      rule <- sprintf("a matrix whose rows agree within a superchain, but another start is in %s", rows)
      abort_input("init", rule, x[apart[1], ])
    }
  }
  joined
}

parameter_names <- function(names, target, n_dim) {
  if (is.null(names)) {
    names <- target$parameters
  }
  if (is.null(names)) {
    return(sprintf("x[%d]", seq_len(n_dim)))
  }
  if (anyNA(names) || any(names == "") || anyDuplicated(names) > 0) {
    abort_input("init", "named by parameters that are all there and all different, or without names", names)
  }
  as.character(names)
}
