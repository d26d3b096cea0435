package topology

// This file computes the default memory of a gang that requests none: a share of a node's memory, by the gang's CPUs
// and devices. On a node with devices, half of the memory belongs to the CPUs and half to the devices. If such a gang
// fits on a node by CPUs and devices, it also fits by memory. Gangs with default memory therefore never wait for
// memory. Using the larger of the two shares would give all memory to a gang with all devices, and make the remaining
// CPUs unusable. The default is the smallest share over all nodes that can hold a part of the gang. A share of the
// actual node would be unknown before the placement, and would differ between attempts.

import "math"

// The memory per CPU and per device if no known node can hold the gang. Nearly every node has more.
const (
	cpuMemory = 1 << 30
	gpuMemory = 4 << 30
)

// memoryStep is the unit to which the default is rounded down, so that it is easy to read.
const memoryStep = 1 << 20

// MemoryByShare returns the default memory of each task, or of the complete gang if it requests a total. It returns 0
// for an invalid gang, and if no matching node announces its memory.
func MemoryByShare(f *Tree, g Gang) int64 {
	d := demandOf(&g)
	if d.problem != "" {
		return 0
	}
	least, ok := f.leastShare(&d, &g)
	if !ok {
		least = mulDiv(cpuMemory, d.cpu, d.den*1000) + mulDiv(gpuMemory, d.milliGPU(), WholeGPU)
	}
	if least > memoryStep {
		least -= least % memoryStep
	}
	least = min(least, math.MaxInt64/2/d.units) // the sum of the gang must not overflow
	if g.Split == SplitNone {
		return least
	}
	return least * d.units
}

// milliGPU returns the device share of one unit.
func (r *rate) milliGPU() int64 { return r.gpus*WholeGPU + r.part }

// leastShare returns the smallest memory share of one unit over all nodes that can hold one, and false if there is no
// such node. Nodes that announce no memory count only if no others do.
func (f *Tree) leastShare(d *demand, g *Gang) (least int64, known bool) {
	f.arrange()
	one := d.need(1)
	named, out := setOf(g.Only), setOf(g.out())
	serves := make([]bool, len(f.kinds.all))
	for i := range serves {
		serves[i] = f.kinds.all[i].matches(g.wanted())
	}
	var last room // neighbouring nodes are usually equal, and a comparison is cheaper than a division
	for _, sh := range f.plan.shelves {
		for i := range sh.rooms {
			r := &sh.rooms[i]
			if r.kind == last.kind && r.cpuTotal == last.cpuTotal && r.memTotal == last.memTotal && r.gpus == last.gpus &&
				r.broken == last.broken {
				continue
			}
			if !serves[r.kind] || named != nil && !named[sh.seats[i].id] || out[sh.seats[i].id] {
				continue
			}
			last = *r
			if !one.Within(Resources{MilliCPU: r.cpuTotal, MilliGPU: int64(r.gpus) * WholeGPU}) {
				continue
			}
			if share := d.shareOf(r); least == 0 || share > 0 && share < least {
				least = share
			}
			known = true
		}
	}
	return least, known
}

// shareOf returns a unit's share of a node's memory, by its share of the CPUs and of the devices. Devices out of
// service count, because their share is needed when they return. A unit of a total may take a fraction of a milli-CPU:
// den units take cpu.
func (r *rate) shareOf(m *room) (bytes int64) {
	devices := (int64(m.gpus) + int64(m.broken)) * WholeGPU
	ways := int64(1)
	if devices > 0 && m.cpuTotal > 0 {
		ways = 2
	}
	if r.cpu > 0 {
		bytes = mulDiv(m.memTotal, r.cpu, ways*r.den*m.cpuTotal)
	}
	if gpu := r.milliGPU(); gpu > 0 {
		bytes += mulDiv(m.memTotal, gpu, ways*devices)
	}
	return bytes
}
