package topology

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestLessIsWhatTheMachineGrants checks that the leader's view subtracts a claim as the node's ledger does. If the two
// differed, the view would be wrong until the next report, and nodes would refuse placements.
func TestLessIsWhatTheMachineGrants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := LedgerConfig{MilliCPU: 64_000, MemoryBytes: 64 << 30}
		for i := range rapid.IntRange(1, 4).Draw(t, "devices") {
			c.GPUs = append(c.GPUs, GPU{ID: GPUID(fmt.Sprint("gpu-", i))})
		}
		ledger := NewLedger(c)
		for i := range rapid.IntRange(1, 8).Draw(t, "claims") {
			amount := Resources{MilliCPU: 1000, MemoryBytes: 1 << 30,
				MilliGPU: rapid.SampledFrom([]int64{0, 100, 250, 500, 750, 1000, 2000}).Draw(t, "gpu")}
			before := ledger.Capacity()
			claim := Claim{Token: Token{Epoch: 1, Counter: uint64(i + 1)}, Members: []Member{{Amount: amount}}, TTLNs: 1}
			if _, short := ledger.Reserve(claim, 0); short != nil {
				continue
			}
			after, believed := ledger.Capacity(), before.Less(amount)
			if believed.WholeGPUs != after.WholeGPUs || believed.MilliCPU != after.MilliCPU ||
				believed.MemoryBytes != after.MemoryBytes ||
				!slices.Equal(believed.Parts, after.Parts) {
				t.Fatalf("of %+v %v was taken: %+v is left, and the leader believes %+v", before, amount, after, believed)
			}
		}
	})
}

// TestMoreUndoesLess checks that giving amounts back in reverse order restores the capacity, even if more was taken
// than existed. Nothing is lost or created on the way, and a missing share counts as no capacity.
func TestMoreUndoesLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := Capacity{MilliCPU: 8000, MemoryBytes: 8 << 30, WholeGPUs: rapid.Int32Range(0, 2).Draw(t, "whole")}
		for range rapid.IntRange(0, 2).Draw(t, "parts") {
			before = before.More(Resources{MilliGPU: rapid.SampledFrom(someShares).Draw(t, "part")})
		}
		now, taken := before, []Resources(nil)
		for range rapid.IntRange(1, 8).Draw(t, "takes") {
			a := Resources{MilliCPU: 3000, MemoryBytes: 3 << 30, MilliGPU: rapid.SampledFrom(someShares).Draw(t, "gpu")}
			held := a.MilliGPU%WholeGPU == 0 || now.Floored().MilliGPU() > 0 &&
				(now.WholeGPUs > 0 || smallest(now.Parts, a.MilliGPU) >= 0)
			next := now.Less(a)
			if next.MilliGPU() != now.MilliGPU()-a.MilliGPU {
				t.Fatalf("%v of %+v leaves %+v", a, now, next)
			}
			if !held && next.Floored().MilliGPU() != now.Floored().MilliGPU() {
				t.Fatalf("a share that nothing holds: of %+v %v was taken, and %+v is there", now, a, next.Floored())
			}
			now, taken = next, append(taken, a)
		}
		for _, a := range slices.Backward(taken) {
			now = now.More(a)
		}
		if now.MilliCPU != before.MilliCPU || now.MemoryBytes != before.MemoryBytes || now.MilliGPU() != before.MilliGPU() {
			t.Fatalf("%v taken and given back: %+v, was %+v", taken, now, before)
		}
		if f := now.Less(Resources{MilliCPU: 1 << 40, MemoryBytes: 1 << 50, MilliGPU: 9000}).Floored(); f.MilliCPU != 0 ||
			f.MemoryBytes != 0 || f.WholeGPUs != 0 {
			t.Fatalf("floored %+v", f)
		}
	})
}

var someShares = []int64{0, 100, 250, 500, 750, 1000, 2000}
