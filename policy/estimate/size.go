package estimate

// This file computes the size of a job: one number in milli-GPUs, by the resource of which the job requests the largest
// part. Estimates, the share for short jobs, the anti-starvation credit and queues use the size, separately for each
// pool. The size must never decide whether a job fits. The topology tree decides that, by all requested resources.

import (
	"cmp"
	"slices"

	"github.com/yi-json/synapse/topology"
)

// Class is a range of sizes with similar jobs.
type Class uint8

// The classes: one GPU, up to four, up to a node of eight, and more.
const (
	OneGPU Class = iota + 1
	FewGPUs
	EightGPUs
	ManyGPUs
)

// ClassOf returns the class of a size in milli-GPUs.
func ClassOf(size int64) Class {
	switch {
	case size <= topology.WholeGPU:
		return OneGPU
	case size <= 4*topology.WholeGPU:
		return FewGPUs
	case size <= 8*topology.WholeGPU:
		return EightGPUs
	}
	return ManyGPUs
}

const (
	// NoGPUs is the pool of nodes without GPUs. otherGPUs is the pool of GPUs of unknown type.
	NoGPUs, otherGPUs = "", "?"

	// usualWorth is the size of a node without GPUs, so that the classes have the same meaning in all pools.
	usualWorth = 8 * topology.WholeGPU
)

// Pool is all nodes of one GPU type, or all nodes without GPUs.
type Pool struct {
	Name string
	// Size is the total size of the schedulable nodes, in milli-GPUs.
	Size int64
	// Usual is the most frequent total of a node in the pool, schedulable or not. A mean value would change the
	// size of jobs whenever a node joins.
	Usual topology.Resources
}

// Pools has the pools of a cluster, sorted by name.
type Pools []Pool

// PoolsOf computes the pools of a cluster.
func PoolsOf(f *topology.Tree) Pools {
	var pools Pools
	kinds := map[string]*census{}
	f.Walk(func(m topology.Machine, _ topology.Capacity, why string) {
		name := poolOf(&m)
		at, ok := slices.BinarySearchFunc(pools, name, func(p Pool, name string) int { return cmp.Compare(p.Name, name) })
		if !ok {
			pools = slices.Insert(pools, at, Pool{Name: name})
			kinds[name] = &census{at: map[topology.Resources]int{}}
		}
		if why == "" {
			pools[at].Size += worth(m.Total)
		}
		kinds[name].count(m.Total)
	})
	for i := range pools {
		pools[i].Usual = kinds[pools[i].Name].usual()
	}
	return pools
}

func poolOf(m *topology.Machine) string {
	switch {
	case m.Total.MilliGPU == 0 && m.Broken == 0:
		return NoGPUs
	case m.GPUType == "":
		return otherGPUs
	}
	return m.GPUType
}

// worth returns the size of a job that takes a complete node.
func worth(total topology.Resources) int64 {
	if total.MilliGPU > 0 {
		return total.MilliGPU
	}
	return usualWorth
}

// census counts the nodes of each kind.
type census struct {
	at    map[topology.Resources]int
	kinds []kind
}

type kind struct {
	total    topology.Resources
	machines int
}

func (c *census) count(total topology.Resources) {
	at, ok := c.at[total]
	if !ok {
		at = len(c.kinds)
		c.at[total] = at
		c.kinds = append(c.kinds, kind{total: total})
	}
	c.kinds[at].machines++
}

// usual returns the most frequent kind of node, and the largest among equals.
func (c *census) usual() topology.Resources {
	return slices.MaxFunc(c.kinds, func(a, b kind) int {
		return cmp.Or(cmp.Compare(a.machines, b.machines), cmp.Compare(a.total.MilliGPU, b.total.MilliGPU),
			cmp.Compare(a.total.MilliCPU, b.total.MilliCPU), cmp.Compare(a.total.MemoryBytes, b.total.MemoryBytes))
	}).total
}

// Of returns the pool of a gang: the pool of the GPU type that it names, or else the largest pool. A gang without GPUs
// belongs to the nodes without GPUs, if there are any.
func (p Pools) Of(g *topology.Gang) Pool {
	if each, _ := asked(g); g.GPUType != "" || each.MilliGPU == 0 {
		for i := range p {
			if p[i].Name == g.GPUType {
				return p[i]
			}
		}
	}
	largest := Pool{Name: g.GPUType}
	for i := range p {
		if g.GPUType == "" && p[i].Name != NoGPUs && (largest.Name == "" || p[i].Size > largest.Size) {
			largest = p[i]
		}
	}
	return largest
}

// asked returns the request of one unit of a gang, and the number of units.
func asked(g *topology.Gang) (each topology.Resources, n int64) {
	if g.Split != topology.SplitNone {
		return g.Total, 1
	}
	return g.Each, int64(g.Replicas)
}

// TotalOf returns the total request of a gang.
func TotalOf(g *topology.Gang) topology.Resources {
	each, n := asked(g)
	return topology.Resources{
		MilliCPU: topology.Scaled(each.MilliCPU, n, 1), MemoryBytes: topology.Scaled(each.MemoryBytes, n, 1),
		MilliGPU: topology.Scaled(each.MilliGPU, n, 1),
	}
}

// Whole returns the size of a job that takes a complete node.
func (p *Pool) Whole() int64 { return worth(p.Usual) }

// SizeOf returns the size of a gang in this pool. It is the largest of three values: the GPUs, and the parts of a
// node's CPU and memory, scaled to the size of a node. It is positive.
func (p *Pool) SizeOf(g *topology.Gang) int64 {
	each, n := asked(g)
	whole := p.Whole()
	size := max(topology.Scaled(each.MilliGPU, n, 1), 1)
	if p.Usual.MilliCPU > 0 {
		size = max(size, topology.Scaled(whole, topology.Scaled(each.MilliCPU, n, 1), p.Usual.MilliCPU))
	}
	if p.Usual.MemoryBytes > 0 {
		size = max(size, topology.Scaled(whole, topology.Scaled(each.MemoryBytes, n, 1), p.Usual.MemoryBytes))
	}
	return size
}
