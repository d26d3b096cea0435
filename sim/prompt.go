package sim

import (
	"fmt"
	"time"

	"github.com/yi-json/synapse/topology"
)

// This file simulates a world that replays a record. Nothing takes time by itself, and the replay is notified of every
// process that starts and ends.

// prompt removes chance from durations.
func (w *World) prompt() {
	w.engine.costMax, w.apart = 0, 0
	w.net.even, w.chance.even = &w.opts.Latency, &w.opts.Latency
}

// rackOf returns the rack of a node.
func (w *World) rackOf(index int) int {
	for rack, machines := range w.opts.Racks {
		if index < machines {
			return rack
		}
		index -= machines
	}
	return len(w.opts.Racks) + index/w.draw.PerRack
}

// Happening is the start or the end of a process.
type Happening struct {
	Job     topology.JobID
	Attempt topology.Token
	Members int // members of the attempt
	Machine int // number of the node, from 1
	GPUs    int // whole GPUs
	Began   bool
	Whole   bool // with this process the whole gang runs
}

// OnTask calls a script at the start and the end of every process.
func (w *World) OnTask(told func(Happening)) { w.onTask = told }

// OnStart lets a script set the run time of the tasks of a job, regardless of its command.
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

// NameOf returns the name of a job that has not finished, or an empty string if there is none.
func (w *World) NameOf(job topology.JobID) string {
	if page := w.books.jobs[string(job)]; page != nil {
		return page.record.Spec.GetName()
	}
	return ""
}

// TraceHash returns a hash of everything that has happened so far.
func (w *World) TraceHash() string { return w.engine.trace.sum() }

// NodeID returns the ID of a node by its number, from 1.
func NodeID(number int) topology.NodeID { return topology.NodeID(fmt.Sprintf("n%05d", number)) }

// Chance returns a number from 0 to below 1, which depends only on the seed and the number.
func Chance(seed, number uint64) float64 {
	s := newSource(seed).fork("chance")
	s.state ^= number * 0x9e3779b97f4a7c15
	return float64(s.next()>>11) / (1 << 53)
}

// At lets a script act at a time since the world began.
func (w *World) At(at time.Duration, do func()) { w.engine.at(instant(at), action(do)) }
