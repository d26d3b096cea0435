package leader

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/yi-json/synapse/topology"
)

// TestSpendIsWhatTheMachineGrants: the leader subtracts a claim from its view as the machine's own ledger will. Where the two
// differ the view is wrong until the next report, and what is planned meanwhile is refused.
func TestSpendIsWhatTheMachineGrants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := topology.LedgerConfig{MilliCPU: 64_000, MemoryBytes: 64 << 30}
		for i := range rapid.IntRange(1, 4).Draw(t, "devices") {
			c.GPUs = append(c.GPUs, topology.GPU{ID: topology.GPUID(fmt.Sprint("gpu-", i))})
		}
		ledger := topology.NewLedger(c)
		for i := range rapid.IntRange(1, 8).Draw(t, "claims") {
			amount := topology.Resources{MilliCPU: 1000, MemoryBytes: 1 << 30, MilliGPU: rapid.SampledFrom([]int64{0, 100, 250, 500, 750, 1000, 2000}).Draw(t, "gpu")}
			before := ledger.Capacity()
			claim := topology.Claim{Token: topology.Token{Epoch: 1, Counter: uint64(i + 1)}, Members: []topology.Member{{Amount: amount}}, TTLNs: 1}
			if _, short := ledger.Reserve(claim, 0); short != nil {
				continue
			}
			after, believed := ledger.Capacity(), spend(before, amount)
			if believed.WholeGPUs != after.WholeGPUs || believed.MilliCPU != after.MilliCPU || believed.MemoryBytes != after.MemoryBytes ||
				!slices.Equal(believed.Parts, after.Parts) {
				t.Fatalf("of %+v %v was taken: %+v is left, and the leader believes %+v", before, amount, after, believed)
			}
		}
	})
}
