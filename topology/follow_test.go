package topology

// This file tests that a follower always gives the same answers as its tree.

import (
	"fmt"
	"math/rand"
	"reflect"
	"testing"
)

// pictured formats the whole visible state of a tree.
func pictured(f *Tree) string {
	text := ""
	f.Walk(func(m Machine, free Capacity, why string) {
		text += fmt.Sprintf("%+v has %+v, %q, %+v leaves;", m, free, why, f.Leaving(m.ID))
		f.EachKept(m.ID, func(id KeepID, amount Resources) { text += fmt.Sprintf(" %s keeps %+v;", id, amount) })
		text += "\n"
	})
	return text
}

// stir makes one random change to a tree.
func stir(r *rand.Rand, f *Tree, w *world) {
	s := pickOne(r, w.spots...)
	slots := Placement{Slots: []Slot{{Node: s.m.ID, Amount: Resources{MilliCPU: 500, MilliGPU: WholeGPU}},
		{Node: pickOne(r, w.spots...).m.ID, Amount: Resources{MilliGPU: 300}}}}
	switch r.Intn(9) {
	case 0:
		f.Remove(s.m.ID)
	case 1:
		m := s.m
		m.Total.MilliCPU -= int64(r.Intn(2)) * 1000
		f.Join(m, s.free)
	case 2:
		m := s.m
		if len(m.Place) > 0 {
			m.Place = append([]string{fmt.Sprint("moved", r.Intn(2))}, m.Place[1:]...)
		}
		f.Join(m, m.Idle())
	case 3:
		f.SetFree(s.m.ID, pickOne(r, s.free, s.m.Idle(), Capacity{Parts: []int64{700, 20}}))
	case 4:
		f.SetUsable(s.m.ID, pickOne(r, "", "drained by ops"))
	case 5:
		f.Take(slots)
	case 6:
		f.Give(slots)
	case 7:
		f.Keep(pickOne(r, KeepID("a"), "b"), slots)
	default:
		f.Unkeep(pickOne(r, KeepID("a"), "b"))
	}
}

// TestFollowerAnswersAlike makes random changes, undoes some of them, and updates a follower from time to time.
func TestFollowerAnswersAlike(t *testing.T) {
	for n := range *clusters / 100 {
		r := rand.New(rand.NewSource(*seed + int64(n)))
		w := randomWorld(r)
		f := w.tree(inOrder(len(w.spots)))
		f.Keep("a", Placement{Slots: []Slot{{Node: w.spots[0].m.ID, Amount: Resources{MilliGPU: WholeGPU}}}})
		f.Lead()
		h, follower := NewHorizon(f), NewTree(w.levels)
		for range 6 {
			s := pickOne(r, w.spots...)
			h.Set(s.m.ID, []End{drawEnd(r, s.m.Total), drawEnd(r, Resources{MilliCPU: 1000, MilliGPU: WholeGPU})})
			for range r.Intn(4) {
				mark := f.Mark()
				stir(r, f, &w)
				if r.Intn(3) == 0 {
					f.Rollback(mark)
				} else {
					f.Accept(mark)
				}
			}
			follower.Follow(f.Tell())
			if got, want := pictured(follower), pictured(f); got != want {
				t.Fatalf("seed %d: the follower has\n%sand not\n%s", *seed+int64(n), got, want)
			}
			if f.Untold() {
				t.Fatalf("seed %d: something is untold after a telling", *seed+int64(n))
			}
			held := w.holders()
			if got, want := Explain(follower, w.gang, held), Explain(f, w.gang, held); !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: the follower says\n%+v\nand not\n%+v", *seed+int64(n), got, want)
			}
			if got, want := pictured(follower), pictured(f); got != want {
				t.Fatalf("seed %d: explaining left\n%sof\n%s", *seed+int64(n), got, want)
			}
		}
	}
}

// TestOnlyChangesAreTold checks that only changes are sent, and that several changes of one node are sent once.
func TestOnlyChangesAreTold(t *testing.T) {
	f := NewTree([]string{"rack"})
	for i := range 3 {
		m := Machine{ID: NodeID(fmt.Sprint("n", i)), Total: Resources{MilliCPU: 8000}}
		f.Join(m, m.Idle())
	}
	f.Touch("n0") // no follower yet
	f.Lead()
	told := func() (ids []NodeID) {
		c := f.Tell()
		for _, m := range c.Machines {
			ids = append(ids, m.ID)
		}
		for _, k := range c.Kept {
			ids = append(ids, NodeID(fmt.Sprint(k.ID, len(k.Slots))))
		}
		return ids
	}
	for _, c := range []struct {
		what   string
		change func()
		want   []NodeID
	}{
		{"all at first", func() {}, []NodeID{"n0", "n1", "n2"}},
		{"nothing new", func() { f.SetFree("n1", Capacity{MilliCPU: 8000}); f.SetUsable("n1", "") }, nil},
		{"twice", func() { f.SetFree("n2", Capacity{}); f.SetUsable("n2", "drained"); f.SetUsable("n1", "drained") },
			[]NodeID{"n2", "n1"}},
		{"of a holder", func() { f.Touch("n0"); f.Touch("nobody") }, []NodeID{"n0"}},
		{"gone", func() { f.Remove("n0") }, []NodeID{"n0"}},
		{"gone and back", func() {
			f.Remove("n1")
			f.Join(Machine{ID: "n1", Total: Resources{MilliCPU: 4000}}, Capacity{})
		}, []NodeID{"n1"}},
		{"kept", func() { f.Keep("a", Placement{Slots: []Slot{{Node: "n1", Amount: Resources{MilliCPU: 1}}}}) },
			[]NodeID{"n1", "a1"}},
		{"kept where nobody is", func() {
			f.Keep("b", Placement{Slots: []Slot{{Node: "n9", Amount: Resources{MilliCPU: 1}}}})
		}, []NodeID{"b1"}},
		{"kept and not", func() { f.Unkeep("b"); f.Unkeep("a") }, []NodeID{"n1", "a0", "b0"}},
	} {
		c.change()
		if f.Untold() != (c.want != nil) {
			t.Errorf("%s: untold is %v", c.what, f.Untold())
		}
		if got := told(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: told %v, want %v", c.what, got, c.want)
		}
	}
}
