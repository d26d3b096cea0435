package sim

import (
	"cmp"
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able/pace"
	"github.com/yi-json/synapse/topology"
)

// This file measures restarts in place of a large gang in virtual time, so its figures are the same on every machine.
// Messages take 0.05 to 0.4 ms, a synchronous write up to 2 ms, and each step of a process up to 10 ms.

// TestHeirOfManyNodes checks the time from the exit of a process until all tasks of its gang run again. `make
// test-integration` plays more nodes and more restarts.
func TestHeirOfManyNodes(t *testing.T) {
	machines, jobs := 64, 5
	if pace.Crowded() {
		machines, jobs = 512, 20
	}
	w, err := NewWorld(Options{World: "big", Plain: true, Machines: machines, PerRack: 16, Seed: 1, Unchecked: true,
		Processes: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	w.RunFor(30 * time.Second)
	var all []time.Duration
	for range jobs {
		all = append(all, w.restartsOnce(t, machines))
	}
	slices.Sort(all)
	most := all[(len(all)*99+99)/100-1]
	t.Logf("%d restarts on %d nodes: median %v, p99 %v, longest %v", jobs, machines, all[len(all)/2], most,
		all[len(all)-1])
	if most > 300*time.Millisecond {
		t.Errorf("p99 is %v", most)
	}
	if len(w.violations) > 0 {
		t.Error(w.violations)
	}
}

var swapRounds = flag.Int("swap-rounds", 0, "losses of 1 to 8 nodes in TestSwapOfManyNodes; 0: as usual")

// TestSwapOfManyNodes checks the time from the choice of the new nodes for a gang that lost 1 to 8 nodes until all its
// tasks run again. Sixteen other nodes are free. The time before depends on when the lost nodes were last heard.
func TestSwapOfManyNodes(t *testing.T) {
	machines, rounds := 24, 4
	if pace.Crowded() {
		machines, rounds = 512, 12
	}
	t.Run("free nodes", func(t *testing.T) { swapsOfMany(t, machines, cmp.Or(*swapRounds, rounds), 0) })
	t.Run("spares", func(t *testing.T) { swapsOfMany(t, machines, rounds, 8) })
}

// swapsOfMany plays the losses for a gang with this number of spares.
func swapsOfMany(t *testing.T, machines, rounds int, spares int32) {
	t.Helper()
	w, err := NewWorld(Options{World: "big", Plain: true, Machines: machines + 16, PerRack: 16, Seed: 1, Unchecked: true,
		Processes: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	w.RunFor(30 * time.Second)
	var all []time.Duration
	var o *Order
	lost := 0
	for round := range rounds {
		if round%90 == 0 || spares > 0 { // a job is given up after 100 restarts that are not its fault
			o = w.runsWide(t, o, machines, spares)
		}
		n := 1 + round%8
		all = append(all, w.swapsOnce(t, o, n, round))
		lost += n
	}
	slices.Sort(all)
	most := all[(len(all)*99+99)/100-1]
	t.Logf("%d swaps, %d nodes of %d: median %v, p99 %v, longest %v", rounds, lost, machines, all[len(all)/2], most,
		all[len(all)-1])
	if most > time.Second {
		t.Errorf("p99 is %v", most)
	}
	if len(w.violations) > 0 {
		t.Error(w.violations)
	}
}

// runsWide replaces a gang on all nodes but 16 by another one.
func (w *World) runsWide(t *testing.T, last *Order, machines int, spares int32) *Order {
	t.Helper()
	if last != nil {
		w.Cancel(last)
	}
	o := w.Submit(&messages.JobSpec{
		Name: "wide", Queue: "default", Image: "host", Command: script{run: 1000 * time.Hour}.command(),
		Restart: &messages.RestartSpec{InPlace: true, Limit: 1, Spares: spares},
		Each:    &messages.Resources{MilliGpu: 8 * topology.WholeGPU},
		Gang:    &messages.GangSpec{ReplicasMin: int32(machines), ReplicasMax: int32(machines)},
	})
	if !w.StepUntil(func() bool { return w.Attempt(o).GetStartedUnixMs() != 0 }, 2*time.Minute) {
		t.Fatalf("the job did not start: %v", w.Stored(o))
	}
	return o
}

// swapsOnce ends the power of n nodes of a running gang for a minute. It returns the time from the first Reserve to a
// new node until the last node says that its task runs.
func (w *World) swapsOnce(t *testing.T, o *Order, n, round int) time.Duration {
	t.Helper()
	before := w.Attempt(o)
	var chosen, again instant
	w.OnLetter(func(l Letter) {
		switch l.Message.(type) {
		case *messages.Reserve:
			chosen = cmp.Or(chosen, w.engine.now)
		case *messages.Started:
			again = w.engine.now
		}
	})
	for i := range n {
		p := before.Places[(round*7+i*(len(before.Places)/n))%len(before.Places)]
		w.PowerLoss(w.machine(p.Node).index+1, time.Minute)
	}
	runs := func() bool { a := w.Attempt(o); return a.Run > before.Run && a.StartedUnixMs != 0 }
	if !w.StepUntil(runs, 2*time.Minute) {
		t.Fatalf("the job did not continue: %v", w.Stored(o))
	}
	if a := w.Attempt(o); len(a.Inherited.GetSwapped()) != n || a.Run != before.Run+1 ||
		len(before.Spares) > 0 && len(a.Spares) != len(before.Spares)-n {
		t.Fatalf("%d nodes were lost, and attempt %d follows attempt %d: %v", n, a.Run, before.Run, a.Inherited)
	}
	took := again.since(chosen)
	w.OnLetter(nil)
	w.RunFor(11 * time.Minute) // the lost nodes return, and the next restart is not a quick one
	return took
}

// restartsOnce runs a gang on all nodes. One of its ranks fails once. It returns the time from the message
// about the exit until the last node says that its task runs.
func (w *World) restartsOnce(t *testing.T, machines int) time.Duration {
	t.Helper()
	var failed, again instant
	inherits := false
	o := w.Submit(&messages.JobSpec{
		Name: "wide", Queue: "default", Image: "host",
		Command: script{run: 20 * time.Second, exit: 1, rank: int32(machines / 3), runs: 1}.command(),
		Restart: &messages.RestartSpec{InPlace: true, Limit: 1},
		Each:    &messages.Resources{MilliGpu: 8 * topology.WholeGPU},
		Gang:    &messages.GangSpec{ReplicasMin: int32(machines), ReplicasMax: int32(machines)},
	})
	started := 0
	w.OnLetter(func(l Letter) { // the nodes write these messages after they have heard of a process
		switch m := l.Message.(type) {
		case *messages.Ended:
			failed = cmp.Or(failed, w.engine.now)
		case *messages.Commit:
			inherits, started = m.Inherited != nil, 0
		case *messages.Started:
			if started++; inherits && started == machines {
				again = w.engine.now
			}
		}
	})
	if !w.StepUntil(func() bool { return again != 0 }, time.Minute) {
		t.Fatalf("the job did not restart in place: %v", w.Stored(o))
	}
	w.OnLetter(nil)
	w.Cancel(o)
	over := func() bool { r := w.Stored(o); return r != nil && r.State.Terminal() && running(w) == 0 }
	if !w.StepUntil(over, time.Minute) {
		t.Fatalf("the job did not end: %v", w.Stored(o))
	}
	return again.since(failed)
}
