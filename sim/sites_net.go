package sim

import (
	"time"

	"github.com/yi-json/synapse/topology"
)

// This file defines the faults of networks, disks and GPUs.

// block partitions one direction of a link for a while.
func (f *faults) block(l *link, toward side, d time.Duration) {
	l.block(toward)
	if d > 0 {
		f.until(d, func() { l.unblock(toward) })
	}
}

// partition cuts off a few nodes, or sometimes a whole rack.
func partition(f *faults) bool {
	d := f.w.luck.skewed(time.Second, 90*time.Second)
	for _, m := range f.group() {
		f.w.say("%s cut off for %s", m.address, d)
		for _, l := range m.links {
			f.block(l, towardMachine, d)
			f.block(l, towardScheduler, d)
		}
	}
	return true
}

// group returns one node, or all nodes of a rack.
func (f *faults) group() []*machine {
	m := f.w.machines[f.w.luck.below(len(f.w.machines))]
	if !f.w.luck.chance(0.15) {
		return []*machine{m}
	}
	first := m.index / f.w.draw.PerRack * f.w.draw.PerRack
	return f.w.machines[first:min(first+f.w.draw.PerRack, len(f.w.machines))]
}

func oneWay(f *faults) bool {
	d := f.w.luck.skewed(time.Second, 90*time.Second)
	toward := side(f.w.luck.below(2))
	for _, m := range f.group() {
		f.w.say("%s cut off one way (%d) for %s", m.address, toward, d)
		for _, l := range m.links {
			f.block(l, toward, d)
		}
	}
	return true
}

// cutForEver takes a node off the network for the rest of the run. Its processes continue.
func cutForEver(f *faults, m *machine) bool {
	if m.gone || !f.mayLose("cut-for-ever") {
		return false
	}
	f.lost++
	m.gone = true // nobody counts on it any more
	f.w.say("%s cut off for ever", m.address)
	for _, l := range m.links {
		l.block(towardMachine)
		l.block(towardScheduler)
	}
	return true
}

// clog delays a node's traffic for less time than keepalive would notice.
func clog(f *faults, m *machine) bool {
	d := f.w.luck.skewed(50*time.Millisecond, 9*time.Second)
	for _, l := range m.links {
		f.block(l, side(f.w.luck.below(2)), d)
	}
	return true
}

// flap breaks a node's streams again and again.
func flap(f *faults, m *machine) bool {
	at := time.Duration(0)
	for range f.w.luck.span(2, 12) {
		at += f.w.luck.between(20*time.Millisecond, 2*time.Second)
		f.w.engine.after(at, func() {
			for _, l := range m.links {
				l.breakOff()
			}
		})
	}
	return true
}

// hostile makes the whole network adversarial for a while.
func hostile(f *faults) bool {
	if f.w.hostile != nil {
		return false
	}
	d := f.w.draw
	f.w.hostile = &hostility{drop: d.Drop, double: d.Double, late: d.Late, lateMost: d.LateMost}
	f.until(f.w.luck.between(d.Pace, 6*d.Pace), func() { f.w.hostile = nil })
	return true
}

func diskError(f *faults, m *machine) bool { return f.breakDisk(m, false) }

func diskFull(f *faults, m *machine) bool { return f.breakDisk(m, true) }

func (f *faults) breakDisk(m *machine, full bool) bool {
	if m.disk.failing > f.w.engine.now {
		return false
	}
	d := f.w.luck.skewed(100*time.Millisecond, time.Minute)
	f.w.say("%s disk fails for %s", m.address, d)
	m.disk.failing, m.disk.full = f.w.engine.now.plus(d), full
	f.until(d, func() { m.disk.failing = f.w.engine.now })
	return true
}

func diskStall(f *faults, m *machine) bool {
	d := f.w.luck.skewed(50*time.Millisecond, 20*time.Second)
	m.disk.stalled = f.w.engine.now.plus(d)
	f.until(d, func() { m.disk.stalled = f.w.engine.now })
	return true
}

// diskTorn is a power loss that corrupts the ledger's record.
func diskTorn(f *faults, m *machine) bool {
	if f.w.luck.chance(0.5) {
		// Only the agent dies. Its tasks still run when it finds its ledger unreadable.
		m.proc.crash()
	} else {
		m.powerLoss(f.w.luck.skewed(3*time.Second, time.Minute))
	}
	return m.tear()
}

func gpuFault(f *faults, m *machine) bool { return f.breakGPU(m) != "" }

// gpuFlap breaks a GPU and repairs it after a while, before or long after the end of its gang.
func gpuFlap(f *faults, m *machine) bool {
	gpu := f.breakGPU(m)
	if gpu == "" {
		return false
	}
	f.until(f.w.luck.skewed(time.Second, 10*time.Minute), func() {
		f.w.say("%s is healthy again", topology.GPUID(gpu))
		m.launcher.mend(gpu) // of this boot or a later one
	})
	return true
}

func (f *faults) breakGPU(m *machine) string {
	if len(m.announcement.Gpus) == 0 || len(m.launcher.faulted) > 1 {
		return ""
	}
	gpu := m.announcement.Gpus[f.w.luck.below(len(m.announcement.Gpus))].Id
	f.w.say("%s faults", topology.GPUID(gpu))
	m.launcher.fault(gpu)
	return gpu
}
