# Needs Go and make. What else a target needs it builds from tools/ or installs
# by itself; only the race detector wants a C compiler (make cc-check says so).
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# The targets share the build cache, the cores and the work tree. verify sets TOGETHER
# for those of which two at once are faster.
ifndef TOGETHER
.NOTPARALLEL:
endif

GO ?= go
# For all that compiles, so that it shares the cache: the tests' programs, the linter,
# and what test/contributing compiles of a copy of the tree in another folder.
export GOFLAGS := $(GOFLAGS) -trimpath
LINT := bin/tools/golangci-lint
VULN := bin/tools/govulncheck

# Limits, not expectations: a test binary that is still running then has hung.
TEST_TIMEOUT ?= 20m
RACE_TIMEOUT ?= 40m

# make lint vets every package, with all that go vet looks at.
UNVETTED := -vet=off

# Tests wait a good part of their time, for processes and for PostgreSQL. Few processors
# are kept busy by two packages more at once than there are of them.
AT_ONCE := $(shell n=$$(getconf _NPROCESSORS_ONLN); test "$$n" -gt 6 || echo "-p $$((n + 2))")

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

##@ Work

# exec: the service takes make's place in the shell, so that Ctrl-C and SIGTERM
# reach it and make waits until it has stopped.
.PHONY: run
run: build ## build everything and run the service; Ctrl-C stops it
	@exec bin/svc

.PHONY: build
build: ## build every program into bin/
	$(GO) build -o bin/ ./cmd/...

# Whoever has the key can sign what every runner installs.
RELEASES ?= .svc/releases
RELEASE_KEY ?= .svc/release.key
PLATFORMS := linux/amd64 linux/arm64 darwin/arm64

.PHONY: release
release: ## build, pack and sign the releases of svc-runner
	for p in $(PLATFORMS); do CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} \
	$(GO) build -ldflags='-s -w' -o bin/release/$$p/svc-runner ./cmd/svc-runner; done
	$(GO) run ./cmd/svc-release -dir $(RELEASES) -key $(RELEASE_KEY) $(foreach p,$(PLATFORMS),$(p)=bin/release/$(p)/svc-runner)

# The longest, most of which is waiting, begin first: they would otherwise be what all
# else has ended before.
LONGEST := ./test/run ./test/api ./projections/fold ./farm/dispatch

.PHONY: test
test: bubblewrap-check ## run the tests; they find or install PostgreSQL themselves
	$(GO) test $(UNVETTED) $(AT_ONCE) -timeout $(TEST_TIMEOUT) $(LONGEST) ./...

# Not where the detector finds nothing: what PostgreSQL does (test/plans), programs and
# packages that do one thing after the other or start processes, and what the tests of
# http/rest and test/api call from many sides at once. make chaos has it in test/run.
SEQUENTIAL := aggregates cmd/svc cmd/svc-codehost cmd/svc-db cmd/svc-engine cmd/svc-gateway cmd/svc-release config \
  dev/pgserver dev/seed engine engine/client events farm/certificate farm/runner/mask farm/wire fault \
  http/middleware http/reply http/router migrations \
  test/contributing test/documents test/installer test/leak test/pgtest test/plans test/run \
  ui/asset ui/audit ui/farm ui/insights ui/kit ui/members ui/needs ui/runs ui/search ui/styleguide

.PHONY: race
race: cc-check bubblewrap-check ## run the tests under the race detector
	$(GO) test -race $(UNVETTED) $(AT_ONCE) -timeout $(RACE_TIMEOUT) $(filter-out ./test/run,$(LONGEST)) \
	$$($(GO) list ./... | grep -vxF $(SEQUENTIAL:%=-e svc/%))

.PHONY: test-clients
test-clients: build node-check ## lint the API's description and run clients made from it
	cd test/clients && npm ci --silent --fetch-retries=5 && node run.mjs

.PHONY: test-browser
test-browser: build node-check chromium-check ## drive the web app in Chromium, and sign-in with Better Auth's client
	cd test/browser && npm ci --silent --fetch-retries=5 && \
	seeded=$$(mktemp -d) && trap 'rm -rf "$$seeded"' EXIT && node seed.mjs "$$seeded" && \
	SVC_SEEDED=$$seeded node --test --test-reporter=dot --test-concurrency=3

.PHONY: pictures
pictures: build node-check chromium-check ## take the pictures of the README from the running product
	cd test/browser && npm ci --silent --fetch-retries=5 && node pictures.mjs

.PHONY: keep-pictures
keep-pictures: build node-check chromium-check ## keep pictures of pages anew, for test-browser to compare them with
	cd test/browser && npm ci --silent --fetch-retries=5 && SVC_KEEP_PICTURES=1 node --test looks.test.js

.PHONY: lighthouse
lighthouse: build node-check chromium-check ## hold the pages of the web app against Lighthouse; takes minutes
	cd test/lighthouse && npm ci --silent --fetch-retries=5 && node run.mjs

.PHONY: bench
bench: build ## compare speeds with what could be had at least; takes minutes
	$(GO) run ./test/bench

# Checks come after the faults: all of it has ten minutes.
CHAOS_SECONDS ?= 300

.PHONY: chaos
chaos: cc-check bubblewrap-check ## break everything for CHAOS_SECONDS, then see that nothing was lost
	SVC_CHAOS_SECONDS=$(CHAOS_SECONDS) $(GO) test -race -count=1 -timeout 10m -v -run TestNothingAcknowledgedIsEverLost ./test/run
	SVC_CHAOS_SECONDS=$(CHAOS_SECONDS) $(GO) test -count=1 -timeout 10m -v -run TestJobsEndOnceThoughProgramsAreKilled ./test/run
	SVC_CHAOS_SECONDS=$(CHAOS_SECONDS) $(GO) test -count=1 -timeout 10m -v -run TestEveryJobEndsOnce ./farm/dispatch

# The programs under test are built by the test itself, which Go's cache of
# results does not know.
.PHONY: test-scale
test-scale: scale-check ## run several services behind PgBouncer, and with a streaming replica
	$(GO) test -count=1 -timeout $(TEST_TIMEOUT) -tags scale -run 'TestBehindPgBouncer|TestReadReplica' ./test/api

.PHONY: cover
cover: bubblewrap-check ## run the tests and write bin/cover.html
	@mkdir -p bin
	$(GO) test -timeout $(TEST_TIMEOUT) -coverpkg=./... -coverprofile=bin/cover.out ./...
	$(GO) tool cover -html=bin/cover.out -o bin/cover.html
	$(GO) tool cover -func=bin/cover.out | tail -n 1

.PHONY: fmt
fmt: ## format the Go files
	gofmt -w $(GO_DIRS)

.PHONY: generate
generate: ## write the generated files anew
	$(GO) generate ./...

.PHONY: lint
lint: $(LINT) ## run golangci-lint, the dependency rule among it
	$(LINT) run ./...

.PHONY: verify
verify: fmt-check lint tidy-check generate-check race vuln build scale-check node-check ## all that a change must pass
	$(MAKE) -j2 --output-sync=target TOGETHER=1 test-scale test-clients # each keeps one core busy
	$(MAKE) test-browser
	@echo 'verify: ok'

.PHONY: clean
clean: ## remove bin/ and the tests' cached results
	rm -rf bin
	$(GO) clean -testcache

##@ Parts of verify

# Directories of Go files; .svc and other folders of data are none of them.
GO_DIRS = $$($(GO) list -f '{{.Dir}}' ./...)

.PHONY: fmt-check
fmt-check:
	@unformatted=$$(gofmt -l $(GO_DIRS) | sort -u); \
	test -z "$$unformatted" || { echo "not formatted (make fmt):"; echo "$$unformatted"; exit 1; }

.PHONY: tidy-check
tidy-check:
	$(GO) mod tidy -diff

.PHONY: generate-check
generate-check:
	GO=$(GO) tools/generate-check

.PHONY: vuln
vuln:
	MAKE=$(MAKE) tools/vuln $(VULN) ./...

.PHONY: cc-check
cc-check:
	@set -- $$($(GO) env CC); command -v "$$1" >/dev/null || \
	{ echo "the race detector needs a C compiler: apt-get install gcc libc6-dev"; exit 1; }

# The tests of sandboxes fail without it.
.PHONY: bubblewrap-check
bubblewrap-check:
	@test "$$(uname -s)" != Linux || command -v bwrap >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -qy -o Acquire::Retries=5 install --no-install-recommends bubblewrap; } || \
	{ echo "the tests of sandboxes need bubblewrap 0.8 or newer: apt-get install bubblewrap"; exit 1; }

# Node is only for checks from outside: clients, browsers.
.PHONY: node-check
node-check:
	@command -v npm >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -qy -o Acquire::Retries=5 install --no-install-recommends nodejs npm; } || \
	{ echo "this needs Node.js 20 or newer with npm"; exit 1; }

.PHONY: chromium-check
chromium-check:
	@test -x "$${CHROMIUM:-/usr/bin/chromium-headless-shell}" || test -z "$$CHROMIUM" -a -x /usr/bin/chromium || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -qy -o Acquire::Retries=5 install --no-install-recommends chromium-headless-shell; } || \
	{ echo "this needs Chromium: set CHROMIUM to its path"; exit 1; }

.PHONY: scale-check
scale-check:
	@{ command -v pgbouncer && command -v pg_basebackup; } >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -qy -o Acquire::Retries=5 install --no-install-recommends pgbouncer postgresql-client; } || \
	{ echo "this needs PgBouncer, and pg_basebackup of the PostgreSQL that the tests use"; exit 1; }

# The tools are pinned in tools/go.mod and built from source, so that they come
# through the same module proxy and checksums as everything else.
$(LINT): tools/build-lint tools/go.mod tools/go.sum .golangci.yml
	@mkdir -p $(@D)
	GO=$(GO) tools/build-lint $@

$(VULN): tools/go.mod tools/go.sum
	$(GO) build -C tools -ldflags='-s -w' -o ../$@ golang.org/x/vuln/cmd/govulncheck
	@touch $@
