package sim

import (
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file simulates the stream between one node's agent and one scheduler process: when it connects, when it breaks,
// and which actors are notified.

// side names an end of a link as a direction.
type side uint8

const (
	towardMachine side = iota
	towardScheduler
)

// link is dialled by the node. The scheduler's end notifies its Scheduler when the link connects and breaks. The agent
// gets no notification.
type link struct {
	w       *World
	machine *machine
	host    *schedulerHost
	agent   *process // the agent of the present stream; nil while the link is down
	peer    *process // the scheduler's process at the other end
	stream  uint32   // grows with every break
	cut     instant  // messages of the last stream that arrive later are lost
	ends    [2]end
	dialing [2]bool  // by the node itself, and by a clone of it
	untold  *process // a scheduler that has not noticed yet that the other end went silent
}

// end is one direction.
type end struct {
	blocked int // number of partitions that block it
	last    instant
	held    []*letter // messages in the sender's outbox while blocked
	bytes   int       // size of held in bytes
}

const (
	keepaliveMin = 10 * time.Second
	keepaliveMax = 13 * time.Second
)

func (l *link) up() bool { return l.agent != nil }

func (l *link) blocked() bool { return l.ends[0].blocked > 0 || l.ends[1].blocked > 0 }

// carry takes a message from the sender's process.
func (l *link) carry(from *process, m *letter) {
	if !l.up() || m.toward == towardScheduler && l.agent != from || m.toward == towardMachine && l.peer != from {
		l.w.count("net.no_stream", 1)
		return
	}
	m.stream = l.stream
	if l.w.hostile != nil {
		l.carryHostile(m)
		return
	}
	e := &l.ends[m.toward]
	if e.blocked > 0 {
		l.hold(e, m)
		return
	}
	l.carryInOrder(e, m)
}

// hold puts a message into the sender's outbox. The outbox has the limit of the real one, or a smaller one in some
// runs. Messages to a peer that is too slow are lost.
func (l *link) hold(e *end, m *letter) {
	if len(e.held) >= l.w.draw.Queue || e.bytes+m.size > messages.MaxQueuedBytes {
		l.w.fired("outbox-full")
		return
	}
	e.held, e.bytes = append(e.held, m), e.bytes+m.size
}

// carryInOrder simulates a real stream, which delivers messages in order.
func (l *link) carryInOrder(e *end, m *letter) {
	at := l.w.engine.now.plus(l.w.net.between(50*time.Microsecond, 400*time.Microsecond))
	e.last = max(at, e.last+l.w.apart)
	l.w.engine.at(e.last, m)
}

// hostility holds the probabilities of an adversarial network.
type hostility struct {
	drop, double, late float64
	lateMost           time.Duration
}

// carryHostile loses, doubles, delays and reorders messages. The protocol must not depend on the order of a stream.
func (l *link) carryHostile(m *letter) {
	h, net := l.w.hostile, l.w.net
	if l.ends[m.toward].blocked > 0 || net.chance(h.drop) {
		l.w.fired("drop")
		return
	}
	l.w.engine.at(l.w.engine.now.plus(l.hostileDelay(h)), m)
	if net.chance(h.double) {
		l.w.fired("double")
		l.w.engine.at(l.w.engine.now.plus(l.hostileDelay(h)), m.copied())
	}
}

func (l *link) hostileDelay(h *hostility) time.Duration {
	if l.w.net.chance(h.late) {
		l.w.fired("late")
		d := l.w.net.skewed(10*time.Millisecond, h.lateMost)
		l.w.lateUntil = max(l.w.lateUntil, l.w.engine.now.plus(d))
		return d
	}
	return l.w.net.between(50*time.Microsecond, 3*time.Millisecond)
}

// arrives reports whether a message was delivered. On an orderly network a broken stream loses its last messages. On a
// hostile network they may still arrive.
func (l *link) arrives(m *letter) bool {
	if l.w.hostile != nil || m.stream == l.stream && l.up() {
		return true
	}
	if m.stream+1 == l.stream && l.w.engine.now <= l.cut {
		return true
	}
	l.w.count("net.lost_tail", 1)
	return false
}

// dial tries to connect the link after a delay, and repeats this until the link is up. A clone dials under its
// original's name, and each of them disconnects the other.
func (l *link) dial(who *machine, after time.Duration) {
	which := 0
	if who != l.machine {
		which = 1
	}
	if l.dialing[which] {
		return
	}
	l.dialing[which] = true
	l.w.engine.after(after, func() {
		l.dialing[which] = false
		l.connect(who)
	})
}

func (l *link) connect(who *machine) {
	agent, server := who.proc, l.host.proc
	if agent == nil || l.agent == agent && l.peer == server {
		return // it dials when it starts, or the link is already up
	}
	if agent.paused || l.blocked() || server == nil || server.paused {
		l.dial(who, l.w.net.between(time.Second, 3*time.Second))
		return
	}
	l.breakOff() // a newer stream of the same node closes the older one
	l.notice()
	l.agent, l.peer = agent, server
	l.host.linkUp(l)
}

// sever ends the stream. Messages on their way arrive up to a random moment.
func (l *link) sever() {
	if !l.up() {
		return
	}
	l.agent = nil
	l.stream++
	l.cut = l.w.engine.now.plus(l.w.net.between(0, 500*time.Microsecond))
	for i := range l.ends {
		l.ends[i].held, l.ends[i].bytes = nil, 0
	}
	l.untold, l.peer = l.peer, nil
}

// notice notifies the scheduler's end of a break.
func (l *link) notice() {
	if l.untold != nil {
		l.host.linkDown(l, l.untold)
		l.untold = nil
	}
}

// fallSilent ends a stream whose other end lost its power. The scheduler does not notice until keepalive fails or the
// node returns.
func (l *link) fallSilent() {
	l.sever()
	l.w.engine.after(l.w.net.between(keepaliveMin, keepaliveMax), l.notice)
}

// breakOff severs the stream, and its agent dials again.
func (l *link) breakOff() {
	if agent := l.agent; agent != nil {
		l.sever()
		l.notice()
		l.dial(agent.machine, l.w.net.between(50*time.Millisecond, time.Second))
	}
}

// block adds a partition in one direction. If it lasts, keepalive detects it.
func (l *link) block(toward side) {
	l.ends[toward].blocked++
	stream := l.stream
	l.w.engine.after(l.w.net.between(keepaliveMin, keepaliveMax), func() {
		if l.up() && l.stream == stream && l.blocked() {
			l.breakOff()
		}
	})
}

// unblock removes a partition. The held messages are then sent in their order.
func (l *link) unblock(toward side) {
	e := &l.ends[toward]
	if e.blocked--; e.blocked > 0 {
		return
	}
	held := e.held
	e.held, e.bytes = nil, 0
	for _, m := range held {
		l.carryInOrder(e, m)
	}
}

// linkUp notifies the Scheduler that a node is connected, if this process leads.
func (h *schedulerHost) linkUp(l *link) {
	if h.proc != nil && h.proc.leader != nil {
		h.proc.tell(h.scheduler(), actors.LinkUp{Node: l.machine.id})
	}
}

func (h *schedulerHost) linkDown(l *link, peer *process) {
	if !peer.dead && peer.epoch != 0 {
		peer.tell(h.scheduler(), actors.LinkDown{Node: l.machine.id})
	}
}
