package topology

// This file tests that a cached answer equals the answer of a search.

import (
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"testing"
)

// TestAgainAsEarliest asks questions in rounds, as planning passes do. Each answer is reserved for the following
// questions, and released before the next round. Between rounds, jobs end and start, nodes join, leave, are backed off
// and lose devices, and questions are added and removed. A horizon with a cache must give the same answers as one
// without.
func TestAgainAsEarliest(t *testing.T) {
	asked, spared := 0, 0
	for n := range max(40, *clusters/1000) {
		r := rand.New(rand.NewSource(*seed + int64(n)))
		w := &future{ends: map[NodeID][]End{}, backOff: map[NodeID]int64{}}
		w.levels = pickOne(r, []string{"rack"}, []string{"zone", "rack"}, []string{"zone", "rack"}, nil)
		sizes := pickOne(r, []int64{8}, []int64{4}, []int64{8}, []int64{0, 2, 4, 8})
		for i := range 20 + r.Intn(100) {
			w.spots = append(w.spots, randomSpot(r, w.levels, sizes, 3, i))
			w.spots[i].m.ID = NodeID(fmt.Sprintf("n%03d", (i*37)%271))
			w.spots[i].m.Place = nil
			for range w.levels {
				w.spots[i].m.Place = append(w.spots[i].m.Place, fmt.Sprint(r.Intn(5)))
			}
			w.drawLater(r, i)
		}
		f, h := w.horizon()
		var gangs []Gang
		for range 1 + r.Intn(6) {
			gangs = append(gangs, largeGang(r, w.levels))
		}
		m := &Findings{}
		for round := range 30 {
			m.Again()
			var keeps []KeepID
			for i, g := range gangs {
				by, from := Basis(r.Intn(20)/19), int64(round)*7
				was := spares(m)
				at, p, ok := h.EarliestAgain(&g, from, by, m)
				at2, p2, ok2 := h.Earliest(&g, from, by)
				if at != at2 || ok != ok2 || !reflect.DeepEqual(p, p2) {
					t.Fatalf("-cluster-seed=%d, round %d, gang %d %+v from %d by %d:\nremembered %d %v %v\nsearched   %d %v %v",
						*seed+int64(n), round, i, g, from, by, at, ok, p, at2, ok2, p2)
				}
				asked, spared = asked+tick(ok && at > from), spared+spares(m)-was
				if ok {
					keeps = append(keeps, KeepID(fmt.Sprint("k", i)))
					f.Keep(keeps[len(keeps)-1], p)
				}
			}
			for _, id := range keeps {
				f.Unkeep(id)
			}
			gangs = w.goOn(r, f, h, gangs)
		}
	}
	t.Logf("%d answers, %d of them remembered", asked, spared)
	if spared < asked/4 || spared > asked*19/20 {
		t.Error("too few were remembered, or too little changed")
	}
}

// spares counts the reused answers of this round.
func spares(m *Findings) (n int) {
	for _, f := range m.all { //order: a sum
		for _, last := range f.last {
			n += tick(last == nil)
		}
	}
	return n
}

// goOn makes some random changes, or none.
func (w *future) goOn(r *rand.Rand, f *Tree, h *Horizon, gangs []Gang) []Gang {
	for range r.Intn(3) {
		at := r.Intn(len(w.spots))
		s := &w.spots[at]
		id := s.m.ID
		switch r.Intn(12) {
		case 0:
			f.Remove(id)
			if r.Intn(2) == 0 {
				h.Remove(id)
			}
		case 1:
			f.Join(s.m, s.free)
		case 2:
			s.why = pickOne(r, "", "drained")
			f.SetUsable(id, s.why)
			h.BackedOff(id, pickOne(r, int64(0), 0, r.Int63n(5000)))
		case 3:
			if s.m.Total.MilliGPU > WholeGPU {
				s.m.Total.MilliGPU -= WholeGPU
				f.Join(s.m, s.free)
			}
		case 4:
			f.Keep("other", Placement{Slots: w.drawSlots(r)})
		case 5:
			f.Unkeep("other")
		default:
			w.drawLater(r, at)
			f.SetFree(id, s.free)
			h.Set(id, w.ends[id])
			h.BackedOff(id, w.backOff[id])
		}
	}
	switch at := r.Intn(len(gangs)); r.Intn(12) {
	case 0:
		gangs = append(gangs, largeGang(r, w.levels))
	case 1:
		gangs = append(slices.Clone(gangs), gangs[at])
	case 2:
		if len(gangs) > 1 {
			gangs = slices.Delete(slices.Clone(gangs), at, at+1)
		}
	}
	return gangs
}
