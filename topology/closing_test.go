package topology

import (
	"slices"
	"testing"
)

// This file tests that gangs avoid nodes that close too early for them.

func TestClosingMachinesAreLeftOut(t *testing.T) {
	f := NewTree([]string{"rack"})
	for _, id := range []NodeID{"n1", "n2", "n3"} {
		m := Machine{ID: id, Place: []string{"r"}, Total: Resources{MilliCPU: 8000, MemoryBytes: 16 * gib, MilliGPU: 4000}}
		f.Join(m, m.Idle())
	}
	gang := Gang{Replicas: 2, Each: Resources{MilliGPU: 4000}, Exclude: []NodeID{"n1"}}
	if _, refusal := Place(f, gang); refusal != nil {
		t.Fatal(refusal)
	}
	closing := gang
	closing.Closing = []NodeID{"n3"}
	if closing.Shape() == gang.Shape() {
		t.Error("a gang that may go to other machines has the same shape")
	}
	e := Explain(f, closing, nil)
	const want = "needs 8 GPUs (2 tasks of 4 GPUs) without excluded nodes without nodes that drain before it would end; " +
		"the cluster has 4 free of 12"
	out := []OutOfService{{"n3", "drains before the job would end"}}
	if got := e.Refusal.String(); got != want || e.Never || !slices.Equal(e.Out, out) {
		t.Errorf("never=%v: %s, without %v", e.Never, got, e.Out)
	}
	if !slices.ContainsFunc(e.Conflict, func(c Constraint) bool { return c.Kind == OnService }) {
		t.Errorf("that a machine closes is not in the way: %v", e.Conflict)
	}
	// The order of the names has no effect.
	one, other := gang, gang
	one.Closing, other.Closing = []NodeID{"n1", "n3"}, []NodeID{"n3", "n1"}
	if one.Shape() != other.Shape() {
		t.Error("the same machines make two shapes")
	}
}
