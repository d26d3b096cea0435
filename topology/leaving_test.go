package topology

// This file tests the amount that leaves a node before its reservations begin. It compares the amount with brute force
// over all sets of attempts that may have left, and checks it after changes of the ends.

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
)

// leaving computes the leaving amount of a node in the simplest way.
func (w *future) leaving(s *spot) (sum Resources) {
	var kept []keep
	for _, k := range w.keeps {
		if slices.ContainsFunc(k.slots, func(slot Slot) bool { return slot.Node == s.m.ID }) {
			kept = append(kept, k)
		}
	}
	// At most the used amount leaves that does not stay, and each share has a separate device.
	used := s.m.Total.Minus(Resources{s.free.MilliCPU, s.free.MemoryBytes, int64(s.free.WholeGPUs) * WholeGPU})
	used.MilliGPU += int64(s.m.Broken) * WholeGPU
	ends := w.ends[s.m.ID]
	for i, e := range ends {
		together := e.Amount
		if e.Of != "" {
			together = Resources{}
			for _, o := range ends {
				if o.Of == e.Of && o.Hard == e.Hard {
					together = together.Plus(o.Amount)
				}
			}
		}
		first := len(kept) > 0
		for _, k := range kept {
			room := s.m.Total.Minus(together)
			for _, slot := range k.slots {
				if slot.Node == s.m.ID {
					room = room.Minus(slot.Amount)
				}
			}
			first = first && (ends[i].Hard <= k.from || room.IsNegative())
		}
		whole := Resources{e.Amount.MilliCPU, e.Amount.MemoryBytes, e.Amount.MilliGPU / WholeGPU * WholeGPU}
		if e.Amount.MilliGPU > whole.MilliGPU {
			used.MilliGPU -= WholeGPU
		}
		if first {
			sum = sum.Plus(whole)
		} else {
			used = used.Minus(whole)
		}
	}
	return Resources{max(0, min(sum.MilliCPU, used.MilliCPU)), max(0, min(sum.MemoryBytes, used.MemoryBytes)),
		max(0, min(sum.MilliGPU, used.MilliGPU))}
}

// TestWhoStandsBesideDelaysNobody checks that a job which runs next to a reservation may run for any time without
// delaying it. For every set of attempts that may have left, the reservation can begin as it could without the job.
func TestWhoStandsBesideDelaysNobody(t *testing.T) {
	placed, sooner := 0, 0
	for n := range *clusters / 4 {
		r := rand.New(rand.NewSource(*seed + int64(n)))
		m := Machine{ID: "n1", Total: Resources{8, 8, 4 * WholeGPU}}
		draw := func() Resources { return Resources{r.Int63n(6), r.Int63n(6), r.Int63n(5) * WholeGPU} }
		f := NewTree(nil)
		f.Join(m, m.Idle())
		h := NewHorizon(f)
		rest := m.Total
		var ends []End
		for i := range r.Intn(4) {
			e := End{Amount: draw(), Hard: pickOne(r, int64(5), 10, 15, Never), Of: JobID(fmt.Sprint(i))}
			if e.Amount.Within(rest) {
				rest, ends = rest.Minus(e.Amount), append(ends, e)
				f.Take(Placement{Slots: []Slot{{Node: m.ID, Amount: e.Amount}}})
			}
		}
		h.Set(m.ID, ends)
		kept, from := make([]Resources, 1+r.Intn(2)), pickOne(r, int64(0), 5, 10)
		whole := f.Clone()
		for i := range kept {
			kept[i] = draw()
			p := Placement{Slots: []Slot{{Node: m.ID, Amount: kept[i]}}}
			f.KeepFrom(KeepID(fmt.Sprint(i)), p, from)
			whole.Keep(KeepID(fmt.Sprint(i)), p)
		}
		g := Gang{Replicas: 1, Each: draw()}
		if g.Each.IsZero() {
			continue
		}
		if _, refusal := Place(f, g); refusal != nil {
			continue
		}
		placed++
		if _, refusal := Place(whole, g); refusal != nil {
			sooner++
		}
		for left := range 1 << len(ends) { // these attempts have left, and those whose limit has passed
			free := m.Total
			for i, e := range ends {
				if left>>i&1 == 0 && e.Hard > from {
					free = free.Minus(e.Amount)
				}
			}
			for begins := 1; begins < 1<<len(kept); begins++ {
				sum := Resources{}
				for i := range kept {
					if begins>>i&1 == 1 {
						sum = sum.Plus(kept[i])
					}
				}
				if sum.Within(free) && !sum.Plus(g.Each).Within(free) {
					t.Fatalf("-cluster-seed=%d: %+v of %v begin at %d when %b of %+v have left, and not beside %+v",
						*seed+int64(n), sum, kept, from, left, ends, g.Each)
				}
			}
		}
	}
	if sooner < placed/20 {
		t.Errorf("of %d jobs %d have a place only because of what leaves first: that shows nothing", placed, sooner)
	}
}

// TestLeavingFollowsTheEnds checks which attempts count as leaving. An attempt that the reservation must wait for frees
// its memory with its devices, whatever its limit. Any other attempt counts only if its limit ends in time. An attempt
// that has left does not count again, and a node with a broken device is not treated as a smaller node.
func TestLeavingFollowsTheEnds(t *testing.T) {
	m := Machine{ID: "n1", Total: Resources{MilliCPU: 16_000, MemoryBytes: 10, MilliGPU: 8 * WholeGPU}}
	has := Resources{MilliCPU: 1000, MemoryBytes: 4, MilliGPU: 4 * WholeGPU}
	on := func(amount Resources) Placement { return Placement{Slots: []Slot{{Node: "n1", Amount: amount}}} }
	for _, test := range []struct {
		name   string
		kept   int64 // devices
		from   int64
		hard   int64
		broken int32
		then   func(f *Tree, h *Horizon)
		left   int64 // memory, for a small job
	}{
		{"it must leave", 8, 0, Never, 0, nil, 4},
		{"both fit", 4, 0, Never, 0, nil, 0},
		{"both fit, and it leaves in time", 4, 90, 90, 0, nil, 4},
		{"both fit, and it leaves too late", 4, 90, 91, 0, nil, 0},
		{"it may have the broken device", 4, 0, Never, 1, nil, 0},
		{"it has left, and its machine's report is here", 8, 0, Never, 0, func(f *Tree, _ *Horizon) {
			f.SetFree("n1", m.Idle())
		}, 4},
		{"its job is given back", 8, 0, Never, 0, func(f *Tree, _ *Horizon) { f.Give(on(has)) }, 4},
		{"its end is not known", 8, 0, Never, 0, func(_ *Tree, h *Horizon) { h.Set("n1", nil) }, 0},
		{"it joins again", 8, 0, Never, 0, func(f *Tree, _ *Horizon) {
			free, _ := f.Free("n1")
			f.Remove("n1")
			f.Join(m, free)
		}, 4},
		{"it is told of later", 8, 0, Never, 0, func(f *Tree, h *Horizon) {
			h.Remove("n1")
			h.Set("n1", []End{{Amount: has, Hard: Never, Likely: 5}})
		}, 4},
		{"another is kept beside it", 8, 0, Never, 0, func(f *Tree, h *Horizon) {
			f.Keep("other", on(Resources{MilliCPU: 1}))
		}, 0},
	} {
		f := NewTree(nil)
		at := m
		at.Broken, at.Total.MilliGPU = test.broken, m.Total.MilliGPU-int64(test.broken)*WholeGPU
		f.Join(at, at.Idle())
		h := NewHorizon(f)
		f.Take(on(has))
		h.Set("n1", []End{{Amount: has, Hard: test.hard, Likely: 5}})
		f.KeepFrom("big", on(Resources{MemoryBytes: 6, MilliGPU: test.kept * WholeGPU}), test.from)
		if test.then != nil {
			test.then(f, h)
		}
		for _, asked := range []*Tree{f, f.Clone()} {
			for memory := range int64(8) {
				_, refusal := Place(asked, Gang{Replicas: 1, Each: Resources{MilliCPU: 1, MemoryBytes: memory}})
				if fits := refusal == nil; fits != (memory <= test.left) {
					t.Errorf("%s: a job that needs %d fits: %v", test.name, memory, fits)
				}
			}
		}
	}
}

// TestBrokenDevicesDoNotComeBack checks two leaving devices, one of which may be broken. Only one of them is certain to
// be available for the reservation. Otherwise a job that stays would get a reserved device (seed 8787 of the small
// world with queues).
func TestBrokenDevicesDoNotComeBack(t *testing.T) {
	m := Machine{ID: "n1", Total: Resources{MilliCPU: 8, MemoryBytes: 8, MilliGPU: 3 * WholeGPU}, Broken: 1}
	f := NewTree(nil)
	f.Join(m, Capacity{MilliCPU: 8, MemoryBytes: 8, WholeGPUs: 2})
	h := NewHorizon(f)
	h.Set(m.ID, []End{{Amount: Resources{MilliGPU: 2 * WholeGPU}, Hard: 10, Of: "leaves"}})
	f.KeepFrom("kept", Placement{Slots: []Slot{{Node: m.ID, Amount: Resources{MilliGPU: 3 * WholeGPU}}}}, 20)
	for _, asked := range []*Tree{f, f.Clone()} {
		if _, refusal := Place(asked, Gang{Replicas: 1, Each: Resources{MilliCPU: 1, MilliGPU: WholeGPU}}); refusal == nil {
			t.Error("a device that is kept was given away")
		}
		if _, refusal := Place(asked, Gang{Replicas: 1, Each: Resources{MilliCPU: 1}}); refusal != nil {
			t.Errorf("a job without devices: %v", refusal)
		}
	}
}

// TestWhatHasLeftDoesNotLeave checks that a job which is still known although its node reports everything as free does
// not relieve a reservation. Otherwise the rest of a lent device would be given to a job that may stay for any time.
func TestWhatHasLeftDoesNotLeave(t *testing.T) {
	m := Machine{ID: "n1", Total: Resources{8, 8, 2 * WholeGPU}}
	f := NewTree(nil)
	f.Join(m, m.Idle())
	h := NewHorizon(f)
	gone := End{Amount: Resources{4, 4, 2 * WholeGPU}, Hard: 10, Of: "gone"}
	h.Set(m.ID, []End{gone})
	f.KeepFrom("kept", Placement{Slots: []Slot{{Node: m.ID, Amount: Resources{4, 4, 2 * WholeGPU}}}}, 20)
	share := Resources{1, 1, 250}
	if _, refusal := Place(f, Gang{Replicas: 1, Each: share}); refusal == nil {
		t.Error("a share of a kept device was given away")
	}
	f.Take(Placement{Slots: []Slot{{Node: m.ID, Amount: share}}}) // backfilled, and returned in time
	h.Set(m.ID, []End{gone, {Amount: share, Hard: 15, Of: "lent"}})
	if _, refusal := Place(f, Gang{Replicas: 1, Each: share}); refusal == nil {
		t.Error("the rest of a lent device was given away")
	}
}
