# Recorded hashes of every output, written by tools/golden.R: a change of any bit on any machine, backend
# or compiler shows here. Rerun tools/golden.R only for a change of bits that is meant, and say so in NEWS.

recorded <- function(long) {
  path <- test_path("golden", if (long) "hashes-long.csv" else "hashes.csv")
  skip_if(!file.exists(path), "no recorded hashes")
  utils::read.csv(path, colClasses = "character")
}

expect_golden <- function(shapes, backend, long = FALSE) {
  expected <- recorded(long)
  actual <- golden_hashes(shapes, backend)
  expect_identical(actual[c("case", "output")], expected[c("case", "output")])
  differs <- actual$hash != expected$hash
  expect_none(paste(actual$case, actual$output)[differs])
}

test_that("the inputs of the recorded cases are the recorded inputs", {
  skip_if_not_installed("digest")
  expected <- recorded(FALSE)
  expect_gt(nrow(expected), 100)
  inputs <- utils::read.csv(test_path("golden", "inputs.csv"), colClasses = "character")
  expect_identical(golden_inputs(), inputs)
})

test_that("the CPU gives the recorded bits", {
  skip_if_not_installed("digest")
  expect_golden(golden_shapes, "cpu")
})

test_that("the GPU gives the recorded bits", {
  skip_if_not_installed("digest")
  skip_without_gpu()
  expect_golden(golden_shapes, "cuda")
})

test_that("the CPU gives the recorded bits of the large case", {
  skip_if_not_installed("digest")
  skip_unless_long()
  expect_golden(golden_long_shapes, "cpu", long = TRUE)
})

test_that("the GPU gives the recorded bits of the large case", {
  skip_if_not_installed("digest")
  skip_without_gpu()
  skip_unless_long()
  expect_golden(golden_long_shapes, "cuda", long = TRUE)
})
