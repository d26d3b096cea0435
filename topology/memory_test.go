package topology

import (
	"fmt"
	"math/big"
	"math/rand"
	"slices"
	"testing"
)

// TestMemoryByShare checks the default memory of a gang, for every form of request.
func TestMemoryByShare(t *testing.T) {
	f := NewTree([]string{"rack"})
	for _, m := range []Machine{
		{ID: "big", Total: Resources{64_000, 512 * gib, 6 * WholeGPU}, Broken: 2, GPUType: "h100",
			Labels: []Label{{"pool", "a"}}, Vocabulary: 1},
		{ID: "old", Total: Resources{32_000, 128 * gib, 4 * WholeGPU}, GPUType: "a100", Labels: []Label{{"pool", "b"}}},
		{ID: "thin", Total: Resources{16_000, 16 * gib, 0}, Labels: []Label{{"pool", "a"}}},
		{ID: "mute", Total: Resources{8_000, 0, 0}, Labels: []Label{{"pool", "c"}}},
	} {
		f.Join(m, m.Idle())
	}
	f.SetUsable("thin", "drained") // it will return
	one := func(r Resources) Gang { return Gang{Replicas: 1, Each: r} }
	with := func(g Gang, change func(*Gang)) Gang { change(&g); return g }
	cpu := one(Resources{MilliCPU: 2000})
	for _, c := range []struct {
		what string
		gang Gang
		want int64
	}{
		{"the least machine counts", cpu, 2 * gib},
		{"one that is left out does not", with(cpu, func(g *Gang) { g.Exclude = []NodeID{"thin"} }), 4 * gib},
		{"nor one that is not named", with(cpu, func(g *Gang) { g.Only = []NodeID{"big"} }), 8 * gib},
		{"nor one without the label", with(cpu, func(g *Gang) { g.Selector = []Label{{"pool", "b"}} }), 4 * gib},
		{"nor one whose agent is too old", with(cpu, func(g *Gang) { g.Vocabulary = 1 }), 8 * gib},
		{"nor one that is too small", one(Resources{MilliCPU: 33_000}), 132 * gib},
		{"so many tasks as there are, each the same", with(cpu, func(g *Gang) { g.Replicas = 5 }), 2 * gib},
		{"by GPUs and CPUs", one(Resources{MilliCPU: 1000, MilliGPU: 2 * WholeGPU}), 34 * gib},
		{"of the type that is asked for", with(one(Resources{MilliCPU: 32_000, MilliGPU: WholeGPU}), func(g *Gang) {
			g.GPUType = "h100"
		}), 160 * gib},
		{"a part of a GPU", one(Resources{MilliGPU: 500}), 8 * gib},
		{"a total of GPUs", Gang{Split: SplitWhole, Total: Resources{MilliGPU: 12 * WholeGPU}}, 12 * 16 * gib},
		{"a total of both",
			Gang{Split: SplitAny, GPUType: "h100", Total: Resources{MilliCPU: 96_000, MilliGPU: 6 * WholeGPU}}, 6 * 96 * gib},
		{"a total of cores", Gang{Split: SplitAny, Total: Resources{MilliCPU: 40_000}}, 40 * gib},
		{"rounded down to what can be read", one(Resources{MilliCPU: 1}), 1 << 20},
		{"nothing where no memory is known", with(cpu, func(g *Gang) { g.Selector = []Label{{"pool", "c"}} }), 0},
		{"a thing of its own where no machine is known", with(cpu, func(g *Gang) { g.Only = []NodeID{"gone"} }), 2 * gib},
		{"likewise of GPUs", one(Resources{MilliCPU: 1000, MilliGPU: 100 * WholeGPU}), 401 * gib},
		{"likewise in total", Gang{Split: SplitAny, GPUType: "b200", Total: Resources{MilliGPU: 12 * WholeGPU}}, 48 * gib},
		{"what makes no sense has none", one(Resources{}), 0},
	} {
		if got := MemoryByShare(f, c.gang); got != c.want {
			t.Errorf("%s: %d MiB, not %d", c.what, got>>20, c.want>>20)
		}
	}
}

// TestMemoryByShareFits checks that a gang with its default memory fits wherever it would fit without memory on idle
// nodes. The units that fit on a node by CPUs and devices never need more memory than the node has.
func TestMemoryByShareFits(t *testing.T) {
	fit := 0
	for n := range min(*clusters, 4000) {
		w := randomWorld(rand.New(rand.NewSource(*seed + int64(n))))
		w.gang.Each.MemoryBytes, w.gang.Total.MemoryBytes = 0, 0
		f := w.tree(inOrder(len(w.spots)))
		memory, problem := MemoryByShare(f, w.gang), ""
		order := inOrder(len(w.spots))
		slices.Reverse(order)
		if other := MemoryByShare(w.tree(order), w.gang); other != memory {
			problem = fmt.Sprintf("%d, and %d in another order", memory, other)
		}
		g := w.gang
		if g.Split == SplitNone {
			g.Each.MemoryBytes = memory
		} else {
			g.Total.MemoryBytes = memory
		}
		if before, _ := Feasible(f, w.gang); before {
			fit++
			if now, why := Feasible(f, g); !now {
				problem = fmt.Sprintf("fits without its memory, and not with %d: %v", memory, why)
			} else if memory == 0 {
				problem = "fits and has none"
			}
		}
		if problem == "" {
			problem = overshare(&w, &g)
		}
		if problem != "" {
			t.Fatalf("-cluster-seed=%d -clusters=1: %s\n%v", *seed+int64(n), problem, w)
		}
	}
	if t.Logf("%d gangs fit", fit); *clusters >= 1000 && fit < min(*clusters, 4000)/4 {
		t.Errorf("only %d fit", fit)
	}
}

// overshare returns an error text in two cases: a unit of the gang gets a larger fraction of a node's memory than of
// its CPUs and devices, or the default could be larger on every node.
func overshare(w *world, g *Gang) string {
	d := demandOf(g)
	if d.problem != "" {
		return ""
	}
	bare := d
	bare.mem = 0
	memory, tight, any := big.NewRat(d.mem, d.den), false, false
	for i := range w.spots {
		w.spots[i].why = "" // a node out of service returns
	}
	for _, s := range w.candidates(*g) {
		total := s.m.Total
		if !bare.need(1).Within(total) {
			continue
		}
		share := big.NewRat(d.cpu, d.den*total.MilliCPU)
		if total.MilliGPU > 0 {
			share.Add(share, big.NewRat(d.gpus*WholeGPU+d.part, total.MilliGPU))
			share.Mul(share, big.NewRat(1, 2))
		}
		most := share.Mul(share, new(big.Rat).SetInt64(total.MemoryBytes))
		if memory.Cmp(most) > 0 {
			return fmt.Sprintf("%v of memory on %s, whose share is %v", memory, s.m.ID, most)
		}
		less := new(big.Rat).Sub(most, big.NewRat(memoryStep, 1))
		any, tight = true, tight || memory.Cmp(less) >= 0
	}
	if any && !tight {
		return fmt.Sprintf("%v of memory is less than the share of every machine", memory)
	}
	return ""
}

// TestMemoryByShareBesides checks that gangs with default memory fit by memory wherever they fit by CPUs and devices,
// also together.
func TestMemoryByShareBesides(t *testing.T) {
	r := rand.New(rand.NewSource(*seed))
	for range 2000 {
		gpus := pickOne(r, int64(0), 1, 4, 8)
		m := Machine{ID: "n", Total: Resources{1000 + r.Int63n(128_000), gib + r.Int63n(gib), gpus * WholeGPU}}
		f := NewTree(nil)
		f.Join(m, m.Idle())
		left, memory := m.Total, int64(0)
		for left.MilliCPU > 0 || left.MilliGPU > 0 {
			one := Resources{MilliCPU: r.Int63n(left.MilliCPU + 1), MilliGPU: r.Int63n(left.MilliGPU/WholeGPU+1) * WholeGPU}
			if r.Intn(4) == 0 {
				one = left
			}
			if one.MilliCPU, one.MilliGPU = min(one.MilliCPU, left.MilliCPU),
				min(one.MilliGPU, left.MilliGPU); one.MilliCPU+one.MilliGPU == 0 {
				continue
			}
			left = left.Minus(Resources{MilliCPU: one.MilliCPU, MilliGPU: one.MilliGPU})
			one.MemoryBytes = 0
			memory += MemoryByShare(f, Gang{Replicas: 1, Each: one})
		}
		if memory > m.Total.MemoryBytes {
			t.Fatalf("gangs that fill %+v have %d bytes of its memory", m.Total, memory)
		}
	}
}
