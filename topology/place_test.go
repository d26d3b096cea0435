package topology

// This file compares placements with the oracle.

import (
	"flag"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
)

// ordinary is the default number of clusters.
const ordinary = 20000

var (
	clusters = flag.Int("clusters", ordinary, "random clusters to compare with the oracle")
	seed     = flag.Int64("cluster-seed", 0, "the first random cluster")
)

// TestPlaceAgainstOracle compares feasibility, level and number of racks, and checks every placement against the
// request of its gang.
func TestPlaceAgainstOracle(t *testing.T) {
	placed := 0
	for n := range *clusters {
		r := rand.New(rand.NewSource(*seed + int64(n)))
		w := randomWorld(r)
		ok, problem := compare(&w, w.tree(inOrder(len(w.spots))))
		if problem != "" {
			t.Fatalf("-cluster-seed=%d -clusters=1: %s\n%v", *seed+int64(n), problem, w)
		}
		if ok {
			placed++
		}
	}
	t.Logf("%d clusters, %d gangs placed, 0 differences", *clusters, placed)
	if *clusters >= 1000 && (placed < *clusters/5 || placed > *clusters*4/5) {
		t.Errorf("%d of %d gangs placed: the random clusters are too easy or too hard", placed, *clusters)
	}
}

// compare places the gang of a world and returns an error text for a wrong answer.
func compare(w *world, f *Tree) (placed bool, problem string) {
	depth := w.place(w.gang)
	p, refusal := Place(f, w.gang)
	if refusal != nil {
		if depth >= 0 {
			return false, fmt.Sprintf("refused (%v), the oracle places it at depth %d", refusal, depth)
		}
		return false, ""
	}
	if depth < 0 {
		return false, fmt.Sprintf("placed %v, the oracle does not", p)
	}
	if got := w.depthOf(p.Level); got != depth {
		return false, fmt.Sprintf("placed at depth %d, the oracle at %d", got, depth)
	}
	if problem := w.wrong(p); problem != "" {
		return true, problem + fmt.Sprintf(": %v", p)
	}
	return true, w.tooManyRacks(p, depth)
}

func (w *world) spot(id NodeID) spot {
	i := slices.IndexFunc(w.spots, func(s spot) bool { return s.m.ID == id })
	return w.spots[i]
}

// wrong checks the sums, order, nodes and level of a placement.
func (w *world) wrong(p Placement) string {
	var sum Resources
	perNode := map[NodeID]Resources{}
	var order []string
	for i, s := range p.Slots {
		if s.Rank != Rank(i) {
			return "ranks are not in order"
		}
		at := w.spot(s.Node)
		key := fmt.Sprint(at.m.Place, s.Node)
		if len(order) == 0 || order[len(order)-1] != key {
			order = append(order, key)
		} else if w.gang.Split != SplitNone {
			return "two tasks of a total on one machine"
		}
		sum = sum.Plus(s.Amount)
		perNode[s.Node] = perNode[s.Node].Plus(s.Amount)
		if w.gang.Split == SplitNone && s.Amount != w.gang.Each {
			return "a replica got something else"
		}
		if s.Amount.IsNegative() || s.Amount.IsZero() {
			return "an empty slot"
		}
	}
	want := w.gang.Total
	if w.gang.Split == SplitNone {
		want = w.gang.Each.times(int64(w.gang.Replicas))
	}
	if sum != want {
		return fmt.Sprintf("the sum is %v, not %v", sum, want)
	}
	if !slices.IsSorted(order) || len(order) != len(perNode) {
		return "ranks are not along the tree"
	}
	return w.wrongNodes(p, perNode)
}

func (w *world) wrongNodes(p Placement, perNode map[NodeID]Resources) string {
	candidates := w.candidates(w.gang)
	broken, domains := 0, map[string]bool{}
	for id, amount := range perNode {
		i := slices.IndexFunc(candidates, func(s spot) bool { return s.m.ID == id })
		if i < 0 {
			return "a machine that may not be used"
		}
		s := candidates[i]
		if amount.MilliCPU > s.free.MilliCPU || amount.MemoryBytes > s.free.MemoryBytes {
			return "more CPU or memory than is free"
		}
		if amount.MilliGPU%WholeGPU == 0 && amount.MilliGPU > int64(s.free.WholeGPUs)*WholeGPU {
			return "more GPUs than are free"
		}
		if amount.MilliGPU != s.m.Total.MilliGPU {
			broken++
		}
		for d := range w.domainsAt([]spot{s}, w.depthOf(p.Level)) {
			domains[d] = true
		}
	}
	if len(domains) != 1 {
		return "not within one place of its level"
	}
	if w.gang.Split == SplitWhole && w.gang.Total.MilliGPU >= WholeGPU && broken > 1 {
		return "more than one machine in part"
	}
	return ""
}

// tooManyRacks compares the number of racks with the minimum in the chosen domain. Totals in whole nodes of several
// sizes guarantee a correct answer, but not the minimum of racks.
func (w *world) tooManyRacks(p Placement, depth int) string {
	sizes := map[int64]bool{}
	for _, s := range w.candidates(w.gang) {
		if s.m.Total.MilliGPU > 0 {
			sizes[s.m.Total.MilliGPU] = true
		}
	}
	if w.gang.Split == SplitWhole && len(sizes) > 1 || depth > len(w.levels) {
		return ""
	}
	var domain []spot
	racks := map[string]bool{}
	for key, group := range w.domainsAt(w.candidates(w.gang), depth) {
		first := w.spot(p.Slots[0].Node)
		for k := range w.domainsAt([]spot{first}, depth) {
			if k == key {
				domain = group
			}
		}
	}
	for _, s := range p.Slots {
		for k := range w.domainsAt([]spot{w.spot(s.Node)}, len(w.levels)) {
			racks[k] = true
		}
	}
	if best := w.fewestRacks(w.gang, domain); len(racks) != best {
		return fmt.Sprintf("%d racks, %d would do: %v", len(racks), best, p)
	}
	return ""
}

// TestRefusalCostsNoMemory checks that refusals of all kinds of gangs allocate no memory, after changes of the view.
func TestRefusalCostsNoMemory(t *testing.T) {
	f := uniformCluster(1000, true)
	each := gangOf(1).Each
	gangs := []Gang{
		gangOf(900), withLevel(gangOf(16), "rack"), withLevel(gangOf(2), NodeLevel),
		{Total: each.times(900), Split: SplitWhole}, {Total: each.times(900), Split: SplitAny},
		{Replicas: 1, Each: Resources{MilliCPU: 200_000}},
		{Replicas: 1, Each: Resources{MilliGPU: 500, MemoryBytes: 4096 * gib}},
		{Replicas: 900, Each: each, Exclude: []NodeID{"n000001"}}, {Replicas: 1, Each: Resources{MilliGPU: 1500}},
	}
	var r Refusal
	round := 0
	refuse := func() {
		round++
		flip(f, round*31%1000)
		for i := range gangs {
			if _, ok := PlaceInto(f, &gangs[i], &r); ok {
				t.Fatalf("%v was placed", gangs[i])
			}
		}
	}
	for range 1100 {
		refuse()
	}
	if n := testing.AllocsPerRun(500, refuse); n > 0 {
		t.Errorf("%v allocations in %d refusals", n, len(gangs))
	}
}

// TestPlaceChoices has examples of the rules for tight placement. Nodes are written as rack/id with the number of free
// GPUs out of 8.
func TestPlaceChoices(t *testing.T) {
	gpus := func(replicas int32, each int64) Gang {
		return Gang{Replicas: replicas, Each: Resources{MilliGPU: each * WholeGPU}}
	}
	for _, test := range []struct {
		name  string
		free  map[string]int32
		gang  Gang
		level string
		want  string
	}{
		{"the tightest machine", map[string]int32{"a/1": 8, "a/2": 3, "b/3": 2, "b/4": 8}, gpus(2, 1), NodeLevel, "3 3"},
		{"a broken machine before a whole one", map[string]int32{"a/1": 8, "b/2": 7}, gpus(1, 1), NodeLevel, "2"},
		{"a whole machine of the tightest rack", map[string]int32{"a/1": 8, "a/2": 8, "b/3": 8, "b/4": 0}, gpus(1, 1),
			NodeLevel, "3"},
		{"the tightest rack", map[string]int32{"a/1": 8, "a/2": 8, "a/3": 8, "b/4": 8, "b/5": 8}, gpus(2, 8), "rack", "4 5"},
		{"whole machines stay whole", map[string]int32{"a/1": 8, "a/2": 4, "a/3": 3, "a/4": 3}, gpus(10, 1), "rack",
			"2 2 2 2 3 3 3 4 4 4"},
		{"as few whole ones as can be", map[string]int32{"a/1": 8, "a/2": 8, "a/3": 1, "a/4": 4}, gpus(11, 1), "rack",
			"1 1 1 1 1 1 1 1 4 4 4"},
		{"the fewest racks", map[string]int32{"a/1": 8, "b/2": 8, "b/3": 8, "c/4": 8, "c/5": 8, "c/6": 8}, gpus(5, 8), "",
			"2 3 4 5 6"},
		{"the last rack filled best", map[string]int32{"a/1": 8, "b/2": 8, "b/3": 8, "c/4": 8, "c/5": 8, "c/6": 8},
			gpus(4, 8), "", "1 4 5 6"},
		{"the remainder on a broken machine", map[string]int32{"a/1": 8, "a/2": 8, "a/3": 5, "a/4": 4},
			Gang{Total: Resources{MilliGPU: 12000}, Split: SplitWhole}, "rack", "1 4"},
		{"any takes what is free", map[string]int32{"a/1": 3, "a/2": 2},
			Gang{Total: Resources{MilliGPU: 5000, MilliCPU: 999}, Split: SplitAny}, "rack", "1 2"},
		{"no devices are stranded", map[string]int32{"a/1": 8, "a/2": 0}, Gang{Replicas: 1, Each: Resources{MilliCPU: 1000}},
			NodeLevel, "2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := NewTree([]string{"rack"})
			for key, free := range test.free {
				rack, id, _ := strings.Cut(key, "/")
				m := Machine{ID: NodeID(id), Place: []string{rack}, Total: Resources{MilliCPU: 8000, MilliGPU: 8000}}
				f.Join(m, Capacity{MilliCPU: 8000, WholeGPUs: free})
			}
			p, refusal := Place(f, test.gang)
			var got []string
			for _, s := range p.Slots {
				got = append(got, string(s.Node))
			}
			if strings.Join(got, " ") != test.want || p.Level != test.level {
				t.Errorf("placed on %v within %q (%v), want %s within %q", got, p.Level, refusal, test.want, test.level)
			}
		})
	}
}

func TestSharesOfATotal(t *testing.T) {
	f := NewTree(nil)
	for i, gpus := range []int64{4, 2, 1} {
		m := Machine{ID: NodeID(fmt.Sprint("n", i)),
			Total: Resources{MilliCPU: 64_000, MemoryBytes: 64 * gib, MilliGPU: gpus * WholeGPU}}
		f.Join(m, m.Idle())
	}
	total := Resources{MilliCPU: 10_000, MemoryBytes: 1001, MilliGPU: 7000}
	p, refusal := Place(f, Gang{Total: total, Split: SplitWhole})
	want := []Slot{
		{0, "n0", Resources{5714, 572, 4000}}, {1, "n1", Resources{2857, 286, 2000}}, {2, "n2", Resources{1429, 143, 1000}},
	}
	if !slices.Equal(p.Slots, want) || p.Level != "" {
		t.Errorf("got %v %v, want %v", p, refusal, want)
	}
}

func TestRefusalTexts(t *testing.T) {
	f := NewTree([]string{"zone", "rack"})
	for i := range 4 {
		m := Machine{ID: NodeID(fmt.Sprint("n", i)), Place: []string{"a", fmt.Sprint("r", i/2)},
			Total: Resources{MilliCPU: 8000, MemoryBytes: 16 * gib, MilliGPU: 4000}}
		c := m.Idle()
		c.WholeGPUs = int32(i)
		f.Join(m, c)
	}
	for _, test := range []struct {
		gang Gang
		want string
	}{
		{Gang{Replicas: 6, Each: Resources{MilliGPU: 1000}, Required: "rack"},
			"needs 6 GPUs (6 tasks of 1 GPU) within one rack; the best rack, a/r1, has 5 free of 8"},
		{Gang{Replicas: 2, Each: Resources{MilliGPU: 3000}},
			"needs 6 GPUs (2 tasks of 3 GPUs); the cluster has 6 free of 16, of which no more than 3 can be used: the " +
				"rest is in pieces or lacks CPU or memory"},
		{Gang{Total: Resources{MilliCPU: 40_500}, Split: SplitAny}, "needs 40.5 cores; the cluster has 32 free of 32"},
		{Gang{Total: Resources{MilliCPU: 40_050}, Split: SplitAny}, "needs 40.05 cores; the cluster has 32 free of 32"},
		{Gang{Replicas: 1, Each: Resources{MemoryBytes: 33 * gib / 2}},
			"needs 16.5 GiB; the cluster has 64 GiB free of 64 GiB, of which none can be used: the rest is in pieces or " +
				"lacks CPU or memory"},
		{Gang{Replicas: 1, Each: Resources{MilliGPU: 500, MilliCPU: 9000}},
			"needs 0.5 of a GPU; the cluster has 6 free of 16, of which none can be used: the rest is in pieces or " +
				"lacks CPU or memory"},
		{Gang{Replicas: 2, Each: Resources{MilliGPU: 2000}, Required: NodeLevel},
			"needs 4 GPUs (2 tasks of 2 GPUs) on one node; the best node, n2, has 2 free of 4"},
		{Gang{Replicas: 1}, "requests no resources"},
		{Gang{}, "requests no tasks"},
		{Gang{Replicas: 2, Each: Resources{MilliGPU: 500}}, "requests a share of a GPU for several tasks"},
		{Gang{Replicas: 1, Each: Resources{MilliGPU: 1500}}, "requests both whole GPUs and a share of a GPU"},
		{Gang{Replicas: 1, Each: Resources{MilliCPU: -1}}, "requests a negative amount"},
		{Gang{Replicas: 1, Each: Resources{MilliCPU: 1}, Required: "row"}, `unknown topology level "row"`},
	} {
		_, refusal := Place(f, test.gang)
		if refusal == nil || refusal.String() != test.want {
			t.Errorf("\n got %s\nwant %s", refusal, test.want)
		}
	}
	ok, refusal := Feasible(f, Gang{Replicas: 3, Each: Resources{MilliGPU: 4000}, Required: "rack"})
	const want = "needs 12 GPUs (3 tasks of 4 GPUs) within one rack; the best rack, a/r0, has 8 in all"
	if ok || refusal.String() != want {
		t.Errorf("\n got %s\nwant %s", refusal, want)
	}
}
