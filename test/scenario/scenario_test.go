// The protocol's golden scenarios. A scenario is a text file in testdata/scenarios: commands, and what the simulated
// cluster answered. The simulator runs the production actors, and every invariant of the protocol is checked all the
// time.
//
// A command stands on a line of its own; what it printed follows after `----`. Machines are named by number (1, 2, …),
// jobs by the name they were submitted under. Words without `=` come first and in order. Times are written like 5s or
// 250ms.
//
// Setting up and looking at time:
//
//	world machines=4 rack=2 gpus=8,4 schedulers=1 seed=1 constants=(BenchCap=5s) [earlier=2] [default-limit=1h] [cold]
//	      [order=fifo] [keep-most=1h]
//	                     a cluster; it is ready when the command ends, unless cold; machine 2's agent is of an earlier
//	                     version
//	run 5s               lets time pass
//	elapsed              whole seconds since the last elapsed
//	until WHAT within=5s yes, or no and how things stand
//	never WHAT for=5s    no, or that it happened
//	                     WHAT: running a (every member is a process, and it is on disk) | state a succeeded | gone a
//	                     | line (the text is the command's body)
//	                     | letter KIND [job=a] [node=2] [count=3] | processes 2 is=1 | node 2 is=member
//	                     | epoch 2 | free 2 gpu=8 | answered (nothing the client asked is open)
//
// What people do:
//
//	submit a replicas=2 gpu=8 cpu=8 mem=64 total=16 split=whole run=1h image=1m exit=1 rank=0 runs=1 oom deaf saves
//	       grace=2s
//	       limit=1 backoff=1s time-limit=10s lost-grace=1m stop-when-lost=1m prepare-timeout=1m required=rack
//	       preferred=rack selector=key:value nodes=(1,2) exclude=(3) [apart] [script] network=none shm=8
//	       patience=5s priority=1 type=H100 begin=00:30 warn=20s after=(a,b:any)
//	       array=0-9%2; its elements are called a_0, a_1 …
//	       user=me owner=ann [heeds] [unheard]
//	                     orders a job and waits for the answer, unless unheard; count=100 orders a hundred as name-1,
//	                     name-2 …
//	again a [replicas=3] the same request once more, or one with another body under the same id
//	cancel a | hold a | release a
//	requeue a [run=1] [hold]
//	                     the run that is being stopped, 0 if there was none to stop; or why not
//	update a [priority=5] [time-limit=10s] [begin=00:30 or now]
//	                     what is on disk by then, or why it was refused
//	dry-run replicas=2 gpu=8 …
//	                     what would become of such a submit
//	drain 2 [at=01:00] deadline=5s | cordon 2 | uncordon 2 | remove 2 | note 2
//
// A time of day, as 00:30, is one of the first day: each world begins at midnight.
//
// What goes wrong:
//
//	crash agent 2 | crash leader | pause agent 2 10s | pause leader 15s | usurp
//	clocks 1h [2]        moves the wall clocks of all schedulers, or of a machine
//	power 2 30s          power loss, back after that; without a time: never
//	break a              the actor of a job panics at the next message to it
//	cut 2 | mend 2 | one-way 2 to 5s | one-way 2 from 5s
//	lose KIND,KIND [node=2] [count=1]
//	                     the network loses the next count letters of these kinds; `lose` alone ends it
//	hostile drop=0.2 double=0.5 late=0.05 most=30s
//	backup | restore | restore copied | restore unnoticed | accept-loss
//	                     remembers the store; ends all schedulers and brings it back, by a restore or as a mere copy of
//	                     the file; has a replica take over that lacks what came after, and no scheduler ends; gives up
//	                     what is lost. A client whose job was lost submits it again, within 20 s (unnoticed: after a
//	                     minute)
//	prune                forgets every job that is over
//	store-away 5s | disk-full 2 5s | disk-fails 2 5s | disk-stalls 2 5s | tear 2
//	gpu-fault 2 0 | gpu-mend 2 0 | clone 2 | arm launch-fail 1
//	unwell 2 | well 2    what the next check of a machine's health finds, in a world with checks
//	foreign epoch=9 [ours]
//	                     a machine of another cluster comes with what it has from there, and a task; it gets the next
//	                     number; ours: out of a restore drill, whose cluster has our id
//	lie 2 port grants    a machine's agent lies about the things that are named (sim.Lies lists them); about none: it is
//	                     honest again
//	rebuild 2 mem=64 shelf=a rack=r9 [earlier]
//	                     its agent starts again, with other memory and labels, in another rack, or of an earlier version
//	users 2 own=(ann,zoe) mapped=max:svc [any] [earlier]
//	                     as which accounts its agent says that it runs jobs; earlier: it says nothing
//	keep [KIND]          keeps the letters about gangs, or of a kind, from now on; keep off ends it
//	replay [KIND] [slowly]
//	                     delivers what was kept once more, in order, to whoever answers to the address now; slowly: one a
//	                     second
//
// Looking:
//
//	letters [KIND,KIND] [all]
//	                     about gangs since the last look, runs of a kind put together: `Reserve → n1 n2`;
//	                     what is only said again is left out, unless all
//	lines [TEXT]         that operators saw since the last look, those that contain the text
//	processes [2]        containers that run
//	told [2]             what those of them that are warned were told of their end, and by how many signals
//	ledger [2]           the machines' own books
//	job a | nodes | explain a
//	                     what users are told
//	attempts a           every COMMIT and how it ended, from the letters' tokens
//	ran a                how long its runs that are over took together, in whole seconds
//	evidence a           what the store has of every attempt, while the job goes on
//	tokens a             whether every attempt's token is greater than the last
//	deaths               who was declared dead, and whether 10.0 to 10.5 s after its last word
//	waits FROM TO a      whole seconds from the first letter FROM of each attempt to the first letter TO of the next
//	reserves 2           how many Reserves machine 2 was sent since the last look
//	ids                  how many jobs there are, and how many ids
//	counted NAME         whether something was counted that leaves no other trace, like node.fenced
//	finish               heals all, waits until all is at rest: violations=0, or what broke
//
// `go test ./test/scenario -rewrite` takes today's answers as golden.
package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

const scenarios = "../testdata/scenarios"

// TestScenario plays every scenario. One that does not end with finish would check nothing, and fails.
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
				t.Error("the file does not open with what it shows")
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
