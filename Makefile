# The way in. `make` alone lists the targets; README.md tells which two to type first.
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 20
CLANG_PACKAGES = clang-16 clang-format clang-tidy-16 libclang-rt-16-dev
SOURCES = $(shell git ls-files '*.cc' '*.h')
# A build that has no folder yet is one without tests, until tests are asked for; what goes elsewhere has all PTX levels.
FRESH = $(if $(wildcard build/release/CMakeCache.txt),,-DBUILD_TESTING=OFF)
CONFIGURE = $(FRESH)
TESTED = -DBUILD_TESTING=ON -DPARTITA_PTX_LEVELS=all

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 12

demo: packages  ## plan, judge and simulate a fleet, and explain every step
	@tools/get_onnxruntime >build/onnxruntime.log & $(MAKE) --no-print-directory program \
	  CONFIGURE='$(FRESH) $(FRESH:%OFF=-DPARTITA_PTX_LEVELS=native)'; status=$$?; wait; exit $$status
	build/release/partita demo
	@cat build/onnxruntime.log
	build/release/partita demo serve || test $$? -eq 1  # 1: too busy a machine for its objectives; it has said so
	build/release/partita agent --simulate 1 --pace 8 --seed 3 --services data/scenarios/agent.yaml --profiles data/profiles/a100-80gb.json --listen 127.0.0.1:0
	@echo; echo 'A CUDA program on a machine without a GPU, and one with a missing barrier under --check (exit status 1: it is wrong)'
	build/release/partita remote run -- build/release/remote/programs/hotspot
	build/release/partita remote run --check -- build/release/remote/programs/faulty race || test $$? -eq 1

test: test_packages  ## every test
	tools/run_tests release

sanitize: test_packages  ## the tests under address, undefined-behaviour and thread sanitizers
	tools/run_tests sanitize

program: packages
	cmake --preset release $(CONFIGURE) >build/release.configure.log 2>&1 || { cat build/release.configure.log; exit 1; }
	cmake --build --preset release --target partita partita-remote cudart_shim_12 cudart_shim_13 cuda_shim audit_shim \
	  cuda_program_hotspot cuda_program_faulty

lab: program  ## the research tools: masks, kernels, graphs, probes, heat
	cmake --build --preset release --target partita-lab

build: CONFIGURE = $(FRESH) -DPARTITA_PTX_LEVELS=all
build: program  ## the program and its libraries, at build/release
	cmake --build --preset release --target partita-lab nvidia_ml_sim partita_library lanes_hip shims

plain: test_packages  ## every source compiled by itself: does each include what it uses?
	cmake --preset plain
	cmake --build --preset plain --target all

bench: test_packages  ## build and run the benchmarks
	cmake --preset release $(TESTED)
	cmake --build --preset release --target benches
	for program in build/release/bench/*_bench; do $$program || exit 1; done

fuzz:  ## run every fuzz target for FUZZ_SECONDS (20)
	tools/install_packages $(CLANG_PACKAGES)
	tools/run_fuzz $(FUZZ_SECONDS)

mutants: test_packages  ## do the tests notice planted faults? (MODULES="base exec": those alone)
	nice tools/mutants $(MODULES)

format:  ## clang-format every tracked source
	tools/install_packages $(CLANG_PACKAGES)
	clang-format -i $(SOURCES)

tidy: test_packages  ## clang-tidy with the short list of .clang-tidy, where every finding is an error
	tools/install_packages $(CLANG_PACKAGES)
	cmake --preset plain
	run-clang-tidy-16 -quiet -p build/plain '/(node|cuda|lab|apps)/.*(?<!_test)\.cc$$'

install: build  ## program, data, completions and man page under PREFIX (/usr/local)
	cmake --install build/release --prefix $(PREFIX)

deb: build  ## a Debian package of the above at build/partita_VERSION_ARCH.deb
	python3 tools/make_deb.py build/release --output build

clean:  ## remove what the targets above built
	rm -rf build/release build/plain build/dev build/tsan build/fuzz build/npm build/mutants

packages:
	@mkdir -p build
	@tools/install_packages $$(cat packages.txt)

test_packages:
	@mkdir -p build
	@tools/install_packages $$(cat packages.txt packages_tests.txt)

.PHONY: help demo program lab test sanitize build plain bench fuzz mutants format tidy install deb clean packages test_packages
