test_that("the log density is the sum", {
  x <- grid_matrix(40, 3, 950)
  a <- density_normal(1, 2)
  b <- density_student_t(3, 1:3)
  c <- density_mvnormal(0, grid_covariance(3, 951))
  for (precision in case_precisions) {
    value <- function(density) log_density(density, x, precision)
    rounded <- function(v) round_to(v, precision)
    expect_same_bits(value(density_product(a)), value(a))
    expect_same_bits(value(density_product(a, b)), rounded(value(a) + value(b)))
    expect_same_bits(value(density_product(a, b, c)), rounded(rounded(value(a) + value(b)) + value(c)))
    expect_same_bits(
      value(density_product(a, density_product(b, c))), rounded(value(a) + rounded(value(b) + value(c)))
    )
  }
})

test_that("where one part is zero the product is", {
  half_line <- density_function(function(x) ifelse(x[, 1] > 0, 0, -Inf))
  density <- density_product(density_normal(0, 1), half_line)
  expect_identical(log_density(density, matrix(c(-1, 1))), c(-Inf, dnorm(1, log = TRUE)))
  out <- mh_step(matrix(0.5, 2000, 1), density, 1, seed = 3)
  expect_true(all(out$x > 0))
})

test_that("parts that are functions of R are evaluated there, the others by the kernels", {
  x <- grid_matrix(30, 2, 952)
  f <- density_function(function(x) -abs(x[, 1] * x[, 2]), n_dim = 2)
  in_c <- density_student_t(5)
  for (precision in case_precisions) {
    f_value <- log_density(f, x, precision)
    expected <- round_to(f_value + log_density(in_c, x, precision), precision)
    expect_same_bits(log_density(density_product(f, in_c), x, precision), expected)
  }
  expect_same_bits(
    mh_step(x, density_product(density_normal(0, 1), f), 0.4, seed = 5)$x,
    mh_step(x, density_function(function(x) log_density(density_normal(0, 1), x) + f$f(x)), 0.4, seed = 5)$x
  )
})

test_that("dims agree or are open", {
  open <- density_normal(0, 1)
  two <- density_normal(1:2, 1)
  expect_identical(density_product(open, open)$n_dim, NA_integer_)
  expect_identical(density_product(open, two, open)$n_dim, 2L)
  expect_input_error(density_product(open, two, density_normal(1:3, 1)), "..3", "`..2` is")
  expect_input_error(log_density(density_product(open, two), matrix(0, 1, 3)), "density", "2 dims")
})

test_that("arguments are checked", {
  expect_input_error(density_product(), "...")
  expect_input_error(density_product(density_normal(0, 1), 3), "..2", "3")
  expect_input_error(density_product(NULL), "..1", "NULL")
})

test_that("nesting has its limit", {
  x <- matrix(c(0.5, -1), 1)
  nest <- function(deep) {
    density <- density_student_t(3)
    for (i in seq_len(deep)) {
      density <- density_product(density_normal(0, 1), density)
    }
    density
  }
  for (deep in 1:7) {
    expected <- log_density(density_student_t(3), x) + deep * log_density(density_normal(0, 1), x)
    expect_equal(log_density(nest(deep), x), expected, tolerance = 1e-14)
  }
  expect_input_error(nest(8), "...", "9 deep")
  # the other way around nothing waits
  density <- density_student_t(3)
  for (i in 1:20) {
    density <- density_product(density, density_normal(0, 1))
  }
  expect_equal(
    log_density(density, x), log_density(density_student_t(3), x) + 20 * log_density(density_normal(0, 1), x),
    tolerance = 1e-14
  )
  mixed <- function(deep) {
    density <- density_tempered(density_student_t(3), 0.5)
    for (i in seq_len(deep)) {
      density <- density_mixture(c(1, 1), components = list(density_normal(0, 1), density))
    }
    density
  }
  expect_true(is.finite(log_density(mixed(7), x)))
  expect_input_error(mixed(8), "components", "9 deep")
})

test_that("it says what it is", {
  density <- density_product(density_normal(0, 1), density_student_t(3))
  expect_s3_class(density, c("fusedmc_density_product", "fusedmc_density"), exact = TRUE)
  expect_output(print(density), "<density> product of 2 parts: normal in any number of dims", fixed = TRUE)
})
