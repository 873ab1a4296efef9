#!/usr/bin/env bash
# Installs what a task needs and this machine lacks, through apt. Quick where nothing is missing; never asks.
#   tools/setup.sh run      R, compilers, the packages that fusedmc imports and those of its example
#   tools/setup.sh test     and the packages that it suggests
#   tools/setup.sh check    and what documentation, linting and R CMD check need
set -euo pipefail
cd "$(dirname "$0")/.."

task=${1:-run}
case $task in
  run | test | check) ;;
  *) echo "usage: tools/setup.sh run|test|check" >&2; exit 2 ;;
esac

# The packages in a field of DESCRIPTION, one a line.
packages_in() {
  awk -v field="$1:" '/^[^ ]/ { on = ($1 == field); sub(/^[^ ]*/, "") } on' DESCRIPTION |
    tr ',' '\n' | sed 's/(.*//; s/[[:space:]]//g' | grep -v -x -E 'R|stats|utils|tools|parallel|' || true
}

missing=()
need_command() { # COMMAND APT-PACKAGE
  command -v "$1" >/dev/null || missing+=("$2")
}

need_packages() { # R packages
  local absent
  if ! command -v Rscript >/dev/null; then
    absent=$*
  else
    absent=$(Rscript --vanilla -e 'p <- commandArgs(TRUE); cat(p[!p %in% rownames(installed.packages())])' "$@")
  fi
  for package in $absent; do
    missing+=("r-cran-$(printf '%s' "$package" | tr '[:upper:]' '[:lower:]')")
  done
}

need_command R r-base-core
need_command cc r-base-dev
need_command make r-base-dev
mapfile -t wanted < <(packages_in Imports)
wanted+=(MASS) # a data set of the example
if [ "$task" != run ]; then
  mapfile -t -O "${#wanted[@]}" wanted < <(packages_in Suggests)
fi
if [ "$task" = check ]; then
  wanted+=(roxygen2 lintr)
  need_command autoconf autoconf
  need_command checkbashisms devscripts
  need_command clang-format clang-format
  need_command pandoc pandoc
  need_command qpdf qpdf
  need_command tidy tidy
  need_command valgrind valgrind
fi
need_packages "${wanted[@]}"

if [ "${#missing[@]}" -eq 0 ]; then
  exit 0
fi
mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
echo "setup: missing for '$task': ${missing[*]}"

if ! command -v apt-get >/dev/null; then
  echo "setup: there is no apt-get here. Install these (R packages by install.packages()) and try again." >&2
  exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! sudo -n true 2>/dev/null; then
    echo "setup: that takes root. Run: sudo apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo -n)
fi
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 "$@" </dev/null; }
apt update
apt install --no-install-recommends "${missing[@]}"
