package topology

// This file creates random small clusters and gangs for the tests. They are small enough for the oracle, varied enough
// to reach every rule, and so full that about half of the gangs do not fit.

import (
	"fmt"
	"math/rand"
)

type world struct {
	oracle
	gang Gang
}

const gib = 1 << 30

func pickOne[T any](r *rand.Rand, of ...T) T { return of[r.Intn(len(of))] }

func randomWorld(r *rand.Rand) world {
	w := world{}
	w.levels = pickOne(r, []string{"rack"}, []string{"zone", "rack"}, []string{"zone", "block", "rack"}, nil)
	sizes := pickOne(r, []int64{8}, []int64{4}, []int64{2, 4}, []int64{0, 1, 2}, []int64{1, 3, 4}, []int64{2, 3, 5, 8},
		[]int64{0})
	busy := r.Intn(4)
	for i := range 1 + r.Intn(12) {
		w.spots = append(w.spots, randomSpot(r, w.levels, sizes, busy, i))
	}
	w.gang = randomGang(r, w.levels)
	return w
}

func randomSpot(r *rand.Rand, levels []string, sizes []int64, busy, i int) spot {
	gpus := pickOne(r, sizes...)
	m := Machine{
		ID: NodeID(fmt.Sprintf("n%02d", (i*7)%13)),
		Total: Resources{MilliCPU: pickOne(r, int64(4000), 8000, 16500), MemoryBytes: pickOne(r, int64(8), 16, 33) * gib,
			MilliGPU: gpus * WholeGPU},
		GPUType: pickOne(r, "h100", "h100", "a100"),
		Labels:  []Label{{"pool", pickOne(r, "a", "a", "b")}, {"disk", pickOne(r, "ssd", "hdd")}},
	}
	for range levels {
		m.Place = append(m.Place, fmt.Sprint(r.Intn(3)))
	}
	s := spot{m: m, free: m.Idle()}
	if r.Intn(4) < busy {
		s.free.MilliCPU = r.Int63n(m.Total.MilliCPU + 1)
		s.free.MemoryBytes = r.Int63n(m.Total.MemoryBytes + 1)
		s.free.WholeGPUs = int32(r.Int63n(gpus + 1))
		if left := gpus - int64(s.free.WholeGPUs); left > 0 && r.Intn(3) == 0 {
			s.free.Parts = []int64{1 + r.Int63n(999)}
			if left > 1 && r.Intn(2) == 0 {
				s.free.Parts = withPart(s.free.Parts, -1, 1+r.Int63n(999))
			}
		}
	}
	if r.Intn(12) == 0 {
		s.why = "drained by ops"
	}
	return s
}

func randomGang(r *rand.Rand, levels []string) Gang {
	g := Gang{}
	amount := Resources{
		MilliCPU:    pickOne(r, int64(0), 500, 1000, 2000, 2300, 4000),
		MemoryBytes: pickOne(r, int64(0), 1, 2, 3, 8) * gib,
	}
	switch r.Intn(6) {
	case 0:
		g.Replicas, g.Each = int32(1+r.Intn(8)), amount
		g.Each.MilliGPU = pickOne(r, int64(1), 1, 2, 4, 8) * WholeGPU
	case 1:
		g.Replicas, g.Each = int32(1+r.Intn(10)), amount
	case 2:
		g.Replicas, g.Each = 1, amount
		g.Each.MilliGPU = pickOne(r, int64(1), 100, 500, 999)
	default:
		n := 1 + r.Int63n(24)
		g.Split = pickOne(r, SplitWhole, SplitWhole, SplitAny)
		g.Total = amount.times(n)
		g.Total.MilliGPU = n * WholeGPU
		if r.Intn(4) == 0 {
			g.Total.MilliGPU = 0
		}
		if r.Intn(4) == 0 {
			g.Total.MilliCPU += r.Int63n(999)
			g.Total.MemoryBytes += r.Int63n(999)
		}
	}
	if g.Each.IsZero() && g.Total.IsZero() {
		g.Split, g.Replicas, g.Each.MilliCPU = SplitNone, 1, 1000
	}
	g.GPUType = pickOne(r, "", "", "", "h100", "a100")
	if r.Intn(5) == 0 {
		g.Selector = append(g.Selector, Label{"pool", pickOne(r, "a", "b")})
	}
	if r.Intn(9) == 0 {
		g.Selector = append(g.Selector, Label{"disk", "ssd"})
	}
	for range r.Intn(5) / 3 {
		g.Exclude = append(g.Exclude, NodeID(fmt.Sprintf("n%02d", r.Intn(13))))
	}
	for range r.Intn(7) / 4 * 4 { // four nodes, because fewer rarely hold a gang
		g.Only = append(g.Only, NodeID(fmt.Sprintf("n%02d", r.Intn(13))))
	}
	g.Apart = r.Intn(6) == 0 && g.Split == SplitNone
	g.Required = pickOne(r, append([]string{"", "", NodeLevel}, levels...)...)
	g.Preferred = pickOne(r, append([]string{"", ""}, levels...)...)
	return g
}

// tree creates the tree under test. The nodes join in the given order.
func (w *world) tree(order []int) *Tree {
	f := NewTree(w.levels)
	for _, i := range order {
		s := w.spots[i]
		f.Join(s.m, s.free)
		f.SetUsable(s.m.ID, s.why)
	}
	return f
}

func inOrder(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	return order
}

func (w world) String() string {
	text := fmt.Sprintf("levels %v\n", w.levels)
	for _, s := range w.spots {
		text += fmt.Sprintf("%s %v %s %v total %v free %v why %q\n", s.m.ID, s.m.Place, s.m.GPUType, s.m.Labels, s.m.Total,
			s.free, s.why)
	}
	return text + fmt.Sprintf("gang %+v", w.gang)
}
