# Synapse's commands. `make` alone lists them; a target's help stands on its own line, behind two hashes.
# Go and GNU make are all that is needed; `make race` wants a C compiler as well.

GO ?= go

# The simulator's world is drawn from a seed: SEED=7 replays one, SEEDS=200 tries many, FIRST=1000 says where to begin;
# WORLD=small has 8 machines for minutes, in place of 64 for an hour.
SEED  ?=
WORLD ?=
SEEDS ?=
FIRST ?=
# Narrowing: NAME=drain for scenarios and mutants, BENCH=Gang for benchmarks. REWRITE=1 takes the new answers as golden.
NAME     ?=
BENCH    ?= .
REWRITE  ?=
FUZZTIME ?= 20s
# SMOKE=1 runs every benchmark once, to see that it still works; its figures mean nothing.
SMOKE ?=
# Which packages `make test` and `make race` test, and in which places `make places` does.
PACKAGES ?= ./...
PLACE    ?=
SHORT    ?=
# The longest packages. They mostly wait, and go test begins packages in the order in which they are named: begun last they
# would have the machine to themselves.
LONG = ./runtime/conformance ./test/e2e ./test/chaos
# A crowd of nodes that nothing in its test leaves out.
SKIPPED = TestManyBehindOneAddress
# Tests that need a crowd, compare times or compute for long: `make test` leaves them out, or plays less of them, and
# `make world` runs them, one package at a time.
CROWDS = $(SKIPPED)|TestHostileIdentities|TestHistoryReplays|TestHalfOpenConnections|TestSilentConnections|TestSilentPages|TestCapacityPage|TestScenarioTenThousandWaiting
CROWDED = ./test/e2e ./cluster/link ./cmd/synapse-cli ./test/scenario
# For how long `make chaos` breaks things; SEED draws them.
DURATION ?= 20m
# Tests wait as often as they compute, so more of them run at once than there are processors.
BESIDE = -p $$(($$(nproc) + 2)) -parallel $$((2 * $$(nproc)))
# How tests are built: go vet is make lint's, and nobody debugs these programs; without what a debugger wants they are linked
# in half the time, a hundred of them.
BUILT = -vet=off -ldflags=-w
# Where `make install` puts things; DESTDIR is a folder to take for the root.
PREFIX  ?= /usr/local
DESTDIR ?=
# How many seeds a planted bug may survive before it counts as one that the tests miss.
MUTANT_SEEDS ?= 400

# Nothing here needs cgo, and a binary without it is one file that runs everywhere. Only the race detector asks for it.
export CGO_ENABLED = 0

SIMULATE = $(GO) run ./cmd/synapse-sim $(if $(SEED),-seed $(SEED)) $(if $(SEEDS),-seeds $(SEEDS)) $(if $(FIRST),-first $(FIRST)) $(if $(WORLD),-world $(WORLD)) $(if $(ORDER),-order $(ORDER)) $(if $(SHARES),-shares)

.DEFAULT_GOAL := help
.PHONY: help setup build programs dist install wheel run installed test world parties crowds pictures places race lint proto protocheck verify sim simulate quality scenario fuzz chaos mutants long cover bench clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## fetch every module once; all other commands then work offline
	$(GO) mod download
	$(GO) -C tools mod download

build: ## build every package and command
	$(GO) build ./...

programs: ## build Synapse's programs into bin/
	$(GO) build -o bin/ ./cmd/...

# DIST narrows it: DIST=linux/amd64 one of the machines, without which all are built.
dist: ## make a release of the commit in dist/: archives, .deb, .rpm, an image, a bill of materials, sums (DIST=linux/amd64 one kind)
	$(GO) -C tools run ./dist -root .. -out ../dist $(if $(DIST),-only $(DIST))

install: ## build the programs, stripped, and install them with units, settings and manual: PREFIX=/usr/local, DESTDIR=
	$(GO) build -ldflags '-s -w' -o bin/installed/ ./cmd/...
	$(GO) -C tools run ./dist -root .. -install ../bin/installed -into "$(or $(abspath $(DESTDIR)),/)" -prefix "$(PREFIX)"

wheel: ## make the wheel of the client for Python in bin/, without a network or Python: pip install bin/synapse_client-*.whl
	@$(GO) -C tools run ./dist -root .. -wheel ../bin

run: programs ## show a real cluster on this machine: submit, run, watch, break, recover
	@$(GO) build -o bin/synapse-allreduce ./examples/allreduce
	@examples/tour.sh bin

installed:
	@tools/ensure.sh postgresql busybox ip strace runc crun curl openssl python3

# PACKAGES narrows it. What was skipped is summed up at the end, by name and with what the machine lacks; what is left on
# the machine afterwards is a failure. First all packages are compiled, once: some tests build programs, and two builds at once
# would each compile what neither has.
test: installed ## run every test that small packages are enough for, the simulator's seeds among them (some 6 minutes on 2 cores, building among them; STRICT=1 without a second look at what fails)
	@$(if $(filter ./...,$(PACKAGES)),$(GO) list -export ./... >/dev/null)
	@$(GO) -C tools run ./testrun .. $(GO) test -json $(BUILT) $(BESIDE) -skip '^($(SKIPPED))$$' $(if $(filter ./...,$(PACKAGES)),$(LONG)) $(PACKAGES)

world: ## run the tests with big third parties, as PyTorch, MPI, a Debian and the last release, and those that need a crowd (NAME=x one of them)
	@$(MAKE) --no-print-directory parties
	@$(if $(NAME),,$(MAKE) --no-print-directory crowds)

parties:
	@tools/ensure.sh torch debootstrap runc crun postgresql prometheus chromium mpicc.openmpi mpicc.mpich
	@$(GO) -C tools run ./testrun .. $(GO) test -json -count=1 -tags world $(BUILT) $(BESIDE) -timeout 20m $(if $(NAME),-run '$(NAME)') ./test/world

crowds: installed
	@SYNAPSE_TEST_CROWD=1 $(GO) -C tools run ./testrun .. $(GO) test -json -count=1 $(BUILT) -p 1 -run '^($(CROWDS))$$' $(CROWDED)

pictures: ## make the pictures of README and docs/operate/web.md, from a real run (they differ each time, so seldom)
	@tools/ensure.sh chromium
	@mkdir -p docs/pictures
	$(GO) test -tags world -count=1 ./test/world -run '^TestPictures$$' -world.pictures $(CURDIR)/docs/pictures

places: ## run README's two commands in a fresh Debian, with a container engine's rights, as a user, and here (as root; PLACE=user one, SHORT=1 less)
	@tools/places.sh $(if $(SHORT),--short) $(PLACE)

race: installed ## run the short tests under the race detector (PACKAGES=… some; needs a C compiler)
	@command -v $$($(GO) env CC) >/dev/null || { \
		echo "make race: the race detector needs a C compiler, and '$$($(GO) env CC)' is not there (Debian: apt-get install gcc libc6-dev)" >&2; exit 1; }
	@$(GO) -C tools run ./testrun .. env CGO_ENABLED=1 $(GO) test -json $(BUILT) $(BESIDE) -race -short $(PACKAGES)

# `go tool -n` prints where in Go's cache the linter lies, and builds it first if need be.
lint: ## check formatting, go vet and staticcheck, here and in tools/, that nothing is written twice, and the English
	@unformatted=$$("$$($(GO) env GOROOT)/bin/gofmt" -l $$(find . -name '*.go' -not -path '*/.*' -not -path '*/testdata/*')); \
	if [ -n "$$unformatted" ]; then echo "not formatted (run gofmt -w):" $$unformatted >&2; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags world ./test/world
	GOOS=darwin GOARCH=arm64 $(GO) vet ./cmd/synapse-cli/...
	GOOS=windows GOARCH=amd64 $(GO) vet ./cmd/synapse-cli/...
	$(GO) -C tools vet ./...
	$$($(GO) -C tools tool -n staticcheck) ./...
	cd tools && $$($(GO) tool -n staticcheck) ./...
	@$(GO) -C tools run ./repeats -root ..
	@$(GO) -C tools run ./prose -root ..

proto: ## write what is generated: messages/*.pb.go (and the published baseline), the table of system calls
	@$(GO) -C tools run ./protogen -root ..
	@$(GO) -C tools run ./callgen -root ..

protocheck: ## check that generated files are up to date and that the wire only grew
	@$(GO) -C tools run ./protogen -root .. -check
	@$(GO) -C tools run ./callgen -root .. -check

verify: ## check all that CI checks (MANY=1 with 400 seeds of worlds with queues, not 60)
	@.ci/run

sim: ## run the simulator: SEED=7 one seed, SEEDS=200 many, FIRST=1000 beginning there, WORLD=small, ORDER=fifo without promises, SHARES=1 with queues, quotas and preemption
	$(SIMULATE)

simulate: programs ## show what a synthetic week would have met on 8, 12 and 16 machines, and under other policies (a minute)
	bin/synapse-cli simulate --synthetic --nodes 8
	bin/synapse-cli simulate --synthetic --nodes 12 --policy synapse,easy,sjf --oracle
	bin/synapse-cli simulate --synthetic --nodes 16

quality: ## replay published traces and write the table of docs/reports/quality.md: TRACES=DIR, RUNS=5 so often each, FULL=1 all of them ten times, SLICES=20 SEED=n pieces that a seed draws instead (ROWS=2000-6000 of so many rows each), WITHOUT=each the policy without one part after another; without traces, workloads that are drawn
	@$(GO) run ./test/quality $(if $(TRACES),-traces $(TRACES) $(if $(SLICES),-slices $(SLICES) $(if $(SEED),-seed $(SEED)) $(if $(ROWS),-rows $(ROWS)),-write docs/reports/quality.md)) $(if $(FULL),-full) $(if $(RUNS),-runs $(RUNS)) $(if $(WITHOUT),-without $(WITHOUT)) $(if $(NAME),-name '$(NAME)')

scenario: ## replay the protocol's golden dialogues: NAME=x one of them, REWRITE=1 takes today's answers as golden
	$(GO) test ./test/scenario -count=1 -run 'Scenario$(if $(NAME),.*/$(NAME))' $(if $(REWRITE),-rewrite)

fuzz: ## run every fuzz target for FUZZTIME each (20s)
	@GO='$(GO)' tools/fuzz.sh $(FUZZTIME)

chaos: installed ## break a cluster of real processes while gangs run on it: DURATION=20m, SEED=7 (needs PostgreSQL)
	$(GO) test ./test/chaos -run TestChaos -count=1 -v -timeout 24h -args -chaos.duration=$(DURATION) $(if $(SEED),-chaos.seed=$(SEED))

mutants: installed ## plant each known bug and check that seeds, a scenario or a test catch it: NAME=x one of them
	$(GO) run ./test/mutants -seeds $(MUTANT_SEEDS) $(if $(NAME),-name $(NAME))

# A random find says little about the change under test, so CI does none of this. All parts run, whatever one of them finds.
LONGER = fuzz 'sim WORLD=small FIRST=401 SEEDS=2000' 'sim WORLD=small SHARES=1 FIRST=61 SEEDS=1000' 'sim SEEDS=50' 'sim SEEDS=50 SHARES=1' mutants
long: ## search for hours: every fuzz target, every planted bug, thousands of seeds
	@failed=; for part in $(LONGER); do \
		echo "== make $$part"; \
		$(MAKE) --no-print-directory $$part || failed="$$failed; make $$part"; \
	done; [ -z "$$failed" ] || { echo "found something: $${failed#; }" >&2; exit 1; }

cover: ## measure test coverage per function, generated code left out (cover.out)
	$(GO) test -short -coverpkg=./... -coverprofile=cover.all.out ./...
	@grep -v '\.pb\.go:' cover.all.out > cover.out && rm cover.all.out
	@$(GO) tool cover -func=cover.out | tail -1

# Only packages that have some are compiled and linked. go test runs benchmarks one package after the other; where nobody
# reads the figures some run beside each other, and each says all that it has to say at once.
EACH = $(if $(SMOKE),-n1 -P$$(($$(nproc) + 2)) sh -c 'said=$$("$$@" 2>&1); code=$$?; echo "$$said"; exit $$code' go)
bench: installed ## run the benchmarks: BENCH=Gang some of them, SMOKE=1 each of them once and small
	@grep -rl '^func Benchmark' --include='*_test.go' --exclude-dir=tools . | xargs -n1 dirname | sort -u | xargs $(EACH) \
		$(GO) test $(BUILT) -run '^$$' -bench '$(BENCH)' -benchmem $(if $(SMOKE),-benchtime 1x -short)

clean: ## remove what these commands left in the tree
	rm -rf bin cover.out cover.all.out
