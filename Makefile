# For work on the package from a checkout. The package itself is built by R CMD INSTALL, which needs none of this.
#   make run        install what is missing, build, run the example
#   make test       install what is missing, build, run the test suite
#   make check      R CMD check of the tarball, without CUDA and with it
#   make lint       linters and formatters, which change nothing
#   make document   NAMESPACE and man/ from the comments in R/
#   make configure  configure from configure.ac and tools/m4
#   make sanitize   the core under the address and undefined-behaviour sanitizers
#   make memcheck   the package under valgrind and gctorture
#   make bench      the benchmarks
#   make clean      remove what was built
# CONFIGURE_ARGS goes to configure: make test CONFIGURE_ARGS=--without-cuda

LIB := $(CURDIR)/.lib
export R_LIBS := $(LIB)$(if $(R_LIBS),:$(R_LIBS))
CONFIGURE_ARGS ?=
JOBS ?= $(shell getconf _NPROCESSORS_ONLN)
SOURCES := DESCRIPTION NAMESPACE configure.ac $(wildcard tools/m4/*.m4) $(shell find R src inst man -type f ! -name '*.o' ! -name '*.so' ! -name Makevars 2>/dev/null)

.PHONY: run test check lint document configure sanitize memcheck bench clean setup-run setup-test setup-check FORCE

run: setup-run $(LIB)/.installed
	Rscript inst/examples/quickstart.R

test: setup-test $(LIB)/.installed
	Rscript tools/test.R $(FILTER)

check: setup-check
	tools/check.sh cpu
	tools/check.sh cuda

lint: setup-check
	tools/lint.sh

document: setup-check
	Rscript -e 'roxygen2::roxygenise(load_code = "source")'

configure:
	autoconf --warnings=all
	rm -rf autom4te.cache configure~

sanitize:
	tools/sanitize/run.sh

memcheck: setup-check $(LIB)/.installed
	tools/memcheck.sh

bench: setup-test $(LIB)/.installed
	Rscript bench/run.R

clean:
	./cleanup
	rm -rf .lib *.Rcheck fusedmc_*.tar.gz tools/sanitize/build

setup-run setup-test setup-check:
	@tools/setup.sh $(@:setup-%=%)

# Installed again when a source or the way to build it has changed. MAKEFLAGS is for the make that R calls.
$(LIB)/.installed: $(SOURCES) $(LIB)/.build-options
	MAKEFLAGS=-j$(JOBS) R CMD INSTALL --library=$(LIB) --configure-args='$(CONFIGURE_ARGS)' .
	@touch $@

BUILD_OPTIONS := $(CONFIGURE_ARGS) $(FUSEDMC_CUDA_ARCH) $(NVCC_CCBIN)
$(LIB)/.build-options: FORCE
	@mkdir -p $(LIB)
	@echo '$(BUILD_OPTIONS)' | cmp -s - $@ || echo '$(BUILD_OPTIONS)' >$@
