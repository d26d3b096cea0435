package estimate

// This file tests the size of jobs.

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/yi-json/synapse/topology"
)

const gib = 1 << 30

func TestSize(t *testing.T) {
	f := topology.NewTree([]string{"rack"})
	join := func(n int, gpuType string, cpus, gibs, gpus int64, why string) {
		for range n {
			m := topology.Machine{
				ID: topology.NodeID(fmt.Sprint("n", f.Len())), GPUType: gpuType, Place: []string{"r"},
				Total: topology.Resources{MilliCPU: cpus * 1000, MemoryBytes: gibs * gib, MilliGPU: gpus * 1000},
			}
			f.Join(m, m.Idle())
			f.SetUsable(m.ID, why)
		}
	}
	join(3, "h100", 64, 512, 8, "")
	join(2, "h100", 64, 512, 8, "drained")
	join(4, "h100", 256, 1024, 8, "")
	join(20, "a100", 32, 256, 4, "")
	join(1, "", 96, 384, 0, "")
	pools := PoolsOf(f)
	var words []string
	for _, p := range pools {
		words = append(words, fmt.Sprintf("%q %d of %d CPUs", p.Name, p.Size, p.Usual.MilliCPU/1000))
	}
	if fmt.Sprint(words) != `["" 8000 of 96 CPUs "a100" 80000 of 32 CPUs "h100" 56000 of 64 CPUs]` {
		t.Errorf("%s", words)
	}
	of := func(cpus, gibs, milli int64) topology.Resources {
		return topology.Resources{MilliCPU: cpus * 1000, MemoryBytes: gibs * gib, MilliGPU: milli}
	}
	for _, c := range []struct {
		gang  topology.Gang
		pool  string
		size  int64
		class Class
	}{
		{topology.Gang{Replicas: 1, Each: of(8, 64, 1000), GPUType: "h100"}, "h100", 1000, OneGPU},
		{topology.Gang{Replicas: 1, Each: of(1, 1, 250), GPUType: "h100"}, "h100", 250, OneGPU},
		{topology.Gang{Replicas: 2, Each: of(8, 64, 1000), GPUType: "h100"}, "h100", 2000, FewGPUs},
		// all CPUs of a node
		{topology.Gang{Replicas: 1, Each: of(64, 1, 1000), GPUType: "h100"}, "h100", 8000, EightGPUs},
		{topology.Gang{Replicas: 1, Each: of(1, 384, 1000), GPUType: "h100"}, "h100", 6000, EightGPUs},
		{topology.Gang{Replicas: 4, Each: of(1, 1, 8000), GPUType: "h100"}, "h100", 32000, ManyGPUs},
		{topology.Gang{Split: topology.SplitAny, Total: of(1, 1, 9000), GPUType: "h100"}, "h100", 9000, ManyGPUs},
		{topology.Gang{Replicas: 1, Each: of(1, 1, 1000)}, "a100", 1000, OneGPU}, // the largest pool
		{topology.Gang{Replicas: 1, Each: of(12, 0, 0)}, "", 1000, OneGPU},
		{topology.Gang{Replicas: 16, Each: of(12, 0, 0)}, "", 16000, ManyGPUs},
		{topology.Gang{Replicas: 1, Each: of(1, 0, 0)}, "", 84, OneGPU}, // rounded up
		{topology.Gang{Replicas: 1, Each: of(1, 0, 1000), GPUType: "b200"}, "b200", 1000, OneGPU},
		{topology.Gang{Replicas: 1, Each: topology.Resources{}}, "", 1, OneGPU},
		// the largest possible amounts
		{topology.Gang{Replicas: math.MaxInt32, Each: topology.Resources{MemoryBytes: math.MaxInt64}}, "", 178956970667,
			ManyGPUs},
	} {
		pool := pools.Of(&c.gang)
		if size := pool.SizeOf(&c.gang); pool.Name != c.pool || size != c.size || ClassOf(size) != c.class {
			t.Errorf("%+v is in pool %q and of size %d, class %d", c.gang, pool.Name, size, ClassOf(size))
		}
	}
	// Without nodes for such jobs, a job without GPUs counts where it runs.
	f.Remove(topology.NodeID("n29"))
	pools = PoolsOf(f)
	needsNone := topology.Gang{Replicas: 1, Each: of(8, 0, 0)}
	if p := pools.Of(&needsNone); p.Name != "a100" || p.SizeOf(&needsNone) != 1000 {
		t.Errorf("it is in pool %q, of size %d", p.Name, p.SizeOf(&needsNone))
	}
	if p := (Pools{}).Of(&needsNone); p.Name != "" || p.SizeOf(&needsNone) != 1 {
		t.Errorf("where there is no machine it is in pool %q, of size %d", p.Name, p.SizeOf(&needsNone))
	}
	// GPUs of an unknown type have a pool. A node whose GPUs are all out of service belongs to the pool of its
	// type.
	odd := []topology.Machine{
		{ID: "x", Total: of(1, 1, 1000)},
		{ID: "y", Total: of(1, 1, 0), Broken: 1, GPUType: "h100"},
	}
	f = topology.NewTree(nil)
	for _, m := range odd {
		f.Join(m, m.Idle())
	}
	if pools := PoolsOf(f); len(pools) != 2 ||
		!slices.IsSortedFunc(pools, func(a, b Pool) int { return map[bool]int{true: -1, false: 1}[a.Name < b.Name] }) ||
		pools[0].Name != "?" {
		t.Errorf("%+v", pools)
	}
}

// TestSizesOfJobs checks that the class depends on the size, and the size on the resource with the largest part.
func TestSizesOfJobs(t *testing.T) {
	for size, want := range map[int64]Class{
		1: OneGPU, 1000: OneGPU, 1001: FewGPUs, 4000: FewGPUs, 4001: EightGPUs, 8000: EightGPUs, 8001: ManyGPUs,
	} {
		if got := ClassOf(size); got != want {
			t.Errorf("%d is of class %d, want %d", size, got, want)
		}
	}
	p := Pool{Usual: topology.Resources{MilliCPU: 64_000, MemoryBytes: 1 << 40, MilliGPU: 8000}}
	for _, c := range []struct {
		each     topology.Resources
		replicas int32
		want     int64
	}{
		{topology.Resources{MilliGPU: 2000}, 3, 6000}, {topology.Resources{MilliGPU: 1000, MilliCPU: 32_000}, 1, 4000},
		{topology.Resources{MilliGPU: 1000, MemoryBytes: 1 << 39}, 2, 8000}, {topology.Resources{}, 1, 1},
		{topology.Resources{MilliGPU: 4000, MilliCPU: 8000}, 1, 4000},
	} {
		if got := p.SizeOf(&topology.Gang{Replicas: c.replicas, Each: c.each}); got != c.want {
			t.Errorf("%+v: %d, want %d", c, got, c.want)
		}
	}
}
