# SPDX-License-Identifier: Apache-2.0
# The two commands of the README are "make run" and "make test".

GO      ?= go
BIN     := bin
SERIES  ?=
ARGS    ?=
TREE    := debian:linux-source-7.3

VERSION := $(shell git describe --always --dirty 2>/dev/null)

export CGO_ENABLED = 0

.PHONY: all build deps deps-test run test test-fast test-e2e test-mutants bench bench-aa bench-slow bench-pair crash-lines kills mutants trust lint clean

all: build

build:
	@mkdir -p $(BIN)
	$(GO) build -trimpath -ldflags='-X main.buildVersion=$(VERSION)' -o $(BIN)/patchcheck ./cmd/patchcheck
	$(GO) build -trimpath -ldflags='-s -w' -o $(BIN)/patchcheck-guest ./cmd/patchcheck-guest

# Says which host packages are missing; installs them when root.
deps: build
	$(BIN)/patchcheck doctor --install

# What only tests need: Chromium from Debian, and axe-core from npm in a cache
# folder. Neither is committed nor needed at run time.
AXE_VERSION := 4.14.1
AXE_DIR     := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/patchcheck-test/axe-core
deps-test:
	@command -v chromium >/dev/null || { \
	  [ "$$(id -u)" = 0 ] || { echo "the page is tested in Chromium: apt-get install chromium"; exit 1; }; \
	  apt-get update -q && apt-get install -y -q --no-install-recommends chromium; }
	@grep -qs '"version": "$(AXE_VERSION)"' $(AXE_DIR)/package.json || { \
	  command -v npm >/dev/null || { \
	    [ "$$(id -u)" = 0 ] || { echo "accessibility is judged by axe-core, which npm brings: install npm, or set PATCHCHECK_AXE to an axe.min.js"; exit 1; }; \
	    apt-get update -q && apt-get install -y -q --no-install-recommends npm; }; \
	  rm -rf $(AXE_DIR) && mkdir -p $(AXE_DIR) && cd $(AXE_DIR) && \
	  npm pack --silent axe-core@$(AXE_VERSION) >/dev/null && tar xzf axe-core-$(AXE_VERSION).tgz --strip-components=1 package/axe.min.js package/package.json package/LICENSE && \
	  rm axe-core-$(AXE_VERSION).tgz; }

run: deps
	$(BIN)/patchcheck run $(ARGS) $(SERIES)

# All tests: the fast ones, then end to end on a real kernel under QEMU.
# Nothing here passes by skipping: a missing tool fails in deps.
test: deps test-fast test-e2e test-mutants

test-fast:
	$(GO) vet ./...
	$(GO) test ./...

# The base kernel is built first, as a user would, so that its progress shows.
test-e2e: build deps-test
	$(BIN)/patchcheck run --build-only --tree $(TREE)
	tree=$$($(BIN)/patchcheck tree --path $(TREE)) && \
	PATCHCHECK_TREE=$$tree $(GO) test -tags integration -count=1 -p 1 -timeout 75m ./...

# Ratios against bare make, a bare guest, a bare boot; speed and memory of parsers.
bench: build
	$(GO) test -tags integration -run '^$$' -bench . -benchtime 1x -p 1 -timeout 60m ./...

# What claims of patchcheck bench rest on: a kernel against itself, AA times,
# must not differ; a delay of DELAY microseconds in each Reply must be found.
AA    ?= 5
DELAY ?= 100
bench-aa: build
	PATCHCHECK_AA=$(AA) $(GO) test -tags integration -run '^TestBenchAA$$' -count=1 -v -timeout 180m ./internal/run

bench-slow: build
	PATCHCHECK_DELAY=$(DELAY) $(GO) test -tags integration -run '^TestBenchSlowReply$$' -count=1 -v -timeout 60m ./internal/run

# Two guests that a socket joins, rxe on virtio-net, measured over SSH alone;
# and a crash of a kernel with debug info, decoded to file and line. Each builds
# a kernel of its own once.
bench-pair: build
	PATCHCHECK_TWO_GUESTS=1 $(GO) test -tags integration -run '^TestBenchTwoGuests$$' -count=1 -v -timeout 120m ./internal/run

crash-lines: build
	PATCHCHECK_DEBUGINFO=1 $(GO) test -tags integration -run '^TestCrashOfAKernelWithDebugInfo$$' -count=1 -v -timeout 120m ./internal/run

# The bank of seeded faults: each must be caught, each harmless one must pass.
# MUTANTS=regexp selects some, MUTANTS_PLANS=debug those of the debug kernel,
# which is built once and takes long.
MUTANTS       ?=
MUTANTS_PLANS ?= default,variants
mutants: build
	$(BIN)/patchcheck run --build-only --tree $(TREE)
	MUTANTS='$(MUTANTS)' MUTANTS_PLANS='$(MUTANTS_PLANS)' \
	$(GO) test -tags mutants -v -count=1 -timeout 180m -run '^TestMutants$$' ./internal/run

# One of each kind, as many as fit into a test run.
SAMPLE := ^(warning-other-file|whole-wqe-words|limit-off-by-one|server-file-cleared|null-on-disconnect|leak-per-reply|harmless-comment)$$
test-mutants:
	$(MAKE) mutants MUTANTS='$(SAMPLE)' MUTANTS_PLANS=default

# What verdicts rest on: every seeded fault is caught, and the clean series
# passes many times over without one flake. Hours.
REPEAT ?= 20
trust:
	$(MAKE) mutants MUTANTS_PLANS=default,variants,debug
	$(BIN)/patchcheck run --tree $(TREE) --fresh --repeat $(REPEAT)

# Kills the real patchcheck with SIGKILL at random points of real runs, resumes
# them and compares; "make test" does three of these.
KILLS ?= 20
kills: build
	$(BIN)/patchcheck run --build-only --tree $(TREE)
	PATCHCHECK_KILLS=$(KILLS) $(GO) test -tags integration -count=1 -v -timeout 240m -run '^TestKillTheRealOne$$' ./internal/run

lint:
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "run gofmt -w on these"; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags integration,mutants ./...

clean:
	rm -rf $(BIN)
