package policy

import (
	"slices"
	"testing"

	"github.com/yi-json/synapse/topology"
)

// TestWanted checks that a type is wanted while a job waits that could use it and that no limit stops.
func TestWanted(t *testing.T) {
	tree := topology.NewTree([]string{"rack"})
	for id, gpuType := range map[topology.NodeID]string{"n1": "a", "n2": "b", "n3": "c"} {
		total := topology.Resources{MilliCPU: 8000, MemoryBytes: 1 << 40, MilliGPU: 8000}
		tree.Join(topology.Machine{ID: id, Place: []string{"r"}, GPUType: gpuType, Total: total},
			topology.Capacity{MilliCPU: total.MilliCPU, MemoryBytes: total.MemoryBytes, WholeGPUs: 4})
	}
	q := NewQueue()
	add := func(id topology.JobID, gpuType string, gpus int64) {
		q.Add(Waiting{Job: id, Arrived: int64(q.Len()), Gang: topology.Gang{
			Replicas: 1, GPUType: gpuType, Each: topology.Resources{MilliCPU: 1000, MilliGPU: gpus * 1000},
		}})
	}
	stopped := map[topology.JobID]bool{}
	wants := func(types ...string) {
		t.Helper()
		Plan(tree, q, 0)
		got, any := q.Wanted(tree, func(job topology.JobID) bool { return stopped[job] })
		if !slices.Equal(got, types) && !(any && slices.Equal(types, []string{"*"})) {
			t.Errorf("wanted are %v, any %t; want %v", got, any, types)
		}
	}
	wants()
	add("cores", "", 0)
	add("b1", "b", 8)
	add("a1", "a", 8)
	add("c1", "c", 9) // more than any node has
	wants("a", "b")
	stopped["a1"] = true
	wants("b")
	add("a2", "a", 8)
	wants("a", "b")
	q.Remove("b1") // as for a hold
	wants("a")
	add("any", "", 8)
	wants("*")
}
