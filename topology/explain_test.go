package topology

// This file tests that explanations are true: everything that they name is tried.

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
)

// TestExplainIsTruthful applies each change that random explanations name, and checks that the gang then starts.
func TestExplainIsTruthful(t *testing.T) {
	refused, relaxed, ended := 0, 0, 0
	for n := range *clusters / 4 {
		r := rand.New(rand.NewSource(*seed + int64(n)))
		w := randomWorld(r)
		f := w.tree(inOrder(len(w.spots)))
		before := f.Revision()
		e := Explain(f, w.gang, w.holders())
		if f.Revision() != before {
			t.Fatal("explaining changed the view")
		}
		if (e.Refusal == nil) != (w.place(w.gang) >= 0) {
			t.Fatalf("-cluster-seed=%d: explained %v\n%v", n, e, w)
		}
		if e.Refusal == nil {
			continue
		}
		refused++
		if problem := w.untrue(f, e); problem != "" {
			t.Fatalf("-cluster-seed=%d -clusters=4: %s\n%v\n%v", *seed+int64(n), problem, e, w)
		}
		relaxed += min(1, len(e.Relaxations))
		if e.Ends != nil {
			ended++
		}
	}
	t.Logf("%d refused, %d with relaxations, %d with an end", refused, relaxed, ended)
}

// holders returns the holders on all nodes.
func (w *world) holders() *Holders {
	h := NewHolders()
	for _, s := range w.spots {
		h.Set(s.m.ID, w.heldOn(s.m.ID))
	}
	return h
}

// heldOn invents a job for the used part of each node. Neighbors share a job.
func (w *world) heldOn(id NodeID) []Holder {
	s := w.spot(id)
	used := Resources{
		MilliCPU:    s.m.Total.MilliCPU - s.free.MilliCPU,
		MemoryBytes: s.m.Total.MemoryBytes - s.free.MemoryBytes,
		MilliGPU:    s.m.Total.MilliGPU - int64(s.free.WholeGPUs)*WholeGPU,
	}
	if used.MilliGPU > 0 && len(s.free.Parts) > 0 {
		used.MilliGPU -= int64(len(s.free.Parts)) * WholeGPU
	}
	n := int(id[2] - '0')
	return []Holder{{Job: JobID(fmt.Sprint("job-", n/2)), Amount: used, EndsBy: int64(n/2) * 100}}
}

func (w *world) untrue(f *Tree, e Explanation) string {
	for _, r := range e.Relaxations {
		mark := f.Mark()
		for _, id := range r.Return {
			f.SetUsable(id, "")
		}
		_, refusal := Place(f, r.Gang)
		f.Rollback(mark)
		if refusal != nil {
			return fmt.Sprintf("%q does not make it start: %v", r.Text, refusal)
		}
	}
	if e.Ends != nil {
		mark := f.Mark()
		for _, s := range w.spots {
			for _, h := range w.heldOn(s.m.ID) {
				if slices.Contains(e.Ends.Jobs, h.Job) {
					f.Give(Placement{Slots: []Slot{{Node: s.m.ID, Amount: h.Amount}}})
				}
			}
		}
		_, refusal := Place(f, w.gang)
		f.Rollback(mark)
		if refusal != nil {
			return fmt.Sprintf("%v ended and it does not start: %v", e.Ends, refusal)
		}
	}
	if e.Never != !w.everFits() {
		return fmt.Sprintf("never: %v", e.Never)
	}
	return w.wrongConflict(e.Conflict)
}

// everFits asks the oracle whether the gang fits on the idle cluster.
func (w *world) everFits() bool {
	idle := world{oracle: oracle{levels: w.levels}, gang: w.gang}
	for _, s := range w.spots {
		idle.spots = append(idle.spots, spot{m: s.m, free: s.m.Idle()})
	}
	return idle.place(w.gang) >= 0
}

// fitsWithout asks the oracle whether the gang fits without some of its constraints.
func (w *world) fitsWithout(dropped []Constraint) bool {
	x := explainer{g: w.gang}
	s := x.without(dropped)
	o := oracle{levels: w.levels}
	for _, at := range w.spots {
		if s.all {
			at.why = ""
		}
		if s.idle {
			at.free = at.m.Idle()
		}
		o.spots = append(o.spots, at)
	}
	return o.place(s.gang) >= 0
}

// wrongConflict asks the oracle whether the conflict is minimal: the gang must not fit with these constraints, and must
// fit without any one of them.
func (w *world) wrongConflict(conflict []Constraint) string {
	if len(conflict) == 1 && conflict[0].Kind == OnSize {
		return ""
	}
	x := explainer{g: w.gang}
	without := func(keep func(Constraint) bool) bool {
		return w.fitsWithout(slices.DeleteFunc(x.constraints(), keep))
	}
	if without(func(c Constraint) bool { return slices.Contains(conflict, c) }) {
		return fmt.Sprintf("the conflict %v alone does not keep it out", conflict)
	}
	for _, drop := range conflict {
		if !without(func(c Constraint) bool { return c != drop && slices.Contains(conflict, c) }) {
			return fmt.Sprintf("the conflict %v is not minimal: %v", conflict, drop)
		}
	}
	return ""
}

// TestExplainFacts checks the facts of several explanations.
func TestExplainFacts(t *testing.T) {
	f := NewTree([]string{"zone", "rack"})
	for i := range 12 {
		m := Machine{
			ID: NodeID(fmt.Sprintf("n%02d", i)), Place: []string{string(rune('a' + i/6)), fmt.Sprint("r", i/3)},
			Total: Resources{MilliCPU: 64000, MemoryBytes: 512 * gib, MilliGPU: 8000}, GPUType: "h100",
		}
		f.Join(m, m.Idle())
	}
	f.Take(
		Placement{Slots: []Slot{{Node: "n00", Amount: Resources{MilliGPU: 8000}},
			{Node: "n06", Amount: Resources{MilliGPU: 1000}}}})
	f.SetUsable("n03", "drained by ops")
	each := Resources{MilliCPU: 32000, MemoryBytes: 64 * gib, MilliGPU: 8000}
	holders := NewHolders()
	holders.Set("n00", []Holder{{"train-7f", Resources{MilliGPU: 8000}, 50e9}})
	holders.Set("n06", []Holder{{"eval-2", Resources{MilliGPU: 1000}, 2070e9}})
	for _, test := range []struct {
		name string
		gang Gang
		want string
	}{
		{
			"zone", Gang{Replicas: 6, Each: each, Required: "zone"},
			"needs 48 GPUs (6 tasks of 8 GPUs) within one zone; the best zone, b, has 47 free of 48, of which no more than 40 " +
				"can be used: 8 GPUs asked, n06 has 7 free" +
				" · [{{eval-2 {0 0 1000} 2070000000000} 1}] · {2070000000000 [eval-2]}" +
				" · [one zone resources of other jobs] · 1 of [one zone resources of other jobs]" +
				" · with 40 GPUs (5 tasks), or with topology preferred zone",
		},
		{
			"service", Gang{Replicas: 11, Each: each},
			"needs 88 GPUs (11 tasks of 8 GPUs); the cluster has 79 free of 96, of which no more than 72 can be used: 8 " +
				"GPUs asked, n06 has 7 free" +
				" · [{n03 drained by ops}] · [{{train-7f {0 0 8000} 50000000000} 1} {{eval-2 {0 0 1000} 2070000000000} 1}]" +
				" · {2070000000000 [train-7f eval-2]}" +
				" · [resources of other jobs] · 1 of [resources of other jobs]" +
				" · with 72 GPUs (9 tasks)",
		},
		{
			"memory", Gang{Replicas: 1, Each: Resources{MemoryBytes: 513 * gib, MilliGPU: 1000}},
			"needs 1 GPU; the cluster has 79 free of 96, of which none can be used: 513 GiB asked, n01 has 512 GiB free" +
				" · never · [{n03 drained by ops}] · 11 lack memory" +
				" · [memory] · 1 of [memory] · with 512 GiB of memory",
		},
		{
			"kind", Gang{Replicas: 1, Each: each, GPUType: "b200"},
			"needs 8 GPUs; no node has GPUs of type b200 · never" +
				" · [GPU type b200] · 1 of [GPU type b200] · with GPU type h100",
		},
		{
			"cpu", Gang{Replicas: 1, Each: Resources{MilliCPU: 65000, MilliGPU: 1000}},
			"needs 1 GPU; the cluster has 79 free of 96, of which none can be used: 65 CPUs asked, n01 has 64 free" +
				" · never · [{n03 drained by ops}] · 11 lack CPU" +
				" · [CPU] · 1 of [CPU] · with 64 cores of CPU",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := said(Explain(f, test.gang, holders))
			if got != test.want {
				t.Errorf("\n got %s\nwant %s", strings.ReplaceAll(got, " · ", "\n · "),
					strings.ReplaceAll(test.want, " · ", "\n · "))
			}
		})
	}
}

// said formats the facts of an explanation.
func said(e Explanation) string {
	parts := []string{e.Refusal.String()}
	add := func(is bool, text ...any) {
		if is {
			parts = append(parts, fmt.Sprint(text...))
		}
	}
	add(e.Never, "never")
	add(len(e.Out) > 0, e.Out)
	add(e.Best.LackMemory > 0, e.Best.LackMemory, " lack memory")
	add(e.Best.LackCPU > 0, e.Best.LackCPU, " lack CPU")
	add(len(e.Holders) > 0 && !e.Never, e.Holders)
	if e.Ends != nil {
		parts = append(parts, fmt.Sprint(*e.Ends))
	}
	add(true, e.Conflict)
	add(e.AtOnce > 0, e.AtOnce, " of ", e.InTheWay)
	return strings.Join(append(parts, relaxed(e)), " · ")
}

// relaxed formats the changes with which the gang would start.
func relaxed(e Explanation) string {
	var all []string
	for _, r := range e.Relaxations {
		all = append(all, r.Text)
	}
	return strings.Join(all, ", or ")
}

func TestSpan(t *testing.T) {
	const second = 1_000_000_000
	for ns, want := range map[int64]string{
		1: "1s", 59 * second: "59s", 60 * second: "60s", 60*second + 1: "2m",
		3599 * second: "1h0m", 7260 * second: "2h1m", 90_000 * second: "25h0m",
	} {
		if got := Span(ns); got != want {
			t.Errorf("%d is written %s, want %s", ns, got, want)
		}
	}
}

// TestExplainCounts checks that every node of the best domain is counted once, by what makes it unusable, and that long
// lists are shortened.
func TestExplainCounts(t *testing.T) {
	f := NewTree(nil)
	for i := range 8 {
		m := Machine{ID: NodeID(fmt.Sprint("n", i)),
			Total: Resources{MilliCPU: 64_000, MemoryBytes: 64 * gib, MilliGPU: 8000}, GPUType: "h100"}
		f.Join(m, m.Idle())
	}
	holders := NewHolders()
	for i := range 8 {
		id := NodeID(fmt.Sprint("n", i))
		if holders.Set(id, []Holder{{Job: "long", Amount: Resources{MilliGPU: 1000}}}); i < 5 {
			f.SetUsable(id, "down")
		}
	}
	e := Explain(f, Gang{Replicas: 4, Each: Resources{MilliGPU: 8000}, Exclude: []NodeID{"n7"}}, holders)
	if want := (Census{Machines: 8, OutOfService: 5, Excluded: 1, Useful: 2}); e.Best != want {
		t.Errorf("counted %+v, want %+v", e.Best, want)
	}
	if len(e.Holders) != 1 || e.Holders[0].Nodes != 8 || e.Holders[0].Amount.MilliGPU != 8000 {
		t.Errorf("the holders are %+v", e.Holders)
	}
	if len(e.Out) != 5 || e.Out[4] != (OutOfService{"n4", "down"}) {
		t.Errorf("out of service are %v", e.Out)
	}
	e = Explain(f, Gang{Replicas: 7, Each: Resources{MilliGPU: 8000}, Exclude: []NodeID{"n7"}}, nil)
	if text := relaxed(e); !strings.HasSuffix(text, "with n0, n1, n2, n3 and 1 more back in service") {
		t.Errorf("the text is %s", text)
	}
}
