package main

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/topology"
)

// TestOpenb checks known results. On two nodes of two GPUs, pods that request 0.6 of a GPU waste 0.4 of each, and pods
// that request 0.4 use these parts.
func TestOpenb(t *testing.T) {
	nodes := [][]int64{{8000, 8000, 2}, {8000, 8000, 2}}
	large, small := topology.Resources{MilliCPU: 1, MilliGPU: 600}, topology.Resources{MilliCPU: 1, MilliGPU: 400}
	for _, c := range []struct {
		pods       []topology.Resources
		full, last float64
	}{
		{[]topology.Resources{large}, 0.6, 0.6},
		{[]topology.Resources{{MilliCPU: 1, MilliGPU: 2000}}, 1, 1},
		// the cores suffice for one pod on each node
		{[]topology.Resources{{MilliCPU: 5000, MilliGPU: 1000}}, 0.5, 0.5},
	} {
		if full, last := openbRun(nodes, c.pods, 1); full != c.full || last != c.last {
			t.Errorf("%v: allocated are %v and %v, want %v and %v", c.pods, full, last, c.full, c.last)
		}
	}
	for seed := range uint64(5) {
		order := openbOrder([]topology.Resources{large, small}, 4000, seed)
		wanted := int64(0)
		for _, p := range order {
			wanted += p.MilliGPU
		}
		if wanted < 5200 || wanted >= 5800 {
			t.Errorf("seed %d: %d are requested of 4000", seed, wanted)
		}
		full, last := openbRun(nodes, []topology.Resources{large, small}, seed)
		if again, _ := openbRun(nodes, []topology.Resources{large, small}, seed); full != again || full <= 0.6 ||
			last < full {
			t.Errorf("seed %d: %v, %v and %v", seed, full, again, last)
		}
	}
}

// TestOpenbReads checks that nothing is printed without the folder, and that an invalid table is rejected by its name.
func TestOpenbReads(t *testing.T) {
	folder := t.TempDir()
	var out strings.Builder
	if err := openb(folder, &out); err != nil || out.Len() > 0 {
		t.Errorf("%v: %s", err, &out)
	}
	table := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(folder, "openb"), 0o700); err != nil {
			t.Fatal(err)
		}
		file, err := os.Create(filepath.Join(folder, "openb", name))
		if err != nil {
			t.Fatal(err)
		}
		packed := gzip.NewWriter(file)
		if _, err := packed.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if packed.Close() != nil || file.Close() != nil {
			t.Fatal("the file cannot be written")
		}
	}
	table(openbNodes, "sn,cpu_milli,memory_mib,gpu,model\na,8000,8000,2,T4\n")
	table(openbPods, "name,cpu_milli,memory_mib,num_gpu\nb,1000,10,1\n")
	if err := openb(folder, &out); err == nil ||
		!strings.Contains(err.Error(), openbPods+": column gpu_milli is missing") {
		t.Errorf("%v", err)
	}
	table(openbPods, "name,cpu_milli,memory_mib,num_gpu,gpu_milli\nb,1000,10,1,500\n")
	const want = "| 10 orders | 100.0% ± 0.0 (100.0 to 100.0) | 100.0% ± 0.0 (100.0 to 100.0) |\n"
	if err := openb(folder, &out); err != nil || !strings.HasSuffix(out.String(), want) {
		t.Errorf("%v: %s", err, &out)
	}
}
