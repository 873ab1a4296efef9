library(testthat)
library(fusedmc)

test_check("fusedmc")
