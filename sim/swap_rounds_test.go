package sim

import (
	"flag"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file plays swaps in rounds. In each round, a gang on eight nodes, with up to two spares, loses one to three of
// them. A further fault comes in one of many moments of the swap.

var swapFaults = flag.Int("swap-faults", 48, "how many gangs TestSwapRounds plays")

// swapRound is one round, drawn from its number.
type swapRound struct {
	lost   int    // nodes that lose their power first
	spares int32  // of the gang
	letter int    // the fault comes with this letter after the end of the attempt
	fault  string // what happens then
}

var swapFaultKinds = []string{"takeover", "kept node lost", "new node lost", "takeover", "lost node back"}

func drawSwapRound(n int) swapRound {
	return swapRound{lost: 1 + n%3, spares: int32(n / 2 % 3), letter: 1 + n/2%40,
		fault: swapFaultKinds[n%len(swapFaultKinds)]}
}

// TestSwapRounds checks with all invariants that a gang ends as succeeded whatever happens during a swap: a change of
// the leader, the loss of a node that is kept or of a new one, or the return of a lost one.
func TestSwapRounds(t *testing.T) {
	heirs, swapped, faults := int64(0), int64(0), 0
	for n := range *swapFaults {
		r := drawSwapRound(n)
		w, hit := r.play(t)
		heirs, swapped = heirs+w.counters["heirs"], swapped+w.counters["swapped nodes"]
		if hit {
			faults++
		}
		if v := w.Finish(); len(v) > 0 || t.Failed() {
			t.Fatalf("round %d, %+v: %v", n, r, v)
		}
	}
	t.Logf("%d gangs, %d swaps, %d nodes, %d faults during swaps", *swapFaults, heirs, swapped, faults)
	if heirs < int64(*swapFaults) || faults < *swapFaults/2 {
		t.Error("the rounds are too much alike")
	}
}

// play runs the gang of a round to its end, and reports whether the fault came.
func (r swapRound) play(t *testing.T) (w *World, hit bool) {
	t.Helper()
	w, err := NewWorld(Options{World: "small", Plain: true, Machines: 14, PerRack: 14, Schedulers: 2, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	w.RunFor(10 * time.Second)
	o := w.Submit(&messages.JobSpec{
		Name: "gang", Queue: "default", Image: "host", Command: script{run: 3 * time.Minute}.command(),
		Restart: &messages.RestartSpec{InPlace: true, Limit: 1, Spares: r.spares},
		Each:    &messages.Resources{MilliGpu: 8 * topology.WholeGPU},
		Gang:    &messages.GangSpec{ReplicasMin: 8, ReplicasMax: 8},
	})
	if !w.StepUntil(func() bool { return w.Attempt(o).GetStartedUnixMs() != 0 }, time.Minute) {
		t.Fatalf("the job did not start: %v", w.Stored(o))
	}
	before, letters, fresh, due := w.Attempt(o), 0, "", false
	w.OnLetter(func(l Letter) {
		switch m := l.Message.(type) {
		case *messages.Reserve:
			fresh = m.Order.Node
		case *messages.Stop, *messages.Ended, *messages.Reserved, *messages.Commit, *messages.Committed,
			*messages.Prepared, *messages.Start, *messages.Started:
		default:
			return
		}
		letters++
		due = due || letters == r.letter
	})
	for i := range r.lost {
		if number := w.machine(before.Places[i].Node).index + 1; r.fault == "lost node back" {
			w.Cut(number) // its task continues
		} else {
			w.PowerLoss(number, 10*time.Minute)
		}
	}
	if hit = w.StepUntil(func() bool { return due }, time.Minute); hit {
		r.strike(w, before, fresh)
	}
	w.OnLetter(nil)
	for i := range r.lost {
		if r.fault == "lost node back" {
			defer w.Mend(w.machine(before.Places[i].Node).index + 1)
		}
	}
	if !w.StepUntil(func() bool { return w.Stored(o).GetState().Terminal() }, 30*time.Minute) {
		t.Fatalf("%+v: the job did not end: %v", r, w.Stored(o))
	}
	if s := w.Stored(o).State; s != messages.JobState_JOB_STATE_SUCCEEDED {
		t.Errorf("%+v: it ended as %v: %s", r, s, w.Stored(o).Outcome)
	}
	return w, hit
}

// strike makes the fault of a round happen.
func (r swapRound) strike(w *World, before *messages.AttemptRecord, fresh string) {
	switch r.fault {
	case "takeover":
		w.CrashLeader()
	case "kept node lost":
		w.PowerLoss(w.machine(before.Places[7].Node).index+1, time.Minute)
	case "new node lost":
		if fresh != "" {
			w.PowerLoss(w.machine(fresh).index+1, time.Minute)
		}
	case "lost node back":
		w.Mend(w.machine(before.Places[0].Node).index + 1)
	}
}
