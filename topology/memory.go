package topology

// This file owns how much memory a gang gets that asks for none: its share of a machine's, by its CPUs and its devices.
// On a machine with devices half of the memory goes with the CPUs and half with the devices. So a gang that has room
// there by its CPUs and devices has room by its memory too, and no such gang keeps another waiting for memory that
// neither asked for. The greater of the two shares would give all memory to a gang that has all devices, and leave the
// other CPUs unusable. Of all machines that could ever hold a part of the gang the one that gives least counts. The
// alternative, a share of the machine that it is placed on, would be known only there, differ from one attempt to the
// next, and stand in no record.

import "math"

// The memory per CPU and per device while no machine is known that could hold the gang. Nearly every machine has more.
const (
	cpuMemory = 1 << 30
	gpuMemory = 4 << 30
)

// memoryStep is the unit to which such an amount is rounded down, so that people can read it.
const memoryStep = 1 << 20

// MemoryByShare is the memory of each task of a gang that asks for none, or of all of it where it asks for a total. It
// is 0 where the gang makes no sense, or where no machine that could hold it says how much memory it has.
func MemoryByShare(f *Fabric, g Gang) int64 {
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
	least = min(least, math.MaxInt64/2/d.units) // the sum of the gang is a number too
	if g.Split == SplitNone {
		return least
	}
	return least * d.units
}

// milliGPU returns the device share of one unit.
func (r *rate) milliGPU() int64 { return r.gpus*WholeGPU + r.part }

// leastShare is the least that one unit's share of a machine comes to, over all machines that could ever hold one;
// false where there is none. A machine that names no memory does not count where others do.
func (f *Fabric) leastShare(d *demand, g *Gang) (least int64, known bool) {
	f.arrange()
	one := d.need(1)
	named, out := setOf(g.Only), setOf(g.out())
	serves := make([]bool, len(f.kinds.all))
	for i := range serves {
		serves[i] = f.kinds.all[i].matches(g.wanted())
	}
	var last room // neighbouring machines are mostly alike, and a comparison is cheaper than a division
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

// shareOf is the memory of a machine by the share that a unit takes of its CPUs and of its devices. Devices that are
// out of service count too: their share is needed when they are back. A unit of a total may take a part of a milli-CPU:
// den of them take cpu.
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
