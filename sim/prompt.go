package sim

import (
	"fmt"
	"time"

	"github.com/yi-json/synapse/topology"
)

// This file owns what a world is that replays a record: nothing takes a time of its
// own, and whoever drives it is told of every process that comes to be and ends.

// prompt takes chance out of time.
func (w *World) prompt() {
	w.engine.costMax, w.apart = 0, 0
	w.net.even, w.chance.even = &w.opts.Latency, &w.opts.Latency
}

// rackOf is the rack that a machine stands in.
func (w *World) rackOf(index int) int {
	for rack, machines := range w.opts.Racks {
		if index < machines {
			return rack
		}
		index -= machines
	}
	return len(w.opts.Racks) + index/w.draw.PerRack
}

// Happening is a process that comes to be, or ends.
type Happening struct {
	Job     topology.JobID
	Attempt topology.Token
	Members int // of the attempt
	Machine int // by its number, from 1
	GPUs    int // whole ones
	Began   bool
	Whole   bool // with this one all of its gang run
}

// OnTask hands a script every process that comes to be or ends, as it does.
func (w *World) OnTask(told func(Happening)) { w.onTask = told }

// OnStart has a script say for how long the tasks of a job run that start now, whatever its command says.
func (w *World) OnStart(lasts func(topology.JobID) time.Duration) { w.lasts = lasts }

func (w *World) happened(m *machine, t *task, began bool) {
	if w.onTask == nil {
		return
	}
	h := Happening{Job: topology.JobID(t.job), Attempt: t.key.Token, Machine: m.index + 1, Began: began}
	for _, g := range t.grant.GetGpus() {
		h.GPUs += int(g.Milli / topology.WholeGPU)
	}
	if a := w.books.attempts[t.key.Token]; a != nil {
		h.Members, h.Whole = len(a.Places), began && w.running[t.key.Token] == len(a.Places)
	}
	w.onTask(h)
}

// NameOf is the name that a job was given which is not over; empty where there is no such job.
func (w *World) NameOf(job topology.JobID) string {
	if page := w.books.jobs[string(job)]; page != nil {
		return page.record.Spec.GetName()
	}
	return ""
}

// TraceHash is one number for all that has happened so far.
func (w *World) TraceHash() string { return w.engine.trace.sum() }

// NodeID is the id of a machine by its number, from 1.
func NodeID(number int) topology.NodeID { return topology.NodeID(fmt.Sprintf("n%05d", number)) }

// Chance draws from 0 to below 1: the same for the same seed and the same number.
func Chance(seed, number uint64) float64 {
	s := newSource(seed).fork("chance")
	s.state ^= number * 0x9e3779b97f4a7c15
	return float64(s.next()>>11) / (1 << 53)
}

// At has a script do something at a time since the world began.
func (w *World) At(at time.Duration, do func()) { w.engine.at(instant(at), action(do)) }
