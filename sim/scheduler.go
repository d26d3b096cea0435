package sim

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file simulates the hosts of the schedulers. Only the store's epoch tells which of them leads. A process that is
// paused or cut off may believe for a long time that it leads.

// schedulerHost is where one scheduler process runs, start after start.
type schedulerHost struct {
	w       *World
	index   int
	address string
	clock   clock
	proc    *process
	jumped  instant       // when its wall clock last jumped …
	wallWas time.Duration // … and its offset before
	old     bool          // the installed scheduler is of the previous version
	cut     int           // number of faults that cut it from the store
	heardAt []instant     // when its leading process last heard each node
	quietAt []instant     // when a Welcome last ended a silence of ten seconds or more
	// closedAt is when a scan last found that the leader gives the node no new work.
	closedAt []instant
	silent   []bool // there was such a silence, and no Welcome since
}

// scheduler is the PID of the Scheduler actor at this address.
func (h *schedulerHost) scheduler() *actor.PID { return actor.NewPID(h.address, actors.SchedulerPath) }

func (w *World) newSchedulerHost(index int) *schedulerHost {
	h := &schedulerHost{w: w, index: index, address: fmt.Sprintf("scheduler-%d", index+1)}
	h.clock, h.old = w.newClock(), w.oldVersion() != nil
	most := len(w.machines) + foreignMost
	h.heardAt, h.quietAt, h.silent = make([]instant, most), make([]instant, most), make([]bool, most)
	h.closedAt = make([]instant, most)
	w.endpoints[h.address] = &endpoint{address: h.address, scheduler: h}
	for _, m := range w.machines {
		m.links = append(m.links, &link{w: w, machine: m, host: h})
	}
	return h
}

// start starts a standby. Nodes connect to it at their next try.
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

// tellLinks notifies a new Scheduler of every connected link.
func (h *schedulerHost) tellLinks(p *process) {
	for _, m := range h.w.dialling() {
		if l := m.links[h.index]; l.up() && l.peer == p {
			h.linkUp(l)
		}
	}
}

// newJobID returns an ID that was never used.
func (w *World) newJobID() topology.JobID {
	w.jobIDs++
	return topology.JobID(fmt.Sprintf("j%06d", w.jobIDs))
}

// Node returns the PID of a node's Node actor.
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

// heard notes that a node's message reached its Rack at the leader. The checkers compare this with the nodes that the
// leader calls unreachable.
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

// heardSince reports whether the leader has heard a node without a pause, since well before a decision.
func (h *schedulerHost) heardSince(m *machine, decided instant, well time.Duration) bool {
	return !h.silent[m.index] && h.w.engine.now.since(h.heardAt[m.index]) < h.w.constants.Heartbeat+time.Second &&
		decided.since(h.quietAt[m.index]) > well
}

// welcomes notes that the leader counts a node as reachable again.
func (h *schedulerHost) welcomes(m *machine) {
	h.silent[m.index], h.quietAt[m.index], h.heardAt[m.index] = false, h.w.engine.now, h.w.engine.now
}

// processGone cleans up after any crash.
func (w *World) processGone(p *process) {
	w.note(p, "died")
	switch {
	case p.host != nil && p.host.proc == p:
		p.host.stopped()
	case p.machine != nil && p.machine.proc == p:
		p.machine.agentGone()
	}
}
