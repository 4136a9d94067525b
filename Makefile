# Needs Go and make. Targets build or install everything else.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Targets run one at a time, because they share the build cache, the cores and the work
# tree. verify sets TOGETHER for those that are faster in parallel.
ifndef TOGETHER
.NOTPARALLEL:
endif

GO ?= go
# The same flags for everything that is compiled, so that it shares the build cache:
# programs that tests build, the linter, the copy of the tree in test/contributing, and the
# generators, which go run starts because go tool does not take them.
# The compiler collects its garbage only above 1 GiB, which saves a tenth of its time, and writes no
# information for debuggers, which saves an eighth: build programs to be debugged with go build alone.
export GOFLAGS := $(GOFLAGS) -trimpath "-toolexec=env GOGC=off GOMEMLIMIT=1GiB" -ldflags=-w -gcflags=all=-dwarf=false
LINT := bin/tools/golangci-lint
VULN := bin/tools/govulncheck

# After these times a test binary is assumed to hang.
TEST_TIMEOUT ?= 20m
RACE_TIMEOUT ?= 40m

# Every go test has -count=1, because tests build the programs that they test, which Go's
# cache of test results does not take into account.

# make lint runs all checks of go vet.
UNVETTED := -vet=off

# Tests often wait for processes and PostgreSQL, so more packages are tested at once than
# there are processors, most of them without the race detector (see test).
AT_ONCE := -p $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
RACED_AT_ONCE := -p $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) / 2 + 1)))

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

##@ Work

# exec replaces the shell by the service, so that it receives Ctrl-C and SIGTERM, and
# make waits until it has stopped.
.PHONY: run
run: postgres-check build ## build everything and run the service; Ctrl-C stops it
	@exec bin/svc

.PHONY: build
build: ## build every program into bin/
	$(GO) build -o bin/ ./cmd/...

# The key signs releases that all runners install: keep it secret.
RELEASES ?= .svc/releases
RELEASE_KEY ?= .svc/release.key
# Development builds the same version many times.
REPLACE ?= $(if $(filter .svc/releases,$(RELEASES)),-replace)
PLATFORMS := linux/amd64 linux/arm64 darwin/arm64

.PHONY: release
release: ## build, pack and sign the releases of svc-runner
	for p in $(PLATFORMS); do CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} \
	$(GO) build -ldflags='-s -w' -o bin/release/$$p/svc-runner ./cmd/svc-runner; done
	$(GO) run ./cmd/svc-release $(REPLACE) -dir $(RELEASES) -key $(RELEASE_KEY) $(foreach p,$(PLATFORMS),$(p)=bin/release/$(p)/svc-runner)

# Packages that are not tested under the race detector, because it finds nothing in them:
# they have no concurrency of their own, start processes, test PostgreSQL (projections,
# test/plans), or are called concurrently by the tests of packages that are: test/api (which
# starts svc-rest with the detector), farm/dispatch, farm/runner and integrity. make chaos runs a
# test of test/run under it, and make stress all packages whose tests depend on timing.
SEQUENTIAL := aggregates aggregates/farm atomicfile cmd/internal/program cmd/svc cmd/svc-codehost cmd/svc-db cmd/svc-engine cmd/svc-gateway \
  cmd/svc-release cmd/svc-runner cmd/svc-ui commands commands/bearer commands/work config credentials \
  deletion dev/codehost/bare dev/pgserver dev/seed engine/codehost engine/estimate engine/guardrail engine/policy events events/store \
  farm/artifacts farm/certificate farm/jobinput farm/runner/mask farm/secrets farm/wire fault filelock \
  http/auth http/fair http/limit http/middleware http/openapi http/reply http/rest http/rest/audit http/rest/door \
  http/rest/farm http/rest/jobs http/rest/people http/rest/runs http/router input input/markdown loop/outcome \
  migrations projections projections/auditlog projections/farmviews projections/runviews proof sessions \
  test/agents test/bench test/contributing test/documents test/installer test/leak test/pgtest test/plans test/run test/tools \
  ui ui/account ui/asset ui/audit ui/backlog ui/dashboard ui/farm ui/insights ui/jobs ui/kit ui/members ui/needs ui/repos ui/runs \
  ui/search ui/serviceaccounts ui/settings ui/signin ui/styleguide ui/workspaces

# Packages that are tested in both ways: under the race detector without what does one thing at a
# time (build tag !race).
BOTH := farm/gateway projections/fold projections/rebuild test/api

# The longest packages are tested first, since they mostly wait. test/contributing and test/plans
# do one thing after the other, and would run alone at the end.
LONGEST := ./test/run ./test/contributing ./test/api ./projections/rebuild ./projections/fold ./test/plans
LONGEST_RACED := ./farm/runner ./farm/dispatch ./integrity ./test/api ./projections/rebuild ./projections/fold ./events/bus

# Tests make much garbage and keep little: with Go's default of 100, an eighth of their time would go into collection.
test-sequential test-raced: export GOGC := 400

# Both ways run at once, so that one keeps the processors busy while the other waits.
.PHONY: test
test: cc-check bubblewrap-check jq-check postgres-check ## run the tests; they find or install PostgreSQL themselves
	$(GO) run -exec true github.com/nats-io/nats-server/v2 # builds it once, before several tests would at the same time
	tools/in-memory $(MAKE) -j2 TOGETHER=1 test-sequential test-raced

.PHONY: test-sequential
test-sequential:
	$(GO) test -count=1 $(UNVETTED) $(AT_ONCE) -timeout $(TEST_TIMEOUT) $(LONGEST) $(BOTH:%=./%) $(SEQUENTIAL:%=./%)

.PHONY: test-raced
test-raced:
	$(GO) test -count=1 -race $(UNVETTED) $(RACED_AT_ONCE) -timeout $(RACE_TIMEOUT) $(LONGEST_RACED) \
	$$($(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... | grep -vxF $(SEQUENTIAL:%=-e svc/%))

.PHONY: test-clients
test-clients: build postgres-check node-check ## lint the API's description, run clients generated from it, and check the code host
	cd test/clients && npm ci --silent --fetch-retries=5 && node codehost.mjs && node run.mjs

AGENTS := @anthropic-ai/claude-code@2.1.332 @openai/codex@0.171.0

.PHONY: agents
agents: jq-check node-check ## run the examples of implementers with real agents and a model server on this machine; takes 1 GB
	dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && npm install --silent --no-audit --no-fund --prefix "$$dir" $(AGENTS) && \
	SVC_AGENTS="$$dir/node_modules/.bin" $(GO) test -count=1 $(UNVETTED) -tags agents -v -run TestRealAgents ./test/agents

.PHONY: test-browser
test-browser: build postgres-check node-check chromium-check ## drive the web app in Chromium, and sign-in with Better Auth's client
	cd test/browser && npm ci --silent --fetch-retries=5 && \
	seeded=$$(mktemp -d) && trap 'rm -rf "$$seeded"' EXIT && node seed.mjs "$$seeded" && \
	SVC_SEEDED=$$seeded node --test --test-reporter=dot --test-concurrency=3

.PHONY: pictures
pictures: build postgres-check node-check chromium-check ## take the pictures of the README from the running product
	cd test/browser && npm ci --silent --fetch-retries=5 && node pictures.mjs

.PHONY: keep-pictures
keep-pictures: build postgres-check node-check chromium-check ## take new pictures of pages, with which test-browser compares them
	cd test/browser && npm ci --silent --fetch-retries=5 && SVC_KEEP_PICTURES=1 node --test looks.test.js

.PHONY: lighthouse
lighthouse: build postgres-check node-check chromium-check ## run Lighthouse on the pages of the web app; takes minutes
	cd test/lighthouse && npm ci --silent --fetch-retries=5 && node run.mjs

.PHONY: bench
bench: build postgres-check ## measure speeds as ratios to baselines; takes most of an hour and 15 GB
	$(GO) run ./test/bench

.PHONY: figures
figures: ## print the size of the product, of its folders and dependencies, and the functions that requests enter
	$(GO) run ./test/figures $(FIGURES)

# Faults are injected for this time; the checks follow. Each test has ten minutes in all.
CHAOS_SECONDS ?= 300

.PHONY: chaos
chaos: cc-check bubblewrap-check postgres-check ## inject faults for CHAOS_SECONDS, then check that nothing was lost
	SVC_CHAOS_SECONDS=$(CHAOS_SECONDS) $(GO) test -race -count=1 -timeout 10m -v -run TestNothingAcknowledgedIsEverLost ./test/run
	SVC_CHAOS_SECONDS=$(CHAOS_SECONDS) $(GO) test -count=1 -timeout 10m -v -run TestJobsEndOnceThoughProgramsAreKilled ./test/run
	SVC_CHAOS_SECONDS=$(CHAOS_SECONDS) $(GO) test -count=1 -timeout 10m -v -run TestEveryJobEndsOnce ./farm/dispatch
	SVC_CHAOS_SECONDS=$(CHAOS_SECONDS) $(GO) test -count=1 -timeout 30m -v -run TestRunEndsTheSameThoughProgramsAreKilled ./test/run

# Tests that depend on timing, and how long they are run.
STRESS ?= ./cmd/... ./commands/... ./events/... ./farm/... ./http/... ./integrity ./leader ./projections/... ./proof ./sessions
STRESS_SECONDS ?= 900

.PHONY: stress
stress: cc-check bubblewrap-check postgres-check ## run tests for STRESS_SECONDS in random order on busy processors, to find flaky ones
	GO=$(GO) tools/in-memory tools/stress bin/stress $(STRESS_SECONDS) $(STRESS)

.PHONY: test-scale
test-scale: scale-check postgres-check ## run several services behind PgBouncer, and with a streaming replica
	$(GO) test -count=1 $(UNVETTED) -timeout $(TEST_TIMEOUT) -tags scale -run 'TestBehindPgBouncer|TestReadReplica' ./test/api

# Caddy is that of the Linux distribution: building it would take minutes. Tests of svc-gateway alone that wait long or depend
# on timing are left out.
OWN_GATEWAY := Bounded|SlowHandshake|SlowBody|LittleMemory|Unread|Silent|Unreachable|LoggedRarely|CloseEnds

.PHONY: test-gateways
test-gateways: scale-check ## hold nginx, HAProxy and Caddy with the files of docs/gateway to the tests of svc-gateway
	$(GO) test -count=1 $(UNVETTED) -timeout $(TEST_TIMEOUT) -tags gateways -parallel 8 -skip '$(OWN_GATEWAY)' ./farm/gateway

.PHONY: cover
cover: bubblewrap-check jq-check postgres-check ## run the tests and write bin/cover.html
	@mkdir -p bin
	$(GO) test -count=1 -timeout $(TEST_TIMEOUT) -coverpkg=./... -coverprofile=bin/cover.out ./...
	$(GO) tool cover -html=bin/cover.out -o bin/cover.html
	$(GO) tool cover -func=bin/cover.out | tail -n 1

.PHONY: fmt
fmt: ## format the Go files
	gofmt -w $(GO_DIRS)

.PHONY: generate
generate: ## regenerate the generated files
	$(GO) generate ./...

.PHONY: lint
lint: $(LINT) ## run golangci-lint, with go vet and the dependency rules
	GOGC=off GOMEMLIMIT=4GiB $(LINT) run ./... # a third faster than with frequent collections

.PHONY: verify
verify: fmt-check lint tidy-check generate-check vuln build scale-check node-check ## what a change must pass besides make test
	$(MAKE) -j2 --output-sync=target TOGETHER=1 test-gateways test-scale test-clients test-browser # all but the last keep one core busy
	@echo 'verify: ok'

.PHONY: clean
clean: ## remove bin/ and the tests' cached results
	rm -rf bin
	$(GO) clean -testcache

##@ Parts of verify

# The directories of Go packages, and none of data.
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
	@set -- $$($(GO) env CC); command -v "$$1" >/dev/null || tools/apt-install gcc libc6-dev || \
	{ echo "the race detector needs a C compiler: apt-get install gcc libc6-dev"; exit 1; }

.PHONY: bubblewrap-check
bubblewrap-check:
	@test "$$(uname -s)" != Linux || { command -v bwrap && command -v git-lfs; } >/dev/null || tools/apt-install bubblewrap git-lfs || \
	{ echo "the tests of sandboxes need bubblewrap 0.8 or newer, those of checkouts Git LFS: apt-get install bubblewrap git-lfs"; exit 1; }

# Without the package, programs and tests download PostgreSQL (dev/pgserver). The setting keeps the package from starting one.
.PHONY: postgres-check
postgres-check:
	@test -n "$${SVC_DATABASE_URL:-}$${TEST_DATABASE_URL:-}$${SVC_PG_BINDIR:-}" || command -v postgres >/dev/null || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || \
	test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null || { mkdir -p /etc/postgresql-common/createcluster.d && \
	echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.d/svc.conf && tools/apt-install postgresql; } || \
	echo "PostgreSQL is not installed: it will be downloaded"

# The tours in README.md and docs/tour.md read JSON with it.
.PHONY: jq-check
jq-check:
	@command -v jq >/dev/null || tools/apt-install jq || \
	{ echo "the test of the tours needs jq: apt-get install jq"; exit 1; }

# Node.js is needed only by tests with clients and browsers.
.PHONY: node-check
node-check:
	@command -v npm >/dev/null || tools/apt-install nodejs npm || \
	{ echo "this needs Node.js 20 or newer with npm"; exit 1; }

.PHONY: chromium-check
chromium-check:
	@test -x "$${CHROMIUM:-/usr/bin/chromium-headless-shell}" || test -z "$${CHROMIUM:-}" -a -x /usr/bin/chromium || tools/apt-install chromium-headless-shell || \
	{ echo "this needs Chromium: set CHROMIUM to its path"; exit 1; }

.PHONY: scale-check
scale-check:
	@for p in pgbouncer pg_basebackup nginx haproxy caddy; do command -v $$p || exit 1; done >/dev/null || tools/apt-install pgbouncer postgresql-client nginx-light haproxy caddy || \
	{ echo "this needs nginx, HAProxy, Caddy, PgBouncer, and pg_basebackup of the PostgreSQL that the tests use"; exit 1; }

# The tools are built from source at the versions in tools/go.mod, and so are verified
# by the same checksum database as all other modules.
$(LINT): tools/build-lint tools/go.mod tools/go.sum .golangci.yml
	@mkdir -p $(@D)
	GO=$(GO) tools/build-lint $@

$(VULN): tools/go.mod tools/go.sum
	$(GO) build -C tools -ldflags='-s -w' -o ../$@ golang.org/x/vuln/cmd/govulncheck
	@touch $@
