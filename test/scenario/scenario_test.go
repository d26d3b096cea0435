// The protocol's golden scenarios. A scenario is a text file in testdata/scenarios: commands, and the answers of the
// simulated cluster. The simulator runs the production actors, and checks every invariant of the protocol at all times.
//
// Each command is on a separate line. Its output follows after `----`. Nodes are named by number (1, 2, …), and jobs by
// the name of their submit. Words without `=` come first and in order. Times have the form 5s or 250ms.
//
// Setup and time:
//
//	world machines=4 rack=2 gpus=8,4 schedulers=1 seed=1 constants=(NodeBackoffCap=5s) [earlier=2]
//	      [default-limit=1h] [cold] [order=fifo] [keep-most=1h]
//	                     creates a cluster, which is ready when the command ends, unless cold; node 2's agent is of an
//	                     earlier version
//	run 5s               advances time
//	elapsed              whole seconds since the last elapsed
//	until WHAT within=5s yes, or no and the present state
//	never WHAT for=5s    no, or that it happened
//	                     WHAT: running a (every member is a process, and it is on disk) | state a succeeded | gone a
//	                     | line (the text is the command's body)
//	                     | letter KIND [job=a] [node=2] [count=3] | processes 2 is=1 | node 2 is=member
//	                     | epoch 2 | free 2 gpu=8 | answered (no request of a client is open)
//
// Users and operators:
//
//	submit a replicas=2 gpu=8 cpu=8 mem=64 total=16 split=whole run=1h image=1m exit=1 rank=0 runs=1 oom deaf saves
//	       grace=2s
//	       limit=1 backoff=1s time-limit=10s lost-grace=1m stop-when-lost=1m prepare-timeout=1m required=rack
//	       preferred=rack selector=key:value nodes=(1,2) exclude=(3) [apart] [script] network=none shm=8
//	       patience=5s priority=1 type=H100 begin=00:30 deadline=01:00 warn=20s after=(a,b:any)
//	       array=0-9%2; its elements are called a_0, a_1 …
//	       user=me owner=ann [heeds] [unheard] [held] [in-place] spares=1
//	       save=10s acks=file [rank0] idle=2m/7m
//	                     idle: the tasks do nothing after 2 of each 7 minutes, or from 2 minutes on (idle=2m);
//	                     asks the tasks to save before they are stopped; they acknowledge by file, by exit or never
//	                     submits a job and waits for the answer, unless unheard; count=100 submits a hundred as name-1,
//	                     name-2 …
//	again a [replicas=3] repeats the request, or sends one with another body under the same ID
//	cancel a | hold a | release a
//	checkpoint a         requests a checkpoint; or the error
//	requeue a [run=1] [hold] [checkpoint]
//	                     the attempt that is being stopped, 0 if there was none; or the error
//	update a [priority=5] [time-limit=10s] [begin=00:30 or now]
//	                     the values on disk afterwards, or the error
//	dry-run replicas=2 gpu=8 …
//	                     the outcome of such a submit
//	drain 2 [at=01:00] deadline=5s | cordon 2 | uncordon 2 | remove 2 | note 2
//
// A time of day such as 00:30 is on the first day. Each world begins at midnight.
//
// Faults:
//
//	crash agent 2 | crash leader | pause agent 2 10s | pause leader 15s | usurp
//	clocks 1h [2]        moves the wall clocks of all schedulers, or of a node
//	power 2 30s          power loss, back after that; without a time: never
//	break a              the actor of a job panics at its next message
//	cut 2 | mend 2 | one-way 2 to 5s | one-way 2 from 5s
//	lose KIND,KIND [node=2] [count=1]
//	                     the network loses the next count messages of these kinds; `lose` alone ends it
//	hostile drop=0.2 double=0.5 late=0.05 most=30s
//	backup | restore | restore copied | restore unnoticed | accept-loss
//	                     saves the store | ends all schedulers and restores it | restores a plain copy of the file |
//	                     lets a replica take over that lacks later writes, without ending a scheduler | gives up lost
//	                     records. A client whose job was lost submits it again, within 20 s (unnoticed: after a minute)
//	prune                removes every finished job
//	store-away 5s | disk-full 2 5s | disk-fails 2 5s | disk-stalls 2 5s | tear 2
//	gpu-fault 2 0 | gpu-mend 2 0 | clone 2 | arm launch-fail 1
//	unwell 2 | well 2    the finding of the next health check, in a world with checks
//	foreign epoch=9 [ours]
//	                     connects a node of another cluster with its ledger and a task; it gets the next number; ours:
//	                     from a restore drill, whose cluster has our ID
//	lie 2 port grants    a node's agent lies about the named topics (sim.Lies lists them); without topics it is honest
//	                     again
//	rebuild 2 mem=64 shelf=a rack=r9 [earlier]
//	                     its agent starts again, with other memory and labels, in another rack, or of an earlier version
//	users 2 own=(ann,zoe) mapped=max:svc [any] [earlier]
//	                     the accounts for jobs that its agent reports; earlier: it reports none
//	keep [KIND]          keeps the messages about gangs, or of a kind, from now on; keep off ends it
//	replay [KIND] [slowly]
//	                     delivers the kept messages again, in order, to the present receivers; slowly: one a second
//
// Output:
//
//	letters [KIND,KIND] [all]
//	                     messages about gangs since the last look, runs of a kind together: `Reserve → n1 n2`;
//	                     without repeated messages, unless all
//	lines [TEXT]         log lines since the last look that contain the text
//	processes [2]        running containers
//	told [2]             the warnings that running containers got, and the number of signals
//	ledger [2]           the nodes' own ledgers
//	job a | nodes | explain a
//	                     what users see
//	attempts a           every COMMIT and how it ended, from the tokens of messages
//	ran a                total run time of its ended attempts, in whole seconds
//	evidence a           the store's records of every attempt, while the job is live
//	tokens a             whether every attempt's token is greater than the last
//	deaths               which nodes were declared dead, and whether 10.0 to 10.5 s after their last message
//	waits FROM TO a      whole seconds from the first message FROM of each attempt to the first message TO of the next
//	reserves 2           number of Reserves to node 2 since the last look
//	ids                  number of jobs, and number of IDs
//	counted NAME         whether a counter without other effects increased, such as node.fenced
//	finish               ends all faults, waits until all is at rest: violations=0, or the violations
//
// `go test ./test/scenario -rewrite` accepts the present answers as golden.
package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

const scenarios = "../testdata/scenarios"

// TestScenario runs every scenario. A scenario that does not end with finish would check nothing, and fails.
func TestScenario(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(scenarios, "*.txt"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios in %s: %v", scenarios, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(text), "# ") {
				t.Error("the file does not begin with a comment about its purpose")
			}
			s := &stage{}
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				return s.play(t, commandLine{t, d})
			})
			if !s.finished {
				t.Error("the scenario does not end with finish")
			}
		})
	}
}
