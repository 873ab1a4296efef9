#!/usr/bin/env bash
# Builds the CPU backend and core.c, without R, under the address and undefined-behaviour sanitizers, and runs them.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=tools/sanitize/build
mkdir -p "$build"

cc=${CC:-cc}
flags=(-std=gnu99 -O2 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
  -ffp-contract=off -fno-math-errno -fno-trapping-math -fopenmp -Wall -Wextra -Isrc -DFMC_HAVE_CUDA=0)
avx2=()
avx512=()
if [ "$(uname -m)" = x86_64 ]; then
  flags+=(-DFMC_HAVE_AVX2=1 -DFMC_HAVE_AVX512=1)
  avx2=(-mavx2 -mfma)
  avx512=(-mavx2 -mfma -mavx512f -mavx512dq -mavx512bw -mavx512vl)
fi

objects=()
compilers=()
for source in src/cpu_*.c src/backend_cpu*.c src/backend_none.c src/weighted.c tools/sanitize/core.c; do
  object=$build/$(basename "$source" .c).o
  case $source in
    *_avx2.c) extra=("${avx2[@]}") ;;
    *_avx512.c) extra=("${avx512[@]}") ;;
    *) extra=() ;;
  esac
  "$cc" "${flags[@]}" "${extra[@]}" -c "$source" -o "$object" &
  compilers+=($!)
  objects+=("$object")
done
for compiler in "${compilers[@]}"; do
  wait "$compiler"
done
"$cc" "${flags[@]}" "${objects[@]}" -lm -o "$build/core"
OMP_NUM_THREADS=2 UBSAN_OPTIONS=print_stacktrace=1 "$build/core"
