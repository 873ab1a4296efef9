# Writes the recorded data of the tests. Run from the package root, with the package installed:
#   Rscript tools/golden.R [--long]
# tests/testthat/golden/hashes.csv       every output of the cases of helper-golden.R, on the CPU
# tests/testthat/golden/hashes-long.csv  likewise for the large case, with --long
# tests/testthat/golden/inputs.csv       the inputs of those cases
# tests/testthat/fixtures/normal_table.txt  the float coefficients of the oracle's normals

suppressPackageStartupMessages(library(fusedmc))
for (helper in c("oracle", "oracle-model", "cases", "golden")) {
  source(file.path("tests", "testthat", paste0("helper-", helper, ".R")), chdir = TRUE)
}
home <- file.path("tests", "testthat")
for (folder in c("golden", "fixtures")) {
  dir.create(file.path(home, folder), showWarnings = FALSE)
}

write_rows <- function(rows, name) {
  connection <- file(file.path(home, "golden", name), "wb")
  on.exit(close(connection))
  utils::write.csv(rows, connection, row.names = FALSE, eol = "\n")
}

coefficients <- matrix(sprintf("%a", f32(oracle_normal_table())), ncol = 4)
connection <- file(file.path(home, "fixtures", "normal_table.txt"), "wb")
writeLines(c(
  "# Written by tools/golden.R from oracle_normal_table(): 528 rows c0 c1 c2 c3, rounded to float.",
  apply(coefficients, 1, paste, collapse = " ")
), connection)
close(connection)

write_rows(golden_inputs(), "inputs.csv")
write_rows(golden_hashes(golden_shapes, "cpu"), "hashes.csv")
if ("--long" %in% commandArgs(trailingOnly = TRUE)) {
  write_rows(golden_hashes(golden_long_shapes, "cpu"), "hashes-long.csv")
}
