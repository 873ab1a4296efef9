# log_density() itself; what it gives for each density is in the tests of the densities.

test_that("names, shapes and kinds of points", {
  x <- matrix(c(0, 1, 2, 3), 2, dimnames = list(c("a", "b"), NULL))
  expect_identical(names(log_density(density_normal(), x)), c("a", "b"))
  expect_equal(unname(log_density(density_normal(), x)), rowSums(dnorm(x, log = TRUE)), ignore_attr = TRUE)
  expect_identical(log_density(density_normal(), as.data.frame(unname(x))), unname(log_density(density_normal(), x)))
  whole <- matrix(c(1, 2, 3, 4), 2)
  expect_identical(log_density(density_normal(), matrix(1:4, 2)), log_density(density_normal(), whole))
  expect_identical(log_density(density_normal(), matrix(0, 0, 3)), numeric())
})

test_that("points that are not finite get what the formula gives", {
  out <- log_density(density_normal(), matrix(c(0, NaN, NA, Inf, -Inf)))
  expect_equal(out[1], dnorm(0, log = TRUE))
  expect_true(all(is.na(out[2:3])))
  expect_identical(out[4:5], c(-Inf, -Inf))
})

test_that("every size has the bits of one row at a time", {
  density <- case_target("mixture3", 7)$density
  for (precision in case_precisions) {
    x <- grid_matrix(100, 7, 12)
    one_by_one <- vapply(1:100, function(i) log_density(density, x[i, , drop = FALSE], precision = precision), 0)
    for (n in c(1, 31, 32, 33, 64, 100)) {
      expect_same_bits(log_density(density, x[1:n, , drop = FALSE], precision = precision), one_by_one[1:n])
    }
  }
})

test_that("wrong input", {
  expect_input_error(log_density(1, matrix(0)), "density")
  expect_input_error(log_density(density_normal(), 0), "x", "matrix(x, nrow = 1)")
  expect_input_error(log_density(density_normal(), matrix("a")), "x")
  expect_input_error(log_density(density_normal(), matrix(0, 2, 0)), "x")
  expect_input_error(log_density(density_normal(c(0, 0)), matrix(0, 2, 3)), "density", "3 dims")
  expect_input_error(log_density(density_normal(), matrix(0), precision = "half"), "precision")
  expect_input_error(log_density(density_normal(), matrix(0), backend = "tpu"), "backend")
  expect_input_error(log_density(density_normal(1e300), matrix(0), precision = "single"), "density", "3.4e38")
})
