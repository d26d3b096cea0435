package topology

import (
	"fmt"
	"strings"
	"testing"
)

// TestRefusalsSayWhichResource checks the refusals of gangs that no node could ever hold. They give the nearest node
// and what it lacks, or the known names, and the advice fits the cause.
func TestRefusalsSayWhichResource(t *testing.T) {
	f := NewTree([]string{"zone", "rack"})
	for i, total := range []Resources{
		{MilliCPU: 16000, MemoryBytes: 64 * gib, MilliGPU: 8000},
		{MilliCPU: 32000, MemoryBytes: 256 * gib, MilliGPU: 8000},
		{MilliCPU: 32000, MemoryBytes: 128 * gib, MilliGPU: 4000},
	} {
		m := Machine{ID: NodeID(fmt.Sprintf("n%d", i+1)), Place: []string{"a", "r1"}, Total: total, GPUType: "h100",
			Labels: []Label{{"pool", string(rune('a' + i))}, {"zone", "a"}}}
		f.Join(m, Capacity{}) // what runs now has no effect
	}
	of := func(cpu, mem, gpu int64) Resources {
		return Resources{MilliCPU: cpu * 1000, MemoryBytes: mem * gib, MilliGPU: gpu * 1000}
	}
	const later = ", or allow it to wait for nodes that join later"
	for _, c := range []struct {
		gang     Gang
		why, out string
	}{
		{Gang{Replicas: 1, Each: of(64, 0, 8)},
			"needs 8 GPUs; the cluster has 20 in all, of which none can be used: 64 CPUs asked, n2 has 32 in all",
			"ask for less in a task" + later},
		{Gang{Replicas: 2, Each: of(1, 300, 8)},
			"needs 16 GPUs (2 tasks of 8 GPUs); the cluster has 20 in all, of which none can be used: 300 GiB asked, n2 " +
				"has 256 GiB in all", "ask for less in a task" + later},
		{Gang{Replicas: 1, Each: of(36, 0, 9)},
			"needs 9 GPUs; the cluster has 20 in all, of which none can be used: 9 GPUs and 36 CPUs asked, n2 has 8 and " +
				"32 in all", "ask for less in a task" + later},
		{Gang{Replicas: 5, Each: of(1, 1, 5)},
			"needs 25 GPUs (5 tasks of 5 GPUs); the cluster has 20 in all, of which no more than 10 can be used: 5 GPUs " +
				"asked, n3 has 4 in all", "ask for less in a task" + later},
		{Gang{Replicas: 7, Each: of(1, 1, 3)},
			"needs 21 GPUs (7 tasks of 3 GPUs); the cluster has 20 in all, of which no more than 15 can be used: the " +
				"rest is in pieces", "ask for less" + later},
		{Gang{Replicas: 9, Each: of(1, 1, 4), Required: "rack"},
			"needs 36 GPUs (9 tasks of 4 GPUs) within one rack; the best rack, a/r1, has 20 in all",
			"ask for less, or for a coarser level than one rack" + later},
		{Gang{Total: of(160, 0, 10), Split: SplitAny},
			"needs 10 GPUs; the cluster has 20 in all, of which none can be used: 16 CPUs", ""},
		{Gang{Replicas: 1, Each: of(1, 0, 0), Required: "rak"}, `unknown topology level "rak"`, "known topology levels: zone, rack, node"},
		{Gang{Replicas: 1, Each: of(0, 0, 1), GPUType: "a100"}, "needs 1 GPU; no node has GPUs of type a100",
			"known GPU types: h100: choose one of them" + later},
		{Gang{Replicas: 1, Each: of(1, 0, 0), Selector: []Label{{"poll", "a"}}}, "needs 1 core; no node has poll=a",
			"known labels: pool, zone: choose one of them" + later},
		{Gang{Replicas: 1, Each: of(1, 0, 0), Selector: []Label{{NetworkKey, "none"}}},
			"needs 1 core; no node has network=none",
			"there are no task networks: choose one of them" + later},
		{Gang{Replicas: 1, Each: of(1, 0, 0), Selector: []Label{{"pool", "x"}}}, "needs 1 core; no node has pool=x",
			"known values of pool: a, b, c: choose one of them" + later},
		{Gang{Replicas: 1, Each: of(1, 0, 0), Selector: []Label{{"pool", "a"}, {"pool", "b"}}},
			"needs 1 core; no node has pool=a and pool=b together", "no single node has all of them: choose one of them" +
				later},
	} {
		ok, r := Feasible(f, c.gang)
		if c.out == "" { // 16 CPUs for a GPU: n1 holds one, n2 and n3 two each
			if ok || r.Room != 5 {
				t.Errorf("%v %v", ok, r)
			}
			continue
		}
		if got := r.String(); ok || got != c.why {
			t.Errorf("%+v\n got %s\nwant %s", c.gang, got, c.why)
		}
		if got := f.WayOut(c.gang, r); got != c.out {
			t.Errorf("%s\n the way out is %s\n            want %s", r, got, c.out)
		}
	}
}

// TestNoNodes checks what a gang hears in a cluster without nodes, whatever it asks for.
func TestNoNodes(t *testing.T) {
	f := NewTree([]string{"rack"})
	for _, g := range []Gang{
		{Each: Resources{MilliCPU: 1000}}, {Each: Resources{MilliGPU: WholeGPU}, GPUType: "H100"},
		{Each: Resources{MilliCPU: 1000}, Account: Account{Owner: "ann", Name: "ann"}},
		{Each: Resources{MilliCPU: 1000}, Vocabulary: 3},
	} {
		g.Replicas = 1
		var r Refusal
		if _, ok := PlaceLent(f, &g, Lent{}, &r); ok || !strings.HasSuffix(r.String(), "; no node has joined the cluster") ||
			f.WayOut(g, &r) != "start synapse-node on a node, or allow it to wait for nodes that join later" {
			t.Errorf("%v: %s; %s", g, &r, f.WayOut(g, &r))
		}
	}
}

// TestNamedMachines checks that a gang uses only the named nodes, and that the explanation says which change would
// help.
func TestNamedMachines(t *testing.T) {
	f := NewTree([]string{"rack"})
	for i, id := range []NodeID{"n1", "n2", "n3"} {
		f.Join(
			Machine{ID: id, Place: []string{"r1"}, Total: Resources{MilliGPU: 8000, MilliCPU: 64_000, MemoryBytes: 64 * gib}},
			Capacity{MilliCPU: 64_000, MemoryBytes: 64 * gib, WholeGPUs: int32(4 * i)})
	}
	for _, c := range []struct {
		gang Gang
		on   string
		why  string
	}{
		{Gang{Replicas: 1, Each: Resources{MilliGPU: 4000}, Only: []NodeID{"n3", "n9"}}, "[n3]", ""},
		{Gang{Replicas: 1, Each: Resources{MilliGPU: 4000}, Only: []NodeID{"n1"}}, "[]",
			"on other nodes than those named"},
		{Gang{Replicas: 2, Each: Resources{MilliGPU: 4000}, Exclude: []NodeID{"n2"}}, "[n3 n3]", ""},
		{Gang{Replicas: 2, Each: Resources{MilliGPU: 4000}, Apart: true}, "[n2 n3]", ""},
		{Gang{Replicas: 3, Each: Resources{MilliGPU: 4000}, Exclude: []NodeID{"n2"}}, "[]", "without excluding nodes"},
		{Gang{Replicas: 3, Each: Resources{MilliGPU: 4000}, Apart: true}, "[]", "with several tasks on one node"},
	} {
		p, _ := Place(f, c.gang)
		nodes := []NodeID{}
		for _, s := range p.Slots {
			nodes = append(nodes, s.Node)
		}
		if got := fmt.Sprint(nodes); got != c.on {
			t.Errorf("%+v is placed on %s, want %s", c.gang, got, c.on)
		}
		if e := relaxed(Explain(f, c.gang, nil)); !strings.Contains(e, c.why) {
			t.Errorf("%+v: %s; want %q in it", c.gang, e, c.why)
		}
	}
}

// TestNoGPUs checks that the refusal says so if no node has a GPU, and does not name a GPU type.
func TestNoGPUs(t *testing.T) {
	f := NewTree([]string{"zone", "rack"})
	f.Join(Machine{ID: "n1", Place: []string{"a", "r1"}, Total: Resources{MilliCPU: 8000, MemoryBytes: 1 << 36},
		Labels: []Label{{"pool", "a"}}}, Capacity{})
	for _, c := range []struct {
		gang Gang
		why  string
	}{
		{Gang{Replicas: 1}, "needs 1 GPU; no node has a GPU"},
		{Gang{Replicas: 1, Selector: []Label{{"pool", "a"}}}, "needs 1 GPU; no node with pool=a has a GPU"},
		{Gang{Replicas: 1, Only: []NodeID{"n1"}}, "needs 1 GPU on named nodes; no named node has a GPU"},
	} {
		c.gang.Each.MilliGPU = 1000
		_, r := Feasible(f, c.gang)
		const out = "ask for no GPU, or allow it to wait for nodes that join later"
		if r.String() != c.why || f.WayOut(c.gang, r) != out {
			t.Errorf("%v: %s: %s", c.gang, r, f.WayOut(c.gang, r))
		}
	}
}

// TestLabelWords checks that networks and secrets are shown as in job files. A label with the same text does not hide
// that no node has the network.
func TestLabelWords(t *testing.T) {
	f := NewTree([]string{"rack"})
	f.Join(Machine{ID: "n1", Place: []string{"r1"}, Total: Resources{MilliCPU: 64_000},
		Labels: []Label{{"network", "none"}}}, Capacity{MilliCPU: 64_000})
	for want, l := range map[string]Label{
		"network=none": {NetworkKey, "none"}, "secrets as files": {SecretKey, "files"}, "label pool=b": {"pool", "b"},
	} {
		g := Gang{Replicas: 1, Each: Resources{MilliCPU: 1000}, Selector: []Label{l}}
		_, r := Feasible(f, g)
		if got := r.String(); got != "needs 1 core; no node has "+l.String() {
			t.Errorf("%v: %s", l, got)
		}
		if got := (Constraint{Kind: OnLabel, Label: l}).String(); got != want {
			t.Errorf("%v is shown as %q", l, got)
		}
		if got := relaxed(Explain(f, g, nil)); got != "without "+want {
			t.Errorf("%v: %s", l, got)
		}
	}
}
