#!/usr/bin/env bash
# Looks at R, C, CUDA and shell files and changes nothing. Says every finding before it fails.
set -uo pipefail
cd "$(dirname "$0")/.."
failed=0

echo "lint: R"
Rscript --vanilla - <<'R' || failed=1
paths <- c("R", "tests", "tools", "inst", "bench", "vignettes")
files <- list.files(paths, pattern = "[.](R|Rmd)$", recursive = TRUE, full.names = TRUE)
files <- grep("^inst/doc/|^vignettes/.*[.]R$", files, invert = TRUE, value = TRUE)
found <- do.call(c, lapply(files, lintr::lint))
for (one in found) {
  cat(sprintf("%s:%d:%d: %s [%s]\n", one$filename, one$line_number, one$column_number, one$message, one$linter))
}
cat(sprintf("%d files, %d findings\n", length(files), length(found)))
quit(status = length(found) > 0)
R

echo "lint: C and CUDA"
# The table is written by a script, one row a segment.
find src bench tools/sanitize \( -name '*.[ch]' -o -name '*.cu' \) ! -name normal_table.h | sort |
  xargs clang-format --dry-run -Werror || failed=1
r_include=$(Rscript --vanilla -e 'cat(R.home("include"))')
for source in src/*.c; do
  ${CC:-cc} -fsyntax-only -std=gnu99 -fopenmp -Wall -Wextra -Wshadow -Wstrict-prototypes -Wno-cast-function-type -Werror -I"$r_include" \
    -DFMC_HAVE_CUDA=0 "$source" || failed=1
done

echo "lint: shell"
# autoconf's own text in configure is full of what checkbashisms takes for bashisms, so there the shell itself has to do.
checkbashisms -p cleanup || failed=1
sh -n configure || failed=1
for script in tools/*.sh tools/sanitize/*.sh .ci/run; do
  bash -n "$script" || failed=1
done

exit "$failed"
