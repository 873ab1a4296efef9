#!/usr/bin/env bash
# Runs tests/memcheck on the installed package (make's .lib) under valgrind, then with a garbage collection at every few
# allocations. Both look for what an ordinary run may survive: a stray read, a leak, an object left unprotected.
set -uo pipefail
cd "$(dirname "$0")/.."
export R_LIBS=$PWD/.lib${R_LIBS:+:$R_LIBS}
failed=0

for script in tests/memcheck/*.R; do
  echo "memcheck: $script under valgrind"
  R -d 'valgrind --leak-check=full --error-exitcode=3 --quiet' --vanilla --no-echo -f "$script" || failed=1
  echo "memcheck: $script under gctorture"
  case $script in
    */shapes.R) every=60 ;; # model frames allocate much
    *) every=3 ;;
  esac
  R --vanilla --no-echo -f "$script" --args gctorture "$every" || failed=1
done
exit "$failed"
