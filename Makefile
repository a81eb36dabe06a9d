# Two commands to begin with: `make up` runs a one-host fleet, `make test` proves that this clone works. Go is the only prerequisite.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

GO ?= go
export GO

# The program needs no C, and what the lints have compiled the tests find compiled. Only the race detector is built with cgo.
export CGO_ENABLED := 0

# Packages tested at the same time. Some tests hold real clocks and sockets, and CI has two cores.
PARALLEL ?= 2
TOOLS := $(CURDIR)/bin/tools
CUE_DIRS := schema policies

# In tests no command of git starts another one to see whether the repository, which lives for seconds, is to be repacked.
UNTENDED := GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=maintenance.auto GIT_CONFIG_VALUE_0=false GIT_CONFIG_KEY_1=receive.autogc GIT_CONFIG_VALUE_1=false

# go test would vet what it tests, with a part of the analyses that `make check` runs on everything: some 15 s of CPU in a fresh clone.
UNVETTED := -vet=off

##@ Run

.PHONY: up
up: build ## start a one-host fleet with its state in ./.stado; Ctrl-C ends it, running it again continues
	exec env STADO_HOME=$(CURDIR)/.stado ./bin/stado up

.PHONY: build
build: ## build bin/stado
	$(GO) build -trimpath -o bin/stado ./cmd/stado

##@ Prove

.PHONY: packages
packages: ## install the Debian packages that the tests need, or say which are missing
	.ci/packages

.PHONY: test
test: packages ## run the suite (at most 10 minutes)
	env -u STADO_SOAK $(UNTENDED) $(GO) test $(UNVETTED) -p $(PARALLEL) -timeout 15m ./...

.PHONY: soak
soak: packages ## run what needs repetition: everything once under the race detector, kill loops, fuzzing (at most 35 minutes)
	env -u STADO_SOAK $(UNTENDED) CGO_ENABLED=1 $(GO) test $(UNVETTED) -p $(PARALLEL) -race -shuffle=on -timeout 25m ./...
	files=$$(grep -rl --include='*_test.go' STADO_SOAK .); \
	tests=$$(sed -nE 's/^func (Test[A-Za-z0-9_]*)\(.*/\1/p' $$files | paste -sd '|'); \
	STADO_SOAK=1 $(UNTENDED) $(GO) test -p 1 -count=1 -timeout 25m -run "^($$tests)$$" $$(dirname $$files | sort -u)
	.ci/fuzz 15s

.PHONY: bench
bench: ## run the benchmarks, also beside cue vet, write docs/benchmarks.md, and run the tests named …Allocates… or …Gate… that hold their counts
	measured=$$(grep -rl --include='*_test.go' '^func Benchmark' . | xargs -r dirname | sort -u); \
	[[ -z $$measured ]] || STADO_BENCHMARKS=$(CURDIR)/docs/benchmarks.md $(GO) test -p 1 -timeout 20m -run 'Allocates|Gate' -bench . -benchmem $$measured

##@ Check

.PHONY: tools
tools: ## build the tools of .ci/tools.mod
	GOBIN=$(TOOLS) $(GO) install -modfile=.ci/tools.mod tool
	$(GO) build -modfile=.ci/tools.mod -o $(TOOLS)/housevet ./.ci/vet

.PHONY: check
check: tools ## run the lints, the quick ones first
	$(GO) mod tidy -diff
	unformatted=$$($(TOOLS)/gofumpt -l .); [[ -z $$unformatted ]] || { echo "run make fmt; not formatted:" $$unformatted >&2; exit 1; }
	$(GO) vet ./...
	$(GO) vet -vettool=$(TOOLS)/housevet ./...
	$(TOOLS)/staticcheck -checks all ./...
	$(GO) fix -diff ./...
	$(TOOLS)/cue fmt --check $(addprefix ./,$(addsuffix /...,$(CUE_DIRS))) $$(find examples -name '*.cue')
	for repository in $$(find examples -type d -name cue.mod); do (cd $$repository/.. && echo cue vet $$PWD && $(TOOLS)/cue vet -c ./...); done
	$(GO) test -run '^TestHouse' ./cmd/stado
	dead=$$($(TOOLS)/deadcode -test ./...); [[ -z $$dead ]] || { echo "nothing calls:" >&2; echo "$$dead" >&2; exit 1; }
	$(TOOLS)/actionlint

.PHONY: fmt
fmt: tools ## format Go and CUE
	$(TOOLS)/gofumpt -w .
	$(TOOLS)/cue fmt $(addprefix ./,$(addsuffix /...,$(CUE_DIRS))) $$(find examples -name '*.cue')

##@ Other

.PHONY: clean
clean: ## remove what was built; ./.stado stays
	rm -rf bin

.PHONY: help
help: ## show this list
	@awk 'BEGIN { FS = ":.*## " } /^##@/ { printf "\n%s\n", substr($$0, 5) } /^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
