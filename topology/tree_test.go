package topology

// This file tests the topology tree. After any changes in any order, it must answer like the oracle, and its sums must
// be correct.

import (
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawWorld draws a random cluster. Later changes are drawn one by one, so that a failing test shrinks to the necessary
// changes.
func drawWorld(t *rapid.T) world {
	return randomWorld(rand.New(rand.NewSource(rapid.Int64Range(0, 1<<20).Draw(t, "world"))))
}

// change makes one random change to the tree and to the nodes of the oracle.
func change(t *rapid.T, w *world, f *Tree) {
	r := rand.New(rand.NewSource(rapid.Int64Range(0, 1<<20).Draw(t, "change")))
	kind := rapid.SampledFrom([]string{"free", "usable", "lost", "join", "remove", "place", "shrink"}).Draw(t, "kind")
	if len(w.spots) == 0 {
		kind = "join"
	}
	at := 0
	if len(w.spots) > 0 {
		at = r.Intn(len(w.spots))
	}
	switch kind {
	case "free":
		fresh := randomSpot(r, w.levels, []int64{w.spots[at].m.Total.MilliGPU / WholeGPU}, 3, 0)
		fresh.free.MilliCPU = min(fresh.free.MilliCPU, w.spots[at].m.Total.MilliCPU)
		fresh.free.MemoryBytes = min(fresh.free.MemoryBytes, w.spots[at].m.Total.MemoryBytes)
		w.spots[at].free = fresh.free
		f.SetFree(w.spots[at].m.ID, fresh.free)
	case "usable":
		w.spots[at].why = pickOne(r, "", "benched: refused twice")
		f.SetUsable(w.spots[at].m.ID, w.spots[at].why)
	case "lost": // its agent is silent, and the view has no free capacity there
		w.spots[at].why, w.spots[at].free = "dead", Capacity{}
		f.SetUsable(w.spots[at].m.ID, w.spots[at].why)
		f.SetFree(w.spots[at].m.ID, w.spots[at].free)
	case "join", "shrink":
		fresh := randomSpot(r, w.levels, []int64{0, 1, 2, 4}, 2, r.Intn(13))
		fresh.why = ""
		i := slices.IndexFunc(w.spots, func(s spot) bool { return s.m.ID == fresh.m.ID })
		if i < 0 && len(w.spots) == 12 {
			return
		}
		if i < 0 {
			w.spots = append(w.spots, fresh)
		} else {
			if kind == "shrink" {
				fresh.m.Place = w.spots[i].m.Place
			}
			w.spots[i] = fresh
		}
		f.Join(fresh.m, fresh.free)
	case "remove":
		f.Remove(w.spots[at].m.ID)
		w.spots = slices.Delete(w.spots, at, at+1)
	case "place":
		if p, refusal := Place(f, w.gang); refusal == nil {
			f.Take(p)
			for i := range w.spots {
				w.spots[i].free, _ = f.Free(w.spots[i].m.ID)
			}
		}
	}
}

// TestFabricFollowsChanges changes one tree repeatedly and compares every answer with the oracle, so that an index
// which missed a change is detected.
func TestFabricFollowsChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		f := w.tree(inOrder(len(w.spots)))
		gangs := []Gang{w.gang}
		for range 3 {
			gangs = append(gangs, randomGang(rand.New(rand.NewSource(rapid.Int64Range(0, 1<<20).Draw(t, "gang"))), w.levels))
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			change(t, &w, f)
			for _, g := range gangs {
				w.gang = g
				if _, problem := compare(&w, f); problem != "" {
					t.Fatalf("%s\n%v", problem, w)
				}
				if ok, _ := Feasible(f, g); ok != w.everFits() {
					t.Fatalf("feasible %v\n%v", ok, w)
				}
			}
			checkLenses(t, f)
		}
	})
}

// TestAMachineThatLeavesIsCountedNoMore removes nodes without free capacity that were unschedulable, and checks that
// their totals no longer count. The position of the first node has no special role.
func TestAMachineThatLeavesIsCountedNoMore(t *testing.T) {
	for _, gone := range []NodeID{"n1", "n2", "n3"} {
		f := NewTree(nil)
		m := Machine{Total: Resources{MilliCPU: 8000, MilliGPU: 8000}}
		for _, m.ID = range []NodeID{"n1", "n2", "n3"} {
			f.Join(m, Capacity{})
		}
		f.SetUsable(gone, "dead")
		g := Gang{Replicas: 1, Each: Resources{MilliGPU: 1000}}
		if _, refusal := Place(f, g); refusal.Total != 24 {
			t.Errorf("three machines have %d GPUs, not 24", refusal.Total)
		}
		f.Remove(gone)
		if _, refusal := Place(f, g); refusal.Total != 16 {
			t.Errorf("without %s the others have %d GPUs, not 16", gone, refusal.Total)
		}
	}
}

// checkLenses counts everything again and compares.
func checkLenses(t rapid.TB, f *Tree) {
	for _, l := range f.lenses.all {
		l.refresh(f)
		fresh := &lens{lensKey: l.lensKey, selects: l.selects, named: l.named, out: l.out, lends: l.lends, special: l.special}
		fresh.prepare()
		fresh.refresh(f)
		if !slices.Equal(l.cells, fresh.cells) || l.loose != fresh.loose || l.whole != fresh.whole {
			t.Fatalf("a lens missed a change:\n%v\n%v", l.cells, fresh.cells)
		}
		for i := range l.tiers {
			a, b := &l.tiers[i], &fresh.tiers[i]
			if !slices.Equal(a.units, b.units) || !slices.Equal(a.free, b.free) || !slices.Equal(a.total, b.total) {
				t.Fatalf("sums differ: %v %v", a, b)
			}
			if b.rank(); a.ranked && !slices.Equal(a.order, b.order) {
				t.Fatalf("the order differs: %x %x", a.order, b.order)
			}
		}
	}
}

// state returns everything that a tree has been given.
func (f *Tree) state() string {
	text := ""
	f.Walk(func(m Machine, free Capacity, why string) {
		text += fmt.Sprintf("%+v %+v %q\n", m, free, why)
		f.EachKept(m.ID, func(id KeepID, amount Resources) { text += fmt.Sprintf("kept for %s %+v\n", id, amount) })
	})
	return text + fmt.Sprint(f.kept.by)
}

// TestRollback reverts all changes after a mark, including nested marks.
func TestRollback(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		f := w.tree(inOrder(len(w.spots)))
		spots, before := slices.Clone(w.spots), f.state()
		outer := f.Mark()
		for range rapid.IntRange(0, 6).Draw(t, "outer steps") {
			change(t, &w, f)
			keepOrNot(t, f)
		}
		middle, inner := f.state(), f.Mark()
		for range rapid.IntRange(0, 6).Draw(t, "inner steps") {
			change(t, &w, f)
			keepOrNot(t, f)
		}
		if rapid.Bool().Draw(t, "accept") {
			f.Accept(inner)
		} else if f.Rollback(inner); f.state() != middle {
			t.Fatalf("the inner rollback left\n%s\nnot\n%s", f.state(), middle)
		}
		f.Rollback(outer)
		if f.state() != before {
			t.Fatalf("the rollback left\n%s\nnot\n%s", f.state(), before)
		}
		w.spots = spots
		if _, problem := compare(&w, f); problem != "" {
			t.Fatal(problem)
		}
	})
}

// keepOrNot changes or removes one of two reservations.
func keepOrNot(t *rapid.T, f *Tree) {
	var p Placement
	for range rapid.IntRange(0, 2).Draw(t, "kept slots") {
		id := NodeID(fmt.Sprintf("n%02d", rapid.IntRange(0, 12).Draw(t, "where")))
		p.Slots = append(p.Slots, Slot{Node: id, Amount: Resources{MilliCPU: 500, MilliGPU: 300}})
	}
	f.Keep(KeepID(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "for")), p)
}

// TestJoinOrderDoesNotMatter compares placements on clusters whose nodes joined in different orders.
func TestJoinOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		p, refusal := Place(w.tree(inOrder(len(w.spots))), w.gang)
		order := rapid.Permutation(inOrder(len(w.spots))).Draw(t, "order")
		p2, refusal2 := Place(w.tree(order), w.gang)
		if !reflect.DeepEqual(p, p2) || refusal.String() != refusal2.String() {
			t.Fatalf("%v %v\n%v %v\n%v", p, refusal, p2, refusal2, w)
		}
	})
}

// TestMoreRoomNeverTurnsYesIntoNo frees more capacity and places again.
func TestMoreRoomNeverTurnsYesIntoNo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		f := w.tree(inOrder(len(w.spots)))
		_, before := Place(f, w.gang)
		s := w.spots[rapid.IntRange(0, len(w.spots)-1).Draw(t, "machine")]
		gained := f.Gained()
		more := s.free
		switch rapid.IntRange(0, 3).Draw(t, "what") {
		case 0:
			more.MilliCPU = rapid.Int64Range(s.free.MilliCPU, s.m.Total.MilliCPU).Draw(t, "cpu")
		case 1:
			more.MemoryBytes = rapid.Int64Range(s.free.MemoryBytes, s.m.Total.MemoryBytes).Draw(t, "memory")
		case 2:
			more.WholeGPUs = rapid.Int32Range(s.free.WholeGPUs, int32(s.m.Total.MilliGPU/WholeGPU)).Draw(t, "gpus")
		case 3:
			f.SetUsable(s.m.ID, "")
		}
		f.SetFree(s.m.ID, more)
		_, after := Place(f, w.gang)
		if before == nil && after != nil {
			t.Fatalf("refused with more room: %v\n%v", after, w)
		}
		if before != nil && after == nil && f.Gained() == gained {
			t.Fatalf("it fits now, but nothing was gained\n%v", w)
		}
	})
}

// TestTakeAndGiveBalance takes placements until nothing fits and gives them back in another order.
func TestTakeAndGiveBalance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		f := w.tree(inOrder(len(w.spots)))
		sum := func() (r Resources) {
			f.Walk(func(_ Machine, free Capacity, _ string) {
				r = r.Plus(Resources{free.MilliCPU, free.MemoryBytes, free.MilliGPU()})
			})
			return r
		}
		before := sum()
		var taken []Placement
		for len(taken) < 20 {
			p, refusal := Place(f, w.gang)
			if refusal != nil {
				break
			}
			f.Take(p)
			taken = append(taken, p)
		}
		for _, s := range w.spots {
			if c, _ := f.Free(s.m.ID); c.MilliCPU < 0 || c.MemoryBytes < 0 || c.WholeGPUs < 0 {
				t.Fatalf("%s is overdrawn: %+v\n%v", s.m.ID, c, w)
			}
		}
		for _, p := range rapid.Permutation(taken).Draw(t, "order") {
			f.Give(p)
		}
		if after := sum(); after != before {
			t.Fatalf("%v free before, %v after\n%v", before, after, w)
		}
	})
}

// TestManyMachinesInOneDomain checks a domain of several shelves through joins and removals that split and empty
// shelves.
func TestManyMachinesInOneDomain(t *testing.T) {
	r := rand.New(rand.NewSource(5))
	f := NewTree([]string{"rack"})
	known := map[NodeID]bool{}
	g := Gang{Replicas: 3, Each: Resources{MilliCPU: 100, MilliGPU: 2000}}
	for step := range 3000 {
		m := Machine{ID: NodeID(fmt.Sprintf("n%03d", r.Intn(200))), Place: []string{fmt.Sprint(r.Intn(2))},
			Total: Resources{MilliCPU: 8000, MilliGPU: 8000}}
		if r.Intn(3) == 0 || step > 2800 {
			f.Remove(m.ID)
			delete(known, m.ID)
		} else {
			c := m.Idle()
			c.WholeGPUs = int32(r.Intn(4))
			f.Join(m, c)
			known[m.ID] = true
		}
		if step%10 != 0 {
			continue
		}
		p, refusal := Place(f, g)
		p2, refusal2 := Place(f.Clone(), g)
		if !reflect.DeepEqual(p, p2) || refusal.String() != refusal2.String() {
			t.Fatalf("step %d: %v %v, a fresh tree says %v %v", step, p, refusal, p2, refusal2)
		}
		seen := 0
		f.Walk(func(m Machine, _ Capacity, _ string) {
			if seen++; !known[m.ID] {
				t.Fatalf("%s is still there", m.ID)
			}
		})
		if seen != len(known) || f.Len() != seen {
			t.Fatalf("%d machines walked, %d known, %d counted", seen, len(known), f.Len())
		}
	}
}

func TestParts(t *testing.T) {
	c := Capacity{WholeGPUs: 2}
	half, third, fifth := Resources{MilliGPU: 500}, Resources{MilliGPU: 300}, Resources{MilliGPU: 200}
	steps := []struct {
		take   bool
		amount Resources
		whole  int32
		parts  []int64
	}{
		{true, half, 1, []int64{500}},
		{true, third, 1, []int64{200}},
		{true, third, 0, []int64{700, 200}},
		{false, half, 0, []int64{700, 700}},
		{false, third, 1, []int64{700}},
		{false, third, 2, nil},
		{true, half, 1, []int64{500}},
		{true, third, 1, []int64{200}},
		{true, third, 0, []int64{700, 200}},
		{true, fifth, 0, []int64{700}}, // the smallest part that holds it
	}
	for i, s := range steps {
		if s.take {
			c = c.Less(s.amount)
		} else {
			c = c.More(s.amount)
		}
		if c.WholeGPUs != s.whole || !slices.Equal(c.Parts, s.parts) {
			t.Fatalf("step %d: %+v, want %d whole and %v", i, c, s.whole, s.parts)
		}
	}
}

// TestLargeDomainsAgainstOracle compares clusters with many nodes per rack, for gangs for which the oracle can still
// try everything.
func TestLargeDomainsAgainstOracle(t *testing.T) {
	for n := range *clusters / 40 {
		r := rand.New(rand.NewSource(int64(n)))
		w := world{oracle: oracle{levels: pickOne(r, []string{"rack"}, []string{"zone", "rack"}, nil)}}
		for i := range 20 + r.Intn(130) {
			s := randomSpot(r, w.levels, []int64{0, 2, 4, 8}, 3, i)
			s.m.ID = NodeID(fmt.Sprintf("n%03d", (i*37)%151))
			w.spots = append(w.spots, s)
		}
		f := w.tree(inOrder(len(w.spots)))
		for range 6 {
			w.gang = randomGang(r, w.levels)
			w.gang.Replicas *= 1 + r.Int31n(30)
			if w.gang.Split != SplitNone {
				w.gang.Split = SplitAny
				w.gang.Total = w.gang.Total.times(1 + r.Int63n(20))
			} else if w.gang.Each.MilliGPU%WholeGPU != 0 {
				w.gang.Replicas = 1
			}
			ok, problem := compare(&w, f)
			if problem != "" {
				t.Fatalf("cluster %d: %s\n%v", n, problem, w)
			}
			if ok {
				p, _ := Place(f, w.gang)
				f.Take(p)
				for i := range w.spots {
					w.spots[i].free, _ = f.Free(w.spots[i].m.ID)
				}
			}
		}
	}
}
