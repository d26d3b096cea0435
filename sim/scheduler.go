package sim

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the machines that schedulers run on. Only the store's epoch is the
// truth about which of them leads; a process that is paused or cut off may believe in
// itself for a long time.

// schedulerHost is where one scheduler process runs, start after start.
type schedulerHost struct {
	w       *World
	index   int
	address string
	clock   clock
	proc    *process
	jumped  instant       // when its wall clock last did …
	wallWas time.Duration // … and by how much it was off before
	old     bool          // what is installed here is the version before
	cut     int           // how many faults lie between it and the store
	heardAt []instant     // when its leading process last heard each machine
	quietAt []instant     // when the last silence of ten seconds or more ended, by a Welcome
	silent  []bool        // there was one, and no Welcome since
}

// scheduler is the PID of the Scheduler actor at this address.
func (h *schedulerHost) scheduler() *actor.PID { return actor.NewPID(h.address, actors.SchedulerPath) }

func (w *World) newSchedulerHost(index int) *schedulerHost {
	h := &schedulerHost{w: w, index: index, address: fmt.Sprintf("scheduler-%d", index+1)}
	h.clock, h.old = w.newClock(), w.oldVersion() != nil
	most := len(w.machines) + foreignMost
	h.heardAt, h.quietAt, h.silent = make([]instant, most), make([]instant, most), make([]bool, most)
	w.endpoints[h.address] = &endpoint{address: h.address, scheduler: h}
	for _, m := range w.machines {
		m.links = append(m.links, &link{w: w, machine: m, host: h})
	}
	return h
}

// start brings a standby up. Machines dial it when they next try.
func (h *schedulerHost) start() {
	if h.proc != nil {
		return
	}
	h.proc = h.w.newProcess(h.address, h.clock)
	h.proc.host, h.proc.old = h, h.old
	h.w.endpoints[h.address].proc = h.proc
	h.w.note(h.proc, "started")
	for _, m := range h.w.dialling() {
		if m.proc != nil {
			m.links[h.index].dial(m, h.w.net.between(time.Millisecond, 500*time.Millisecond))
		}
	}
	h.begin(h.proc)
}

// stopped completes the death of the process.
func (h *schedulerHost) stopped() {
	h.proc = nil
	h.w.endpoints[h.address].proc = nil
	for _, m := range h.w.dialling() {
		m.links[h.index].breakOff()
	}
	h.w.engine.after(h.w.chance.between(500*time.Millisecond, 3*time.Second), h.start)
	if h.w.leading == h {
		h.w.leading = nil
	}
}

// tellLinks tells a Scheduler that has just come to be of every link that stands.
func (h *schedulerHost) tellLinks(p *process) {
	for _, m := range h.w.dialling() {
		if l := m.links[h.index]; l.up() && l.peer == p {
			h.linkUp(l)
		}
	}
}

// newJobID makes an id that was never used.
func (w *World) newJobID() topology.JobID {
	w.jobIDs++
	return topology.JobID(fmt.Sprintf("j%06d", w.jobIDs))
}

// Node is the address of a machine's Node.
func (p *process) Node(id topology.NodeID) *actor.PID {
	known := p.peers[id]
	if known == nil {
		known = actor.NewPID("node-"+string(id), actors.NodePath)
		if p.peers == nil {
			p.peers = map[topology.NodeID]*actor.PID{}
		}
		p.peers[id] = known
	}
	return known
}

// heard notes that a machine's word reached its rack at the leader. The
// checkers compare what the leader may call unreachable with it.
func (h *schedulerHost) heard(l *letter, at *process) {
	var epoch uint64
	switch m := l.message.(type) {
	case *messages.Heartbeat:
		epoch = m.Epoch
	case *messages.Report:
		epoch = m.Epoch
	}
	from := l.from.machine
	if at.epoch == 0 || epoch != at.epoch || from.proc != l.from {
		return
	}
	now := h.w.engine.now
	if now.since(h.heardAt[from.index]) >= h.w.constants.DeadAfter-time.Second {
		h.silent[from.index] = true
	}
	h.heardAt[from.index] = now
}

// heardSince reports whether the leader has heard a machine without a pause, since well before it decided something.
func (h *schedulerHost) heardSince(m *machine, decided instant, well time.Duration) bool {
	return !h.silent[m.index] && h.w.engine.now.since(h.heardAt[m.index]) < h.w.constants.Heartbeat+time.Second &&
		decided.since(h.quietAt[m.index]) > well
}

// welcomes notes that the leader takes a machine for reachable again.
func (h *schedulerHost) welcomes(m *machine) {
	h.silent[m.index], h.quietAt[m.index], h.heardAt[m.index] = false, h.w.engine.now, h.w.engine.now
}

// processGone tidies up after a crash, whoever it was.
func (w *World) processGone(p *process) {
	w.note(p, "died")
	switch {
	case p.host != nil && p.host.proc == p:
		p.host.stopped()
	case p.machine != nil && p.machine.proc == p:
		p.machine.agentGone()
	}
}
