package policy

import (
	"testing"
	"time"

	"github.com/yi-json/synapse/topology"
)

// This file owns the tests of rules that go by what is free when, on a few machines whose ends are known.

// furnished is a Judgement of up to four machines in two racks, each of which is free as a whole from a second on;
// 0: it is now.
func furnished(now int64, free ...int64) *Judgement {
	j := bare(now, Pool{Name: "h100", Size: 32_000, Usual: topology.Resources{MilliGPU: 8000}})
	f := topology.NewFabric([]string{"zone", "rack"})
	j.view, j.round = f, 1
	j.horizon = topology.NewHorizon(f)
	for i, at := range free {
		m := machine(i, 1)
		m.Place = []string{"z", []string{"r0", "r0", "r1", "r1"}[i]}
		idle := m.Idle()
		if at > 0 {
			f.Join(m, idle.Less(m.Total))
			j.horizon.Set(m.ID, []topology.End{{Amount: m.Total, Hard: at * second, Likely: at * second, Of: "x"}})
		} else {
			f.Join(m, idle)
		}
	}
	return j
}

// waiting adds a job to the queue, and returns its burst.
func (j *Judgement) waiting(w Waiting) *burst {
	j.queue.Add(w)
	e := j.queue.jobs[w.Job]
	b := &burst{line: &Line{}, jobs: []*entry{e}, head: e, gang: w.Gang.Replicas > 1, estimate: 60 * second}
	b.traits.Pool, b.traits.Size = "h100", 8000*int64(w.Gang.Replicas)
	e.burst = b
	j.bursts.list = append(j.bursts.list, b)
	return b
}

// TestGuardSpendsWhatItHas: without credit nobody has a turn, and with any the oldest has one.
func TestGuardSpendsWhatItHas(t *testing.T) {
	for credit, want := range map[int64]int{-1: 0, 0: 0, 1: 1} {
		for size, turns := range map[int64]int{0: 0, 8000: want} {
			j := furnished(1000*second, 0)
			b := j.waiting(Waiting{Job: "old", Gang: wholes(1)})
			b.head.left = true
			p := j.poolNamed("h100")
			p.credit, p.Size = credit, size
			if j.guard(); len(j.d.Admit) != turns {
				t.Errorf("with a credit of %d in a pool of %d: %d have their turn, want %d", credit, size, len(j.d.Admit), turns)
			}
		}
	}
}

// TestCloseOrLater: a gang starts close together or, once its patience is over, wherever it can, whichever is earlier,
// and not before there is room.
func TestCloseOrLater(t *testing.T) {
	for _, c := range []struct {
		declined int64 // in seconds; 0: it could not start yet
		close    int64 // when the second machine of its rack is free
		want     int64
	}{
		{0, 1000, 260}, {0, 261, 260}, {0, 260, 260}, {0, 259, 259}, {100, 1000, 200}, {100, 190, 190}, {150, 1000, 210},
	} {
		j := furnished(120*second, 100, c.close, 200, 5000)
		j.settings.Locality, j.settings.LocalityMost = time.Minute, time.Minute
		b := j.waiting(Waiting{Job: "g", Gang: wholes(2), Since: 90 * second})
		b.head.declined = c.declined * second
		if !j.isStrict(b, b.head) {
			t.Fatalf("%+v: it does not wait for a place close together", c)
		}
		if at, p, ok := j.soonest(b, b.head); !ok || at != c.want*second || len(p.Slots) != 2 {
			t.Errorf("%+v: it is to start at %d on %v, %v", c, at/second, p, ok)
		}
	}
}

// TestClearedBy: whoever was to have left by now and has not is bound by nothing any more, where others are stopped.
func TestClearedBy(t *testing.T) {
	for at, want := range map[int64]int64{99: topology.Never, 100: topology.Never, 101: 101 * second} {
		j := furnished(100*second, at)
		b := j.waiting(Waiting{Job: "w", Gang: wholes(1)})
		p := &promise{e: b.head, b: b, bound: topology.Never, firm: true}
		p.place.Slots = []topology.Slot{{Node: machine(0, 1).ID, Amount: wholes(1).Each}}
		if got := j.clearedBy(p); got != at*second {
			t.Errorf("free at %d: cleared by %d though nobody is stopped", at, got)
		}
		p.stops = []stop{{}}
		if got := j.clearedBy(p); got != want {
			t.Errorf("free at %d: cleared by %d, want %d", at, got, want)
		}
	}
}
