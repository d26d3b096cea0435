package topology

import "testing"

// This file tests lost nodes, and removed tombstones.

// TestLost checks which nodes can no longer provide their part of a reservation. These are nodes that have left,
// unschedulable nodes without a backoff, and nodes that are now too small. A node that is only backed off can.
func TestLost(t *testing.T) {
	for _, x := range []struct {
		name  string
		do    func(f *Tree, h *Horizon, m Machine)
		wants bool
	}{
		{"open", func(*Tree, *Horizon, Machine) {}, false},
		{"full", func(f *Tree, _ *Horizon, m Machine) {
			f.Take(Placement{Slots: []Slot{{Node: m.ID, Amount: m.Total}}})
		}, false},
		{"closed", func(f *Tree, _ *Horizon, m Machine) { f.SetUsable(m.ID, "drained") }, true},
		{"backed off", func(f *Tree, h *Horizon, m Machine) {
			f.SetUsable(m.ID, "backed off")
			h.BackedOff(m.ID, 10)
		}, false},
		{"closed again after a bench", func(f *Tree, h *Horizon, m Machine) {
			f.SetUsable(m.ID, "drained")
			h.BackedOff(m.ID, 10)
			h.BackedOff(m.ID, 0)
		}, true},
		{"gone", func(f *Tree, _ *Horizon, m Machine) { f.Remove(m.ID) }, true},
		{"without a device", func(f *Tree, _ *Horizon, m Machine) {
			m.Total.MilliGPU -= WholeGPU
			f.Join(m, m.Idle())
		}, true},
	} {
		f := NewTree(nil)
		m := Machine{ID: "n1", Total: Resources{8, 8, 2 * WholeGPU}}
		f.Join(m, m.Idle())
		h := NewHorizon(f)
		x.do(f, h, m)
		half := Resources{4, 4, WholeGPU}
		place := Placement{Slots: []Slot{{Rank: 0, Node: m.ID, Amount: half}, {Rank: 1, Node: m.ID, Amount: half}}}
		if got := h.Lost(place); got != x.wants {
			t.Errorf("a machine that is %s: lost %t, not %t", x.name, got, x.wants)
		}
	}
}

// TestEveryDroppedTombstoneIsOver checks that no token counts as new after its tombstone was removed. A removal is
// caused by age or by the limit, and may remove one or many. The next higher token is still new.
func TestEveryDroppedTombstoneIsOver(t *testing.T) {
	for _, x := range []struct{ old, young int }{
		{1, 0}, {1, 1}, {2, 1}, {3, 5}, {0, tombstoneLimit + 1}, {0, tombstoneLimit + tombstoneLimit/8 + 1},
	} {
		tombs := tombstones{ageNs: 600e9}
		for n := range x.old {
			tombs.add(token(uint64(10+2*n)), false, 0)
		}
		for n := range x.young {
			tombs.add(token(uint64(1000+2*n)), true, 599e9)
		}
		tombs.add(token(1_000_000), true, 700e9)
		for n := range x.old {
			if past := tombs.past(token(uint64(10 + 2*n))); past != PastForgotten {
				t.Errorf("%v: token %d of those that grew old: %v", x, n, past)
			}
		}
		for n := range x.young {
			if past := tombs.past(token(uint64(1000 + 2*n))); !past.Over() {
				t.Fatalf("%v: token %d of the young ones is new", x, n)
			}
		}
		if tombs.past(token(999_999)).Over() || tombs.past(token(1_000_001)).Over() {
			t.Errorf("%v: a new token is over", x)
		}
	}
}
