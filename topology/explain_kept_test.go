package topology

// This file tests explanations of gangs that wait for reserved capacity.

import (
	"slices"
	"testing"
)

// TestExplainKept checks that the explanation names reservations, and not other jobs, if only reservations prevent the
// start.
func TestExplainKept(t *testing.T) {
	f := NewTree([]string{"rack"})
	for _, id := range []NodeID{"n1", "n2"} {
		m := Machine{ID: id, Place: []string{"r"}, Total: Resources{MilliGPU: 8000}}
		f.Join(m, m.Idle())
	}
	f.SetFree("n1", Capacity{})
	slots := []Slot{{Node: "n2", Amount: Resources{MilliGPU: 6000}}}
	f.Keep("big", Placement{Slots: slots})
	gang := Gang{Replicas: 1, Each: Resources{MilliGPU: 4000}}
	e := Explain(f, gang, nil)
	if !slices.Equal(e.Conflict, []Constraint{{Kind: OnKept}}) && !slices.Contains(e.InTheWay, Constraint{Kind: OnKept}) {
		t.Errorf("in the way are %v, the conflict is %v", e.InTheWay, e.Conflict)
	}
	if kept := []KeptFor{{"big", Resources{MilliGPU: 6000}}}; !slices.Equal(e.Kept, kept) {
		t.Errorf("%+v is kept there, want %+v", e.Kept, kept)
	}
	whole := Gang{Replicas: 2, Each: Resources{MilliGPU: 8000}}
	if e := ExplainTo(f, whole, "big", nil); len(e.Kept) > 0 {
		t.Errorf("the job that room is kept for is told that %+v is kept", e.Kept)
	}
	f.Unkeep("big")
	if e = Explain(f, gang, nil); e.Refusal != nil {
		t.Error(e.Refusal)
	}
}

// TestExplainToHolder checks that a job's own reservation is not given as a reason, also after its promise has moved.
// The reservation remains afterwards, with or without a planner on the tree.
func TestExplainToHolder(t *testing.T) {
	for _, follows := range []bool{false, true} {
		for _, keep := range []KeepID{"big", KeepID("big").Former()} {
			f := NewTree([]string{"rack"})
			f.follows = follows
			m := Machine{ID: "n1", Place: []string{"r"}, Total: Resources{MilliGPU: 8000}}
			f.Join(m, m.Idle())
			slots := []Slot{{Node: "n1", Amount: Resources{MilliGPU: 8000}}}
			f.Keep(keep, Placement{Slots: slots})
			gang := Gang{Replicas: 1, Each: Resources{MilliGPU: 4000}}
			if e := ExplainTo(f, gang, "big", nil); e.Refusal != nil {
				t.Errorf("%q is kept for it (follows %v), and it is told: %s", keep, follows, e.Refusal)
			}
			if e := ExplainTo(f, gang, "other", nil); e.Refusal == nil || len(f.Kept(keep)) != 1 {
				t.Errorf("%q is kept no more (follows %v)", keep, follows)
			}
		}
	}
}
