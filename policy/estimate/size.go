package estimate

// This file owns how large a job is, as one number: whatever it asks for most of, in
// milli-GPUs. Estimates, headroom, the guard and shares count in it, each pool for
// itself. It must never decide whether a job fits: the fabric does that, by all that the
// job asks for.

import (
	"cmp"
	"slices"

	"github.com/yi-json/synapse/topology"
)

// Class is a range of sizes whose jobs are alike.
type Class uint8

// The classes: one GPU, a few, up to a machine of eight, and more.
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
	// NoGPUs is the pool of the machines without GPUs, otherGPUs that of GPUs whose type is not known.
	NoGPUs, otherGPUs = "", "?"

	// usualWorth is what a machine without GPUs is worth, so that one class means as much of
	// it as elsewhere.
	usualWorth = 8 * topology.WholeGPU
)

// Pool is the machines of one GPU type, or those without GPUs.
type Pool struct {
	Name string
	// Size is what those machines are worth together that may be given work, in milli-GPUs.
	Size int64
	// Usual is what most of the machines have, whether they may be given work or not. By the
	// mean a job would be of another size whenever a machine joins.
	Usual topology.Resources
}

// Pools lists those of a cluster, by their names.
type Pools []Pool

// PoolsOf counts the machines of a cluster.
func PoolsOf(f *topology.Fabric) Pools {
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

// worth returns the size of a job that takes all of a machine.
func worth(total topology.Resources) int64 {
	if total.MilliGPU > 0 {
		return total.MilliGPU
	}
	return usualWorth
}

// census counts the machines of each kind.
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

// usual returns the kind with the most machines, of several the largest.
func (c *census) usual() topology.Resources {
	return slices.MaxFunc(c.kinds, func(a, b kind) int {
		return cmp.Or(cmp.Compare(a.machines, b.machines), cmp.Compare(a.total.MilliGPU, b.total.MilliGPU),
			cmp.Compare(a.total.MilliCPU, b.total.MilliCPU), cmp.Compare(a.total.MemoryBytes, b.total.MemoryBytes))
	}).total
}

// Of returns the pool that a gang counts in: of the type that it names, or else the largest. One
// that asks for no GPU counts among the machines without, where there are such.
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

// asked returns what one unit of a gang asks for, and how many it wants of them.
func asked(g *topology.Gang) (each topology.Resources, n int64) {
	if g.Split != topology.SplitNone {
		return g.Total, 1
	}
	return g.Each, int64(g.Replicas)
}

// TotalOf returns what all of a gang takes.
func TotalOf(g *topology.Gang) topology.Resources {
	each, n := asked(g)
	return topology.Resources{
		MilliCPU: topology.Scaled(each.MilliCPU, n, 1), MemoryBytes: topology.Scaled(each.MemoryBytes, n, 1),
		MilliGPU: topology.Scaled(each.MilliGPU, n, 1),
	}
}

// Whole returns the size of a job that takes all of one machine.
func (p *Pool) Whole() int64 { return worth(p.Usual) }

// SizeOf returns how large a gang is in this pool: its GPUs, or as much of a machine's worth as it
// takes of the machine's CPU or memory, where that is more. It is positive.
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
