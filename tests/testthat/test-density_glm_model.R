# ---- as stats::glm() ---------------------------------------------------------------------------

test_that("with flat priors the density at glm()'s estimate is its log likelihood, and a maximum", {
  skip_if_not_installed("MASS")
  fits <- list(
    list(type ~ ., MASS::Pima.tr, binomial()),
    list(type ~ bmi * (age > 30), MASS::Pima.tr, binomial()),
    list(breaks ~ wool * tension, warpbreaks, poisson()),
    list(breaks ~ wool + offset(log(breaks + 1)), warpbreaks, poisson()),
    list(dist ~ speed + I(speed^2), cars, gaussian())
  )
  for (fit in fits) {
    model <- glm(fit[[1]], fit[[3]], fit[[2]])
    gaussian <- fit[[3]]$family == "gaussian"
    sigma <- if (gaussian) sqrt(mean(residuals(model)^2))
    density <- density_glm(fit[[1]], fit[[2]], fit[[3]], prior_sd = Inf, sigma = sigma)
    expect_identical(density$parameters, names(coef(model)))
    expect_identical(density$n_obs, nobs(model))
    best <- coef(model)
    at_best <- log_density(density, t(best))
    expect_equal(at_best, as.vector(logLik(model)), tolerance = 1e-12, ignore_attr = TRUE)
    step <- diag(sqrt(diag(vcov(model)))) / 10
    around <- rbind(sweep(step, 2, best, "+"), sweep(-step, 2, best, "+"))
    expect_true(all(log_density(density, around) < at_best))
  }
})

test_that("log sigma is the last parameter, with its maximum where glm() has it", {
  model <- glm(dist ~ speed, gaussian(), cars)
  density <- density_glm(dist ~ speed, cars, prior_sd = Inf, prior_sigma = 1e6)
  expect_identical(density$parameters, c("(Intercept)", "speed", "log_sigma"))
  expect_identical(density$n_dim, 3L)
  s <- log(sqrt(sum(residuals(model)^2) / 49)) # the Jacobian takes one off 50
  value <- log_density(density, cbind(coef(model)[1], coef(model)[2], s + c(0, -0.1, 0.1)))
  expect_identical(which.max(value), 1L)
  expect_equal(
    value[1], sum(dnorm(cars$dist, fitted(model), exp(s), log = TRUE)) + dexp(exp(s), 1e-6, log = TRUE) + s
  )
})

test_that("all forms of a binomial response are one", {
  data <- data.frame(
    z = grid_values(12, 731), failures = c(0:4, 4:0, 2, 1), successes = c(1, 0, 2, 3, 1, 0, 5, 1, 1, 4, 0, 2)
  )
  data$n <- data$successes + data$failures
  data$part <- data$successes / data$n
  b <- glm_points(2)
  counts <- log_density(density_glm(cbind(successes, failures) ~ z, data, binomial), b)
  expect_equal(log_density(density_glm(part ~ z, data, binomial, weights = n), b), counts, tolerance = 1e-14)
  expect_equal(
    log_density(density_glm(
      x = cbind(1, data$z), y = as.matrix(data[c("successes", "failures")]), family = "binomial"
    ), b), counts, tolerance = 1e-14
  )
  model <- glm(part ~ z, binomial(), data, weights = n)
  density <- density_glm(part ~ z, data, binomial(), weights = n, prior_sd = Inf)
  expect_equal(log_density(density, t(coef(model))), as.vector(logLik(model)), tolerance = 1e-12, ignore_attr = TRUE)

  data$one <- as.double(data$z > 0)
  single <- log_density(density_glm(one ~ z, data, binomial), b)
  data$yes <- data$one == 1
  data$factor <- factor(ifelse(data$yes, "yes", "no"), c("no", "yes"))
  data$three <- factor(ifelse(data$yes, c("b", "c"), "a"), c("unused", "a", "b", "c"))
  for (formula in list(yes ~ z, factor ~ z, three ~ z, I(one) ~ z, cbind(one) ~ z, cbind(one, 1 - one) ~ z)) {
    expect_same_bits(log_density(density_glm(formula, data, binomial), b), single, deparse(formula))
  }
  expect_same_bits(
    log_density(density_glm(x = cbind(1, data$z), y = data$factor, family = binomial), b), single
  )
  # a weight is a number of equal trials, and a trial of its own gives the same but for rounding
  twice <- density_glm(one ~ z, data, binomial, weights = rep(2, 12))
  expect_equal(
    log_density(twice, b), log_density(density_glm(one ~ z, rbind(data, data), binomial), b), tolerance = 1e-14
  )
  # case weights of counts multiply their whole likelihood
  half <- density_glm(cbind(successes, failures) ~ z, data, binomial, weights = rep(0.5, 12), prior_sd = Inf)
  whole <- density_glm(cbind(successes, failures) ~ z, data, binomial, prior_sd = Inf)
  expect_equal(log_density(half, b), log_density(whole, b) / 2, tolerance = 1e-14)
})

test_that("weights, offset, subset, na.action and contrasts are those of glm()", {
  data <- warpbreaks
  data$w <- seq_len(54) / 10
  data$shift <- grid_values(54, 741) / 4
  b <- glm_points(4)[, 1:4]
  weighted <- glm(breaks ~ wool + tension, poisson(), data, weights = w, offset = shift, subset = w > 1)
  density <- density_glm(
    breaks ~ wool + tension, data, poisson(), weights = w, offset = shift, subset = w > 1, prior_sd = Inf
  )
  expect_identical(density$n_obs, 44L)
  expect_equal(
    log_density(density, t(coef(weighted))), as.vector(logLik(weighted)), tolerance = 1e-12, ignore_attr = TRUE
  )
  rows <- data$w > 1
  x <- model.matrix(breaks ~ wool + tension, data)
  by_matrix <- density_glm(
    x = x, y = data$breaks, family = poisson(), weights = data$w, offset = data$shift, subset = rows, prior_sd = Inf
  )
  expect_same_bits(log_density(by_matrix, b), log_density(density, b))
  expect_identical(by_matrix$parameters, density$parameters)

  # variables of the caller, and a formula that comes in a variable
  local_weights <- data$w
  local_formula <- breaks ~ wool + tension
  from_caller <- density_glm(
    local_formula, data, poisson(),
    weights = local_weights, offset = data$shift, subset = local_weights > 1, prior_sd = Inf
  )
  expect_same_bits(log_density(from_caller, b), log_density(density, b))

  sums <- density_glm(breaks ~ tension, data, poisson(), contrasts = list(tension = "contr.sum"))
  expect_identical(sums$parameters, c("(Intercept)", "tension1", "tension2"))

  missing <- data
  missing$breaks[3] <- NA
  missing$wool[7] <- NA
  without <- density_glm(breaks ~ wool + tension, data[-c(3, 7), ], poisson())
  omitted <- density_glm(breaks ~ wool + tension, missing, poisson())
  expect_identical(omitted$n_obs, 52L)
  expect_same_bits(log_density(omitted, b), log_density(without, b))
  expect_input_error(density_glm(breaks ~ wool, missing, poisson(), na.action = na.fail), "formula", "missing")
  expect_input_error(density_glm(breaks ~ wool, missing, poisson(), na.action = na.pass), "formula", "row 7")
  missing$wool[7] <- "A"
  expect_input_error(density_glm(breaks ~ wool, missing, poisson(), na.action = na.pass), "response", "row 3 it is NA")
  holes <- x
  holes[5, 2] <- NA
  expect_same_bits(
    log_density(density_glm(x = holes, y = data$breaks, family = poisson()), b),
    log_density(density_glm(x = x[-5, ], y = data$breaks[-5], family = poisson()), b)
  )
  expect_input_error(density_glm(x = holes, y = data$breaks, family = poisson(), na.action = na.pass), "x", "NA")
})

test_that("an observation of weight 0 is left out", {
  b <- glm_points(3)
  w <- rep(c(1, 0, 2), 18)
  for (family in c("poisson", "gaussian")) {
    density <- density_glm(breaks ~ tension, warpbreaks, family, weights = w, sigma = if (family == "gaussian") 3)
    less <- density_glm(
      breaks ~ tension, warpbreaks[w > 0, ], family, weights = w[w > 0], sigma = if (family == "gaussian") 3
    )
    expect_same_bits(log_density(density, b), log_density(less, b), family)
    expect_identical(density$n_obs, 36L)
  }
})

test_that("weights of a Gaussian response divide its variance", {
  w <- c(0.5, 1, 2, 4)
  density <- density_glm(x = matrix(1:4), y = c(2, 1, 4, 3), sigma = 2, weights = w, prior_sd = Inf)
  expect_equal(
    log_density(density, matrix(0.7)), sum(dnorm(c(2, 1, 4, 3), 0.7 * 1:4, 2 / sqrt(w), log = TRUE)),
    tolerance = 1e-14
  )
})

test_that("a model matrix of dependent columns needs a proper prior", {
  x <- cbind(a = 1:5, b = 2 * (1:5), c = c(1, 0, 0, 1, 1))
  expect_silent(density_glm(x = x, y = c(0, 1, 0, 1, 1), family = "binomial"))
  expect_silent(density_glm(x = x, y = c(0, 1, 0, 1, 1), family = "binomial", prior_sd = c(Inf, 1, Inf)))
  expect_input_error(density_glm(x = x, y = c(0, 1, 0, 1, 1), family = "binomial", prior_sd = Inf), "prior_sd", "\"b\"")
  expect_input_error(
    density_glm(x = x, y = c(0, 1, 0, 1, 1), family = "binomial", prior_sd = c(Inf, Inf, 1)), "prior_sd", "improper"
  )
})

# ---- arguments ------------------------------------------------------------------------------------

test_that("a density has its class and says what it is", {
  density <- density_glm(breaks ~ tension, warpbreaks, poisson())
  expect_s3_class(density, c("fusedmc_density_glm", "fusedmc_density"), exact = TRUE)
  expect_output(
    print(density),
    "<density> poisson-log regression posterior: 3 parameters, 54 observations, prior normal(0, 2.5)", fixed = TRUE
  )
  text <- format(density_glm(dist ~ speed, cars, prior_df = 4))
  expect_match(text, "student_t(4, 0, 2.5), sigma exponential of mean 1", fixed = TRUE)
  text <- format(density_glm(dist ~ speed, cars, sigma = 15, prior_sd = Inf))
  expect_match(text, "prior flat, sigma 15", fixed = TRUE)
  expect_identical(density_glm(x = matrix(1:4, 2), y = 1:2, family = "poisson")$parameters, c("x1", "x2"))
  expect_input_error(mh_step(matrix(0, 2, 2), density), "target", "3")
})

test_that("family is one of three, with its link", {
  for (family in list(binomial, binomial(), "binomial")) {
    expect_identical(density_glm(am ~ wt, mtcars, family)$family, "binomial")
  }
  for (bad in list(binomial("probit"), poisson("sqrt"), gaussian("log"), quasibinomial(), Gamma(), Gamma)) {
    expect_input_error(density_glm(am ~ wt, mtcars, bad), "family", "link")
  }
  for (bad in list("probit", "quasipoisson", c("binomial", "poisson"), 1, NULL, NA, mean)) {
    expect_input_error(density_glm(am ~ wt, mtcars, bad), "family")
  }
})

test_that("formula and data, or x and y, are given and fit", {
  y <- c(0, 1, 1)
  x <- matrix(1:6, 3)
  expect_input_error(density_glm(), "x", "formula")
  expect_input_error(density_glm(am ~ wt, mtcars, x = x, y = y), "x", "formula")
  expect_input_error(density_glm(x, y), "formula", "`x`")
  expect_input_error(density_glm("am ~ wt", mtcars), "formula")
  expect_input_error(density_glm(am ~ wt, mtcars, y = y), "y", "formula")
  expect_input_error(density_glm(am ~ wt, as.matrix(mtcars)), "data", "data frame")
  expect_input_error(density_glm(x = x, y = y, data = mtcars), "data", "NULL")
  expect_input_error(density_glm(x = x, y = y, contrasts = list(a = "contr.sum")), "contrasts", "NULL")
  expect_input_error(density_glm(am ~ nothing_of_this_name, mtcars), "formula", "nothing_of_this_name")
  expect_input_error(density_glm(~wt, mtcars), "formula", "response")
  expect_input_error(density_glm(am ~ 0, mtcars), "formula", "at least one coefficient")
  expect_input_error(density_glm(am ~ wt, mtcars[0, ]), "formula", "at least one observation")
  expect_input_error(density_glm(am ~ wt, mtcars, subset = wt > 100), "formula", "at least one observation")
  expect_input_error(density_glm(am ~ factor(c(rep("a", 32))), mtcars), "formula", "contrasts")
  expect_input_error(density_glm(am ~ log(vs), mtcars, binomial), "formula", "\"log(vs)\" of row Mazda RX4")
  expect_input_error(density_glm(x = 1:3, y = y), "x", "matrix")
  expect_input_error(density_glm(x = matrix("a", 3, 1), y = y), "x")
  expect_input_error(density_glm(x = data.frame(a = c("u", "v", "w")), y = y), "x", "\"a\"")
  expect_input_error(density_glm(x = matrix(0, 3, 0), y = y), "x", "at least one column")
  expect_input_error(density_glm(x = matrix(0, 0, 2), y = numeric()), "x", "at least one observation")
  expect_input_error(density_glm(x = matrix(c(1, Inf, 2)), y = y), "x", "row 2")
  for (bad in list(NULL, 1:2, 1:4, matrix(0, 2, 2), list(1, 2, 3))) {
    expect_input_error(density_glm(x = x, y = bad), "y", "3 rows")
  }
})

test_that("the response suits the family", {
  x <- matrix(c(1, 2, 4))
  at <- function(y, family, ...) density_glm(x = x, y = y, family = family, ...)
  expect_input_error(at(c(0, 1, 2), "binomial"), "response", "row 3 it is 2")
  expect_input_error(at(c(0, -1, 1), "binomial"), "response", "row 2 it is -1")
  expect_input_error(at(c(0, 0.5, 1), "binomial"), "response", "row 2 it is 0.5")
  expect_input_error(at(c(0, 0.5, 1), "binomial", weights = c(1, 3, 1)), "response", "row 2")
  expect_input_error(at(c(0, 0.4, 1), "binomial", weights = c(1, 2.5, 1)), "response", "row 2")
  expect_input_error(at(cbind(c(1, 2, 0), c(0, 1.5, 1)), "binomial"), "response", "row 2 it is c(2, 1.5)")
  expect_input_error(at(cbind(c(1, -2, 0), 1), "binomial"), "response", "row 2")
  expect_input_error(at(matrix(0, 3, 2), "binomial"), "response", "trial")
  expect_input_error(at(matrix(1, 3, 3), "binomial"), "response")
  expect_input_error(at(c("a", "b", "a"), "binomial"), "response", "factor")
  expect_input_error(at(c(0, Inf, 1), "binomial"), "response", "row 2 it is Inf")
  expect_input_error(at(c(0, 1.5, 1), "poisson"), "response", "row 2 it is 1.5")
  expect_input_error(at(c(0, -1, 1), "poisson"), "response", "row 2 it is -1")
  expect_input_error(at(c(0, Inf, 1), "poisson"), "response", "row 2 it is Inf")
  expect_input_error(at(factor(c("a", "b", "a")), "poisson"), "response", "factor")
  expect_input_error(at(matrix(1, 3, 2), "poisson"), "response", "matrix")
  expect_input_error(at(c(0, Inf, 1), "gaussian"), "response", "row 2 it is Inf")
  expect_input_error(at(factor(c("a", "b", "a")), "gaussian"), "response", "factor")
  expect_input_error(at(as.Date(1:3, origin = "1970-01-01"), "gaussian"), "response", "Date")
  condition <- expect_input_error(density_glm(mpg ~ wt, mtcars, poisson), "response", "row Datsun 710 it is 22.8")
  expect_identical(condition$argument, "formula")
})

test_that("weights, offset, sigma and priors are checked", {
  x <- matrix(c(1, 2, 4))
  at <- function(...) density_glm(x = x, y = c(1, 2, 3), ...)
  for (bad in list(c(1, -1, 1), c(1, Inf, 1), c(0, 0, 0), c("1", "1", "1"), 1, 1:2, matrix(1, 3, 2))) {
    expect_input_error(at(weights = bad), "weights")
  }
  expect_input_error(at(weights = c(1, -1, 1)), "weights", "row 2")
  for (bad in list(c(1, Inf, 1), c("1", "1", "1"), 1, 1:2)) {
    expect_input_error(at(offset = bad), "offset")
  }
  for (bad in list(0, -1, NA, NaN, Inf, "1", c(1, 2), TRUE)) {
    expect_input_error(at(sigma = bad), "sigma")
    expect_input_error(at(prior_sigma = bad), "prior_sigma")
  }
  expect_input_error(at(prior_sigma = NULL), "prior_sigma")
  expect_input_error(at(sigma = 1e-308 * 3, offset = c(1e300, 0, 0)), "sigma")
  expect_input_error(at(family = "poisson", sigma = 1), "sigma", "poisson")
  for (bad in list(NA, NaN, Inf, "0", NULL, c(0, 0), numeric(), matrix(0))) {
    expect_input_error(at(prior_mean = bad), "prior_mean")
  }
  for (bad in list(0, -1, NA, NaN, "1", NULL, c(1, 1), numeric(), matrix(1))) {
    expect_input_error(at(prior_sd = bad), "prior_sd")
  }
  for (bad in list(0, -1, NA, NaN, "1", NULL, c(1, 1))) {
    expect_input_error(at(prior_df = bad), "prior_df")
  }
})
