# Doorbuster. `make help` lists the targets; ARGS= reaches the program behind one.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := .bin
GO ?= go
# The transpiled SQLite engine is 30 times slower under the race detector and is
# not ours to debug; everything of ours is instrumented. Only that one package is
# left out: one that shares generic code with ours (sync.Map, slices) would lend
# the linker copies that the detector cannot see into, and false races with them.
RACE := -race -gcflags='modernc.org/sqlite/lib=-race=false'
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X github.com/doorbuster/doorbuster/internal/cli.version=$(VERSION)
FUZZTIME ?= 30s
SOAKTIME ?= 600
ARGS ?=

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Without -buildvcs=false Go refuses a checkout that belongs to another user, as
# in a container; the version comes by LDFLAGS.
.PHONY: build
build: ## Build the binary into .bin/doorbuster.
	@mkdir -p $(BIN)
	@CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o $(BIN)/doorbuster ./cmd/doorbuster

.PHONY: run
run: build ## Serve the embedded default; ARGS= goes to doorbuster serve.
	@$(BIN)/doorbuster serve $(ARGS)

.PHONY: demo
demo: build ## Run a real sale with a real crowd and prove it; ARGS= goes to doorbuster demo.
	@$(BIN)/doorbuster demo $(ARGS)

.PHONY: lab
lab: build ## Show the accident and the cure: one crowd, every way to sell; ARGS= goes to doorbuster lab.
	@$(BIN)/doorbuster lab $(ARGS)

.PHONY: setup
setup: ## Install what the tests need and the machine lacks (Debian packages).
	@scripts/setup.sh

# The cases are crowds that call the binary, which is built without the race
# detector, as users run it: the detector would look at nothing but the crowd, and
# slow it down. The simulation leads 100,000 lives; the detector sees a few of them.
CROWDS := ./internal/cases ./internal/lab/sim ./internal/lab/contest
# Vetting is the linter's.
TESTS := -timeout 12m -vet=off
# Tests that wait for servers leave a core idle, which is one package more.
PACKAGES := -p $(shell expr $$(nproc) + 1)
# What takes longest begins first, so that nothing long is left alone at the end.
LONGEST := ./internal/cli ./lock/redislock ./internal/ledger/pgledger ./internal/ledger/sqliteledger
.PHONY: test
test: setup ## Run every test, with the race detector on our code.
	@mkdir -p $(BIN)/testenv
	@CGO_ENABLED=0 $(GO) build -buildvcs=false -o $(BIN)/testenv/doorbuster ./cmd/doorbuster
	TESTENV_BINARY=$(CURDIR)/$(BIN)/testenv/doorbuster $(GO) test $(RACE) $(TESTS) $(PACKAGES) $(ARGS) $(LONGEST) $$($(GO) list ./... | grep -Ev '/internal/(cases|lab/contest)$$')
	TESTENV_BINARY=$(CURDIR)/$(BIN)/testenv/doorbuster $(GO) test $(TESTS) -p 3 -parallel 4 $(ARGS) $(CROWDS)

.PHONY: lint
lint: $(BIN)/golangci-lint ## Check style, layers and formatting.
	$(BIN)/golangci-lint run --allow-parallel-runners ./...
	@scripts/check-tree.sh

.PHONY: fmt
fmt: $(BIN)/golangci-lint ## Format the code.
	$(BIN)/golangci-lint fmt ./...

# The linter's version is pinned in tools/go.mod, apart from the product's modules.
$(BIN)/golangci-lint: tools/go.mod tools/go.sum
	@mkdir -p $(BIN)
	cd tools && $(GO) build -o ../$(BIN)/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: bench
bench: ## Run the benchmarks; prints one RATIO line for each goal.
	@scripts/bench.sh '$(ARGS)'

.PHONY: fuzz
fuzz: ## Fuzz every target for FUZZTIME (30s).
	@scripts/fuzz.sh $(FUZZTIME)

.PHONY: soak
soak: ## A million simulated lives, then random lives and crash tests for SOAKTIME seconds (600).
	@scripts/soak.sh $(SOAKTIME)

.PHONY: generate
generate: build ## Write the generated pages of docs/.
	@scripts/generate.sh

.PHONY: verify
verify: generate ## Fail if a generated file is not what the code says.
	git diff --exit-code -- docs

.PHONY: clean
clean: ## Remove what the other targets built.
	rm -rf $(BIN)
