# Synapse's commands. `make` lists them; the help of a target follows two hashes on its line.
# They need Go and GNU make. `make race` also needs a C compiler.

GO ?= go

# The simulator draws its world from a seed: SEED=7 replays one, SEEDS=200 plays many, FIRST=1000 is the first of them.
# WORLD=small has 8 nodes for minutes instead of 64 nodes for an hour.
SEED  ?=
WORLD ?=
SEEDS ?=
FIRST ?=
# Filters: NAME=drain for scenarios and mutants, BENCH=Gang for benchmarks. REWRITE=1 accepts the new answers as golden.
NAME     ?=
BENCH    ?= .
REWRITE  ?=
FUZZTIME ?= 20s
# SMOKE=1 runs every benchmark once, to check that it works; the results mean nothing.
SMOKE ?=
# The packages that `make test` and `make race` test, and the environments that `make test-envs` uses.
PACKAGES ?= ./...
KIND     ?=
SHORT    ?=
# The longest packages. They mostly wait, and go test starts packages in the order of its arguments, so they go first.
LONG = ./runtime/conformance ./test/e2e ./test/chaos
# A test with many nodes that does not skip itself.
SKIPPED = TestManyBehindOneAddress
# Tests that need many nodes, compare times or compute for long: `make test` skips or shortens them, and
# `make test-integration` runs them, one package at a time.
CROWDS = $(SKIPPED)|TestHostileIdentities|TestHistoryReplays|TestHalfOpenConnections|TestSilentConnections|TestSilentPages|TestCapacityPage|TestScenarioTenThousandWaiting|TestHeirOfManyNodes|TestSwapOfManyNodes
CROWDED = ./test/e2e ./cluster/link ./cmd/synapse-cli ./test/scenario ./sim
# How long `make chaos` injects failures; SEED draws them.
DURATION ?= 20m
# Tests wait as often as they compute, so more of them run at once than there are processors.
BESIDE = -p $$(($$(nproc) + 2)) -parallel $$((2 * $$(nproc)))
# How tests are built. `make lint` runs go vet. Without debug data, a hundred test programs link in half the time.
BUILT = -vet=off -ldflags=-w
# Where `make install` puts files; DESTDIR replaces the root directory.
PREFIX  ?= /usr/local
DESTDIR ?=
# The number of seeds that a mutant may survive before it counts as missed.
MUTANT_SEEDS ?= 400

# A binary without cgo is one file that runs everywhere. Only the race detector needs cgo.
export CGO_ENABLED = 0

SIMULATE = $(GO) run ./cmd/synapse-sim $(if $(SEED),-seed $(SEED)) $(if $(SEEDS),-seeds $(SEEDS)) $(if $(FIRST),-first $(FIRST)) $(if $(WORLD),-world $(WORLD)) $(if $(ORDER),-order $(ORDER)) $(if $(SHARES),-shares) $(if $(HANGS),-hangs) $(if $(IN_PLACE),-in-place)

.DEFAULT_GOAL := help
.PHONY: help setup build programs dist install wheel run installed test test-integration parties crowds pictures test-envs race lint proto protocheck verify sim simulate quality scenario fuzz chaos mutants long cover bench compare clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## download all modules; the other commands then work offline
	$(GO) mod download
	$(GO) -C tools mod download

build: ## build every package and command
	$(GO) build ./...

programs: ## build the programs into bin/
	$(GO) build -o bin/ ./cmd/...

# DIST=linux/amd64 builds for one platform instead of all.
dist: ## build a release of the commit in dist/: archives, .deb, .rpm, image, bill of materials, checksums (DIST=linux/amd64 for one platform)
	$(GO) -C tools run ./dist -root .. -out ../dist $(if $(DIST),-only $(DIST))

install: ## build the programs, stripped, and install them with units, settings and manual pages (PREFIX=/usr/local, DESTDIR=)
	$(GO) build -ldflags '-s -w' -o bin/installed/ ./cmd/...
	$(GO) -C tools run ./dist -root .. -install ../bin/installed -into "$(or $(abspath $(DESTDIR)),/)" -prefix "$(PREFIX)"

wheel: ## build the wheel of the Python client in bin/, without network or Python: pip install bin/synapse_client-*.whl
	@$(GO) -C tools run ./dist -root .. -wheel ../bin

run: programs ## show a real cluster on this host: submit, run, watch, break, recover
	@$(GO) build -o bin/synapse-allreduce ./examples/allreduce
	@examples/tour.sh bin

installed:
	@tools/ensure.sh postgresql busybox ip strace runc crun curl openssl python3 mksquashfs

# The end of the output lists the skipped tests and what the host lacks for them. Leftovers on the host are a failure.
# All packages are compiled first: some tests build programs, and two builds at once would compile the same packages.
test: installed ## run all tests except those of test-integration; about 6 minutes on 2 cores (PACKAGES=./topology, STRICT=1 does not repeat failed tests)
	@$(if $(filter ./...,$(PACKAGES)),$(GO) list -export ./... >/dev/null)
	@$(GO) -C tools run ./testrun .. $(GO) test -json $(BUILT) $(BESIDE) -skip '^($(SKIPPED))$$' $(if $(filter ./...,$(PACKAGES)),$(LONG)) $(PACKAGES)

test-integration: ## run the tests with PyTorch, MPI, a Debian root, the last release, and many nodes (NAME=x for one test)
	@$(MAKE) --no-print-directory parties
	@$(if $(NAME),,$(MAKE) --no-print-directory crowds)

parties:
	@tools/ensure.sh torch debootstrap runc crun postgresql prometheus chromium mpicc.openmpi mpicc.mpich snakemake nodeset mksquashfs
	@$(GO) -C tools run ./testrun .. $(GO) test -json -count=1 -tags world $(BUILT) $(BESIDE) -timeout 20m $(if $(NAME),-run '$(NAME)') ./test/world

crowds: installed
	@SYNAPSE_TEST_CROWD=1 $(GO) -C tools run ./testrun .. $(GO) test -json -count=1 $(BUILT) -p 1 -run '^($(CROWDS))$$' $(CROWDED)

pictures: ## make the pictures of README and docs/operate/web.md from a real run; they differ each time
	@tools/ensure.sh chromium
	@mkdir -p docs/pictures
	$(GO) test -tags world -count=1 ./test/world -run '^TestPictures$$' -world.pictures $(CURDIR)/docs/pictures

test-envs: ## run `make run` and `make test` in a fresh Debian, with the rights of a container engine, as a user, and here (root; KIND=user, SHORT=1)
	@tools/envs.sh $(if $(SHORT),--short) $(KIND)

race: installed ## run the short tests under the race detector (PACKAGES=./topology; needs a C compiler)
	@command -v $$($(GO) env CC) >/dev/null || { \
		echo "make race: the race detector needs a C compiler, and '$$($(GO) env CC)' is missing (Debian: apt-get install gcc libc6-dev)" >&2; exit 1; }
	@$(GO) -C tools run ./testrun .. env CGO_ENABLED=1 $(GO) test -json $(BUILT) $(BESIDE) -race -short $(PACKAGES)

# `go tool -n` prints the path of the linter in Go's cache, and builds it if necessary.
lint: ## check formatting, go vet, staticcheck, repeated code and the English
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

proto: ## write the generated files: messages/*.pb.go, the published baseline, the table of system calls
	@$(GO) -C tools run ./protogen -root ..
	@$(GO) -C tools run ./callgen -root ..

protocheck: ## check that the generated files are current and that messages only gained fields
	@$(GO) -C tools run ./protogen -root .. -check
	@$(GO) -C tools run ./callgen -root .. -check

verify: ## run everything that CI checks (MANY=1 plays 400 seeds with queues instead of 60)
	@.ci/run

sim: ## run the simulator: SEED=7 one seed, SEEDS=200 many, FIRST=1000 the first, WORLD=small, ORDER=fifo, SHARES=1 with queues and preemption, HANGS=1 with gangs that hang
	$(SIMULATE)

simulate: programs ## simulate a synthetic week on 8, 12 and 16 nodes, also with other policies (one minute)
	bin/synapse-cli simulate --synthetic --nodes 8
	bin/synapse-cli simulate --synthetic --nodes 12 --policy synapse,easy,sjf --oracle
	bin/synapse-cli simulate --synthetic --nodes 16

quality: ## replay published traces and write the table of docs/reports/quality.md: TRACES=DIR, RUNS=5, FULL=1, SLICES=20 SEED=n ROWS=2000-6000, WITHOUT=each
	@$(GO) run ./test/quality $(if $(TRACES),-traces $(TRACES) $(if $(SLICES),-slices $(SLICES) $(if $(SEED),-seed $(SEED)) $(if $(ROWS),-rows $(ROWS)),-write docs/reports/quality.md)) $(if $(FULL),-full) $(if $(RUNS),-runs $(RUNS)) $(if $(WITHOUT),-without $(WITHOUT)) $(if $(NAME),-name '$(NAME)')

scenario: ## replay the golden scenarios of the protocol (NAME=x for some, REWRITE=1 accepts the new answers)
	$(GO) test ./test/scenario -count=1 -run 'Scenario$(if $(NAME),.*/$(NAME))' $(if $(REWRITE),-rewrite)

fuzz: ## run every fuzz target for 20s (FUZZTIME=1m)
	@GO='$(GO)' tools/fuzz.sh $(FUZZTIME)

chaos: installed ## kill processes of a real cluster while gangs run on it: DURATION=20m, SEED=7 (needs PostgreSQL)
	$(GO) test ./test/chaos -run TestChaos -count=1 -v -timeout 24h -args -chaos.duration=$(DURATION) $(if $(SEED),-chaos.seed=$(SEED))

mutants: installed ## plant each known bug and check that seeds, a scenario or a test catch it (NAME=x for some)
	$(GO) run ./test/mutants -seeds $(MUTANT_SEEDS) $(if $(NAME),-name $(NAME))

# A random finding says little about the change under test, so CI runs none of this. All parts run, even if one fails.
LONGER = fuzz 'sim WORLD=small FIRST=401 SEEDS=2000' 'sim WORLD=small HANGS=1 FIRST=61 SEEDS=400' 'sim WORLD=small SHARES=1 FIRST=61 SEEDS=1000' 'sim SEEDS=50' 'sim SEEDS=50 SHARES=1' mutants
long: ## search for hours: every fuzz target, every mutant, thousands of seeds
	@failed=; for part in $(LONGER); do \
		echo "== make $$part"; \
		$(MAKE) --no-print-directory $$part || failed="$$failed; make $$part"; \
	done; [ -z "$$failed" ] || { echo "found something: $${failed#; }" >&2; exit 1; }

cover: ## measure test coverage per function, without generated code (cover.out)
	$(GO) test -short -coverpkg=./... -coverprofile=cover.all.out ./...
	@grep -v '\.pb\.go:' cover.all.out > cover.out && rm cover.all.out
	@$(GO) tool cover -func=cover.out | tail -1

# Only packages with benchmarks are compiled and linked. go test runs benchmarks one package after the other. With SMOKE=1,
# several packages run at once, and each prints its output in one piece.
EACH = $(if $(SMOKE),-n1 -P$$(($$(nproc) + 2)) sh -c 'said=$$("$$@" 2>&1); code=$$?; echo "$$said"; exit $$code' go)
bench: installed ## run the benchmarks (BENCH=Gang for some, SMOKE=1 for each once and small)
	@grep -rl '^func Benchmark' --include='*_test.go' --exclude-dir=tools . | xargs -n1 dirname | sort -u | xargs $(EACH) \
		$(GO) test $(BUILT) -run '^$$' -bench '$(BENCH)' -benchmem $(if $(SMOKE),-benchtime 1x -short)

# It needs Debian's packages of Slurm, from apt-get or installed, and is never part of the tests: TMPDIR=/dev/shm leaves out
# the disk, ONLY=gang measures some rows, WRITE=1 replaces the tables of docs/reports/performance.md.
compare: ## measure Synapse next to Slurm on this host, in interleaved rounds: NODES=64 ROUNDS=15 SUBMITS=100 JOBS=100 DRIVER=process
	@mkdir -p bin && $(GO) build -o bin/compare ./test/compare
	@bin/compare $(if $(NODES),-nodes $(NODES)) $(if $(ROUNDS),-rounds $(ROUNDS)) $(if $(SUBMITS),-submits $(SUBMITS)) $(if $(JOBS),-jobs $(JOBS)) $(if $(DRIVER),-driver $(DRIVER)) $(if $(ONLY),-only '$(ONLY)') $(if $(WRITE),-write docs/reports/performance.md)

clean: ## remove the files that these commands created in the tree
	rm -rf bin cover.out cover.all.out
