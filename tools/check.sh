#!/usr/bin/env bash
# Builds the tarball and runs R CMD check --as-cran on it, once for each build named:
#   tools/check.sh cpu cuda
# No error, no warning, and no note but those of allowed_notes. 'cuda' is left out where there is no nvcc.
set -uo pipefail
cd "$(dirname "$0")/.."
top=$PWD

# Checks whose note is expected, and why.
#   installed package size: the kernels for the CPU are there three times, in the CUDA build also for eight kinds of GPU.
allowed_notes='checking installed package size'

# Flags that are no portability trouble: those that this R itself was built with, and the instruction sets of the objects
# that are only called where the processor has them (configure drops what the compiler does not take).
r_flags=$(R CMD config CFLAGS | tr ' ' '\n' | grep '^-[Wm]' | tr '\n' ' ')
simd_flags=$(sed -n "s/^ *fmc_flags='\(-m.*\)'$/\1/p" tools/m4/arithmetic.m4 | tr '\n' ' ')
# One target is enough here: the whole list takes far longer to compile and is built by make test.
export FUSEDMC_CUDA_ARCH=${FUSEDMC_CUDA_ARCH:-90}

work=$(mktemp -d "${TMPDIR:-/tmp}/fusedmc-check.XXXXXX")
cd "$work" || exit 1
# A file, since a site's Renviron would override the environment. No look at the network or the clock there, and no
# failure for a suggested package that is missing.
cat >check.Renviron <<EOT
_R_CHECK_COMPILATION_FLAGS_KNOWN_='$r_flags $simd_flags'
_R_CHECK_CRAN_INCOMING_=false
_R_CHECK_SYSTEM_CLOCK_=false
_R_CHECK_FORCE_SUGGESTS_=false
EOT
export R_CHECK_ENVIRON=$work/check.Renviron
if ! R CMD build "$top" >build.log 2>&1; then
  cat build.log
  echo "check: R CMD build failed" >&2
  exit 1
fi
tarball=$(ls fusedmc_*.tar.gz)
echo "check: built $tarball ($(du -k "$tarball" | cut -f1) KB)"

# Prints how a check ended and says whether that is acceptable.
judge() { # CHECK-LOG
  local status notes
  status=$(grep '^Status: ' "$1") || status='Status: did not come to its end, ERROR'
  notes=$(grep -E '^\* .* NOTE$' "$1" | grep -v -F "$allowed_notes")
  echo "check: $status"
  case $status in
    *ERROR* | *WARNING*) ;;
    *) [ -z "$notes" ] && return 0 ;;
  esac
  cat "$1"
  echo "check: not acceptable: $status ${notes:+($notes)}" >&2
  return 1
}

# Side by side: most of a check goes on one core.
started=
for build in "$@"; do
  case $build in
    cpu) argument=--without-cuda ;;
    cuda)
      argument=--with-cuda
      if ! command -v nvcc >/dev/null && [ ! -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]; then
        echo "check: cuda: skipped, there is no nvcc"
        continue
      fi
      ;;
    *) echo "usage: tools/check.sh [cpu] [cuda]" >&2; exit 2 ;;
  esac
  mkdir "$build"
  R CMD check --as-cran --no-manual --install-args=--configure-args=$argument --output="$build" "$tarball" \
    >"$build/output.log" 2>&1 &
  started="$started $build"
done
wait

failed=0
for build in $started; do
  echo "check: $build"
  if ! judge "$build/fusedmc.Rcheck/00check.log"; then
    tail -n 60 "$build"/fusedmc.Rcheck/tests/*.fail "$build/fusedmc.Rcheck/00install.out" 2>/dev/null
    failed=1
  fi
done

if [ "$failed" -eq 0 ]; then
  rm -rf "$work"
else
  echo "check: logs are in $work" >&2
fi
exit "$failed"
