package topology

import (
	"fmt"
	"slices"
	"testing"
)

// TestPlaceWary checks that big gangs avoid suspected nodes if they fit without them, that small gangs do not, and that
// no gang waits or leaves its preferred level because of a suspicion.
func TestPlaceWary(t *testing.T) {
	build := func(suspects ...NodeID) *Tree {
		f := NewTree([]string{"rack"})
		for i := range 4 { // n0 and n1 in rack r0, n2 and n3 in rack r1
			f.Join(Machine{ID: NodeID(fmt.Sprint("n", i)), Place: []string{fmt.Sprint("r", i/2)},
				Total: Resources{MilliCPU: 8000, MemoryBytes: 1 << 30, MilliGPU: 8000}, GPUType: "h100"},
				Capacity{MilliCPU: 8000, MemoryBytes: 1 << 30, WholeGPUs: 8})
		}
		f.SetSuspects(suspects)
		return f
	}
	gang := func(nodes int32) Gang {
		return Gang{Replicas: nodes, Each: Resources{MilliCPU: 1000, MilliGPU: 8000}}
	}
	near := gang(2)
	near.Preferred = "rack"
	inside := gang(2)
	inside.Required = "rack"
	for _, c := range []struct {
		name     string
		suspects []NodeID
		g        Gang
		want     []NodeID // nil: refused
	}{
		{"no suspect", nil, gang(2), []NodeID{"n0", "n1"}},
		{"a suspect", []NodeID{"n0"}, gang(2), []NodeID{"n2", "n3"}},
		{"a small gang", []NodeID{"n0"}, gang(1), []NodeID{"n0"}},
		{"too few others", []NodeID{"n0"}, gang(4), []NodeID{"n0", "n1", "n2", "n3"}},
		{"too big anyway", []NodeID{"n0"}, gang(5), nil},
		{"another rack", []NodeID{"n0"}, near, []NodeID{"n2", "n3"}},
		{"the preferred level", []NodeID{"n0", "n2"}, near, []NodeID{"n0", "n1"}},
		{"the required level", []NodeID{"n0", "n2"}, inside, []NodeID{"n0", "n1"}},
		{"across racks", []NodeID{"n0", "n2"}, gang(2), []NodeID{"n1", "n3"}},
	} {
		f := build(c.suspects...)
		var r Refusal
		p, ok := PlaceWary(f, &c.g, Lent{}, &r)
		if got := p.Nodes(); ok != (c.want != nil) || !slices.Equal(got, c.want) {
			t.Errorf("%s: on %v, want %v", c.name, got, c.want)
		}
		if !ok && r.String() == "" {
			t.Errorf("%s: the refusal is empty", c.name)
		}
	}
}
