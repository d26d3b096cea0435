package topology

// This file tests reserved capacity, alone and with the horizon. After any changes in any order, reservations remain,
// and the horizon answers like a newly created one.

import (
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"testing"
)

// TestAReportErasesNothingKept changes the capacity of a node in every way, and checks each time that its reserved
// capacity is not given to other gangs.
func TestAReportErasesNothingKept(t *testing.T) {
	m := Machine{ID: "n1", Total: Resources{MilliCPU: 8000, MemoryBytes: 8 * gib, MilliGPU: 4 * WholeGPU}}
	kept := Placement{Slots: []Slot{{Node: "n1", Amount: Resources{MilliCPU: 6000, MilliGPU: 3 * WholeGPU}}}}
	other := Gang{Replicas: 1, Each: Resources{MilliGPU: 2 * WholeGPU}}
	f := NewTree(nil)
	f.Join(m, m.Idle())
	f.Keep("train", kept)
	busy := m.Idle()
	busy.WholeGPUs, busy.MilliCPU = 3, 7000
	for _, report := range []struct {
		name string
		tell func()
	}{
		{"kept", func() {}},
		{"less free", func() { f.SetFree("n1", busy) }},
		{"all free", func() { f.SetFree("n1", m.Idle()) }},
		{"closed and open", func() { f.SetUsable("n1", "drained"); f.SetUsable("n1", "") }},
		{"joined again", func() { f.Join(m, m.Idle()) }},
		{"left and joined", func() { f.Remove("n1"); f.Join(m, m.Idle()) }},
		{"left and rolled back", func() { mark := f.Mark(); f.Remove("n1"); f.Rollback(mark) }},
		{"kept by mistake and rolled back", func() { mark := f.Mark(); f.Unkeep("train"); f.Rollback(mark) }},
		{"copied", func() { f = f.Clone() }},
	} {
		report.tell()
		if p, refusal := Place(f, other); refusal == nil {
			t.Fatalf("%s: another gang is placed on what is kept: %v", report.name, p)
		}
		var r Refusal
		if _, ok := PlaceLent(f, &other, Lent{Of: []KeepID{"train"}}, &r); !ok {
			t.Fatalf("%s: what is lent is not free: %v", report.name, &r)
		}
	}
	gained := f.Gained()
	if f.Unkeep("train"); f.Gained() == gained {
		t.Error("room that is no longer kept was not gained")
	}
	if _, refusal := Place(f, other); refusal != nil {
		t.Errorf("what is no longer kept is not free: %v", refusal)
	}
}

// TestKeptRoomThatGrowsIsGained gives a node more capacity, all of which is reserved. The remainder does not grow, but
// more capacity can be lent.
func TestKeptRoomThatGrowsIsGained(t *testing.T) {
	m := Machine{ID: "n1", Total: Resources{MilliCPU: 8000}}
	f := NewTree(nil)
	f.Join(m, Capacity{})
	f.Keep("train", Placement{Slots: []Slot{{Node: "n1", Amount: m.Total}}})
	gained := f.Gained()
	f.SetFree("n1", Capacity{MilliCPU: 1000})
	small := Gang{Replicas: 1, Each: Resources{MilliCPU: 1000}}
	var r Refusal
	if _, ok := PlaceLent(f, &small, Lent{All: true}, &r); !ok || f.Gained() == gained {
		t.Errorf("lent %v, gained %v", ok, f.Gained() > gained)
	}
	if _, refusal := Place(f, small); refusal == nil {
		t.Error("what came free and is kept was given away")
	}
}

// TestKeptRoomGivenBackIsGained checks that a gang which was refused because of a reservation is tried again after its
// release.
func TestKeptRoomGivenBackIsGained(t *testing.T) {
	m := Machine{ID: "n1", Total: Resources{MilliCPU: 8000}}
	f := NewTree(nil)
	f.Join(m, Capacity{MilliCPU: 8000})
	f.Keep("train", Placement{Slots: []Slot{{Node: "n1", Amount: m.Total}}})
	small := Gang{Replicas: 1, Each: Resources{MilliCPU: 1000}}
	if _, refusal := Place(f, small); refusal == nil {
		t.Error("what is kept was given away")
	}
	gained := f.Gained()
	f.Unkeep("train")
	if _, refusal := Place(f, small); refusal != nil || f.Gained() == gained {
		t.Errorf("refused: %v; gained: %v", refusal, f.Gained() > gained)
	}
}

func TestKeptShares(t *testing.T) {
	for _, test := range []struct {
		free  Capacity
		kept  []int64 // thousandths
		whole int32
		parts []int64
	}{
		{Capacity{WholeGPUs: 2}, []int64{500}, 1, []int64{500}},
		{Capacity{WholeGPUs: 1, Parts: []int64{700, 600}}, []int64{500}, 1, []int64{700, 100}},
		{Capacity{Parts: []int64{700}}, []int64{800}, 0, nil}, // the part that grows to 800 may be the 700
		{Capacity{Parts: []int64{900, 700}}, []int64{1000}, 0, nil},
		// Both on one device.
		{Capacity{WholeGPUs: 1, Parts: []int64{600}}, []int64{500, 500}, 0, []int64{600}},
		{Capacity{WholeGPUs: 1}, []int64{2000}, 0, nil},
		{Capacity{WholeGPUs: 3, Parts: []int64{200}}, []int64{2000, 300}, 0, []int64{700, 200}},
	} {
		m := Machine{ID: "n1", Total: Resources{MilliGPU: 4 * WholeGPU}}
		f := NewTree(nil)
		f.Join(m, test.free)
		for i, milli := range test.kept {
			f.Keep(KeepID(fmt.Sprint(i)), Placement{Slots: []Slot{{Node: "n1", Amount: Resources{MilliGPU: milli}}}})
		}
		s := f.seats["n1"]
		if room := s.shelf.rooms[0]; room.whole != test.whole || !slices.Equal(s.parts, test.parts) {
			t.Errorf("%+v less %v: %d whole and %v, not %+v", test.free, test.kept, room.whole, s.parts, test)
		}
	}
}

// step makes one random change to the tree, the horizon and the reference world.
func (w *future) step(r *rand.Rand, f *Tree, h *Horizon) {
	at := r.Intn(len(w.spots))
	s := &w.spots[at]
	id := s.m.ID
	switch r.Intn(8) {
	case 0:
		fresh := randomSpot(r, w.levels, []int64{s.m.Total.MilliGPU / WholeGPU}, 3, 0)
		s.free = fresh.free
		f.SetFree(id, s.free)
	case 1:
		s.why = pickOne(r, "", "benched: refused twice")
		f.SetUsable(id, s.why)
	case 2:
		free := s.free
		w.drawTime(r, at)
		s.free = free
		h.Set(id, w.ends[id])
		h.BackedOff(id, w.backOff[id])
	case 3:
		fresh := randomSpot(r, w.levels, []int64{0, 1, 2, 4}, 2, r.Intn(13))
		fresh.why = ""
		if i := slices.IndexFunc(w.spots, func(s spot) bool { return s.m.ID == fresh.m.ID }); i >= 0 {
			w.spots[i] = fresh
		} else {
			w.spots = append(w.spots, fresh)
		}
		f.Join(fresh.m, fresh.free)
	case 4:
		if len(w.spots) > 1 {
			f.Remove(id)
			w.spots = slices.Delete(w.spots, at, at+1)
		}
	case 5:
		delete(w.ends, id)
		delete(w.backOff, id)
		h.Remove(id)
	default:
		w.rekeep(r, f)
	}
}

// rekeep changes or removes one reservation. Sometimes it does so on a mark and rolls back.
func (w *future) rekeep(r *rand.Rand, f *Tree) {
	k := w.drawKeep(r, r.Intn(3))
	if r.Intn(3) == 0 {
		mark := f.Mark()
		f.KeepFrom(k.id, Placement{Slots: k.slots}, k.from)
		Place(f, w.gang)
		f.Rollback(mark)
		return
	}
	w.keeps = slices.DeleteFunc(w.keeps, func(old keep) bool { return old.id == k.id })
	if len(k.slots) > 0 {
		w.keeps = append(w.keeps, k)
	}
	f.KeepFrom(k.id, Placement{Slots: k.slots}, k.from)
}

// TestHorizonFollowsChanges changes a tree and its horizon, and asks after each change. The horizon must answer like
// brute force and like a new horizon. Placements must use the capacity that is neither reserved nor lent.
func TestHorizonFollowsChanges(t *testing.T) {
	for i := range *clusters / 40 {
		r := rand.New(rand.NewSource(*seed + int64(i)))
		w := randomFuture(r)
		f, h := w.horizon()
		gangs := []Gang{w.gang, randomGang(r, w.levels)}
		for range 6 {
			w.step(r, f, h)
			w.gang = pickOne(r, gangs...)
			by := Basis(r.Intn(int(bases)))
			if _, problem := w.differs(h, by); problem != "" {
				t.Fatalf("-cluster-seed=%d: %s\n%v", *seed+int64(i), problem, w)
			}
			at, p, ok := h.Earliest(&w.gang, w.from, by)
			_, fresh := w.horizon()
			if at2, p2, ok2 := fresh.Earliest(&w.gang, w.from, by); at != at2 || ok != ok2 || !reflect.DeepEqual(p, p2) {
				t.Fatalf("at %d %v %v, afresh at %d %v %v\n%v", at, ok, p, at2, ok2, p2, w)
			}
			if problem := w.lends(r, f); problem != "" {
				t.Fatalf("-cluster-seed=%d: %s\n%v", *seed+int64(i), problem, w)
			}
		}
		checkLenses(t, f)
	}
}

// lends compares a placement now with the oracle, on the capacity without the reservations that are not lent.
func (w *future) lends(r *rand.Rand, f *Tree) string {
	less := *w
	less.keeps = nil
	lent := Lent{All: r.Intn(4) == 0}
	for _, k := range w.keeps {
		if lent.All || r.Intn(2) == 0 {
			lent.Of = append(lent.Of, k.id)
		} else {
			less.keeps = append(less.keeps, k)
		}
	}
	now := less.world
	now.spots = slices.Clone(w.spots)
	for i := range now.spots {
		s := &now.spots[i]
		relief := w.leaving(s)
		if got := f.Leaving(s.m.ID); got != relief {
			return fmt.Sprintf("from %s leaves %+v first, and not %+v", s.m.ID, relief, got)
		}
		used := s.m.Total.Minus(Resources{s.free.MilliCPU, s.free.MemoryBytes, int64(s.free.WholeGPUs) * WholeGPU})
		relief = Resources{}.besides(Resources{ // at most the used amount
			-min(relief.MilliCPU, used.MilliCPU), -min(relief.MemoryBytes, used.MemoryBytes),
			-min(relief.MilliGPU, used.MilliGPU)})
		s.free = less.beside(s, relief)
	}
	var refusal Refusal
	p, ok := PlaceLent(f, &w.gang, lent, &refusal)
	p2, refusal2 := Place(now.tree(inOrder(len(now.spots))), w.gang)
	if !reflect.DeepEqual(p, p2) || ok != (refusal2 == nil) || ok != (now.place(w.gang) >= 0) {
		return fmt.Sprintf("lent %v: %v %v, brute force says %v %v", lent, p, &refusal, p2, refusal2)
	}
	return ""
}

// TestKeptShareBesideTooMuch checks that the remainder next to a reserved share never shrinks as more becomes free,
// even if more ends on the node than it has. Otherwise a search at a later time would find less than expected, and
// panic.
func TestKeptShareBesideTooMuch(t *testing.T) {
	f := NewTree([]string{"rack"})
	m := Machine{ID: "n1", Place: []string{"r1"}, Total: Resources{8000, 8 * gib, 8 * WholeGPU}}
	f.Join(m, Capacity{MilliCPU: 8000, MemoryBytes: 8 * gib, WholeGPUs: 7, Parts: []int64{194}})
	f.Keep("k", Placement{Slots: []Slot{{Node: "n1", Amount: Resources{MilliGPU: 1}}}})
	h := NewHorizon(f)
	h.Set("n1", []End{
		{Amount: Resources{MilliGPU: 5 * WholeGPU}, Hard: 10, Likely: 10},
		{Amount: Resources{MilliGPU: 806}, Hard: 20, Likely: 20},
	})
	most := int64(0)
	for _, step := range courseOf(nil, f.seats["n1"], h.machines["n1"], ByLimit, nil) {
		if int64(step.room.whole) < most {
			t.Errorf("from %d on %d whole devices are left, and %d were before", step.at, step.room.whole, most)
		}
		most = int64(step.room.whole)
	}
	g := Gang{Replicas: 1, Each: Resources{MilliGPU: 8 * WholeGPU}}
	if at, p, ok := h.Earliest(&g, 0, ByLimit); ok {
		t.Errorf("all of a machine at %d, of which a share is kept: %v", at, p)
	}
}
