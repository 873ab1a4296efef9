# Runs the test suite against the installed package and counts expectations. Closes with one line,
# "N passed, N failed, N skipped", and a nonzero status where anything failed or nothing ran.
# Arguments, if any, are a filter on the names of the test files: Rscript tools/test.R mh_step

args <- commandArgs(TRUE)
Sys.setenv(NOT_CRAN = "true")
results <- as.data.frame(testthat::test_dir(
  "tests/testthat",
  package = "fusedmc",
  load_package = "installed",
  filter = if (length(args)) args[[1]],
  reporter = testthat::CheckReporter$new(),
  stop_on_failure = FALSE
))

passed <- sum(results$passed)
failed <- sum(results$failed) + sum(results$error)
skipped <- sum(results$skipped)
cat(sprintf("\n%d passed, %d failed, %d skipped\n", passed, failed, skipped))
if (failed > 0 || passed == 0) {
  quit(status = 1)
}
