package policy

import (
	"testing"
	"time"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/topology"
)

// This file tests rules that depend on future capacity, on a few nodes with known ends.

// furnished returns a Judgement of up to four nodes in two racks, each of which is completely free from a second on; 0:
// now.
func furnished(now int64, free ...int64) *Judgement {
	j := bare(now, estimate.Pool{Name: "h100", Size: 32_000, Usual: topology.Resources{MilliGPU: 8000}})
	f := topology.NewTree([]string{"zone", "rack"})
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
	b := &burst{line: &estimate.Line{}, jobs: []*entry{e}, head: e, gang: w.Gang.Replicas > 1, estimate: 60 * second}
	b.traits.Pool, b.traits.Size = "h100", 8000*int64(w.Gang.Replicas)
	e.burst = b
	j.bursts.list = append(j.bursts.list, b)
	return b
}

// TestGuardSpendsWhatItHas checks that the guard gives a turn only if it has credit.
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

// TestCloseOrLater checks that a gang starts at a close place, or anywhere after its topology wait, whichever is
// earlier, and not before it fits.
func TestCloseOrLater(t *testing.T) {
	for _, c := range []struct {
		declined int64 // in seconds; 0: it could not start yet
		close    int64 // when the second node of its rack is free
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

// TestClearedBy checks that a promise with victims has no bound from a hard end that has already passed.
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

// TestAwayForSoLong checks that the promise of a job outside of the queue is kept until its time ends, and no longer.
func TestAwayForSoLong(t *testing.T) {
	for past, kept := range map[int64]bool{-1: true, 0: false, 1: false} {
		j := furnished(1e6*second, 0)
		most := int64(j.settings.KeepMost)
		p := &promise{e: &entry{gone: true}, firm: true, made: j.now - most - past, bound: topology.Never}
		p.limits, p.pool, p.keep, p.e.Job = topology.Never, "h100", "away", "away"
		j.away["away"] = p
		j.restore()
		if (j.away["away"] != nil) != kept || (len(j.d.Firm) == 0) != kept {
			t.Errorf("%d ns past its time it is kept: %v, said of it is %v", past, j.away["away"] != nil, j.d.Firm)
		}
	}
}

// TestFormerBesideTheNew checks that the former place stays reserved without the part of the new place, and without the
// part that the job holds.
func TestFormerBesideTheNew(t *testing.T) {
	all := wholes(1).Each
	slot := func(i int) topology.Slot { return topology.Slot{Node: machine(i, 1).ID, Amount: all} }
	for _, c := range []struct {
		now  []topology.Slot
		has  topology.NodeID
		want int
	}{
		{nil, "", 2}, {[]topology.Slot{slot(0)}, "", 1}, {[]topology.Slot{slot(0), slot(1)}, "", 0},
		{[]topology.Slot{slot(2)}, "", 2}, {[]topology.Slot{slot(0)}, slot(1).Node, 0}, {nil, slot(1).Node, 1},
	} {
		j := furnished(second, 0, 0, 0)
		j.leave("w", topology.Placement{Slots: []topology.Slot{slot(0), slot(1)}})
		j.keepFormer("w", topology.Placement{Slots: c.now}, func(n topology.NodeID) []topology.Resources {
			if n == c.has {
				return []topology.Resources{all}
			}
			return nil
		})
		if got := j.view.Kept(topology.KeepID("w").Former()); len(got) != c.want {
			t.Errorf("%+v: kept are %v", c, got)
		}
	}
}

// TestLargestPool checks that a job without a GPU type counts in the largest pool, and in the first among equals.
func TestLargestPool(t *testing.T) {
	gpu := topology.Gang{Replicas: 1, Each: topology.Resources{MilliGPU: 1000}}
	for want, pools := range map[string]estimate.Pools{
		"a": {{Name: estimate.NoGPUs, Size: 99}, {Name: "a", Size: 5}, {Name: "b", Size: 5}, {Name: "c", Size: 4}},
		"b": {{Name: "a", Size: 5}, {Name: "b", Size: 6}, {Name: "c", Size: 5}},
		"c": {{Name: estimate.NoGPUs, Size: 99}, {Name: "c", Size: 0}},
	} {
		if got := pools.Of(&gpu); got.Name != want {
			t.Errorf("it is of pool %s, want %s", got.Name, want)
		}
		typed := gpu
		typed.GPUType = "c"
		if got := pools.Of(&typed); got.Name != "c" {
			t.Errorf("one of type c is of pool %s", got.Name)
		}
	}
}
