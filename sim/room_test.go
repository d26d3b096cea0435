package sim

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// TestHoldsAsPlaced checks that brute force and placement agree on which gangs fit. If brute force found more, a
// justified preemption would seem unnecessary.
func TestHoldsAsPlaced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := &messages.Resources{MilliGpu: rapid.Int64Range(1, 24).Draw(t, "total") * topology.WholeGPU}
		whole.MilliCpu, whole.MemoryBytes = 2*whole.MilliGpu, whole.MilliGpu<<24
		specs := []*messages.JobSpec{
			{Gang: &messages.GangSpec{Split: messages.Split_SPLIT_WHOLE, Total: whole}},
			{Gang: &messages.GangSpec{Split: messages.Split_SPLIT_ANY, Total: whole}},
			{Gang: &messages.GangSpec{Split: messages.Split_SPLIT_ANY, Total: &messages.Resources{MilliCpu: whole.MilliCpu}}},
			{Gang: &messages.GangSpec{ReplicasMin: 3}, Each: &messages.Resources{MilliCpu: 6000, MilliGpu: 3000}},
			{Gang: &messages.GangSpec{ReplicasMin: 2, Apart: true}, Each: &messages.Resources{MilliGpu: 2000}},
		}
		tree, spots := topology.NewTree([]string{"rack"}), make([][]spot, len(specs))
		for i := range rapid.IntRange(1, 5).Draw(t, "machines") {
			gpus := rapid.SampledFrom([]int32{8, 8, 7, 4}).Draw(t, "gpus")
			free := topology.Capacity{WholeGPUs: rapid.SampledFrom([]int32{0, 1, 3, gpus, gpus}).Draw(t, "free"),
				MilliCPU: rapid.SampledFrom([]int64{16_000, 96_000}).Draw(t, "cpu"), MemoryBytes: 1 << 40}
			id := topology.NodeID(fmt.Sprint("n", i))
			total := topology.Resources{MilliCPU: 96_000, MemoryBytes: 1 << 40, MilliGPU: int64(gpus) * topology.WholeGPU}
			tree.Join(topology.Machine{ID: id, Place: []string{"r"}, Total: total}, free)
			for k, spec := range specs {
				spots[k] = append(spots[k], spot{members(free, memberOf(spec)), int64(gpus)})
			}
		}
		for k, spec := range specs {
			_, refusal := topology.Place(tree, messages.GangOf(spec))
			if got := holds(spec, spots[k], len(spots[k])); got != (refusal == nil) {
				t.Errorf("%v on %v: fits by brute force: %v, by placement: %v", spec, spots[k], got, refusal)
			}
		}
	})
}
