package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file observes Nodes closely. It compares a node's ledger before and after a message, and checks that a repeated
// message changes nothing. It also holds the trap that kills an agent at a chosen message.

// nodeState is a Node's ledger before a message.
type nodeState struct {
	version uint64
	epoch   uint64
	sworn   bool
}

// trap is a planned death of an agent.
type trap uint8

const (
	noTrap trap = iota
	trapBefore
	trapAfter
)

// observer looks at every message that a Node gets.
type observer struct {
	w      *World
	before nodeState
	sample *generator
	trap   trap
	skip   int // messages about gangs before the trap strikes
}

const repeatOneIn = 64 // one message in so many is delivered a second time

func newObserver(w *World) *observer {
	return &observer{w: w, sample: newSource(w.opts.Seed).fork("sample")}
}

// command is any order about an attempt.
type command interface{ GetOrder() *messages.Order }

func (w *World) beforeReceive(m *mailbox, _ any) {
	n := m.proc.node
	w.observer.before = nodeState{version: n.Ledger().Version(), epoch: n.Epoch(), sworn: n.Sworn()}
}

func (w *World) afterReceive(m *mailbox, message any) {
	o := w.observer
	said, is := unwrapped(message).(messages.Message)
	if !is || m.proc.dead {
		return
	}
	w.seen(Event{Kind: Handled, Process: m.proc, Machine: m.proc.machine, Message: said, Before: o.before})
	if w.engine.halted {
		return
	}
	if o.sample.below(repeatOneIn) == 0 {
		o.repeat(m, message, said)
	}
}

// repeat delivers the same message again at once.
func (o *observer) repeat(m *mailbox, message any, said messages.Message) {
	again := any(proto.Clone(said))
	if from := senderOf(message); from != nil {
		again = &actor.MessageEnvelope{Message: again, Sender: actor.NewPID(from.Address, from.Id)}
	}
	before := digestOf(m.proc.node.Ledger())
	o.w.count("repeated", 1)
	m.invoker.InvokeUserMessage(again)
	if after := digestOf(m.proc.node.Ledger()); after != before {
		o.w.violate("S9 idempotent", "%s: a second %T changed its books", m.proc.address, said)
	}
}

// digestOf returns a hash of the parts of a ledger that a repeated message must not change.
func digestOf(l *topology.Ledger) uint64 {
	t := newTrace()
	for _, s := range l.Allocations() {
		t.word(s.Token.Epoch)
		t.word(s.Token.Counter)
		t.word(uint64(s.State))
		t.word(uint64(s.ExpiresAt))
		t.word(uint64(s.Port))
		for i := range s.Grants {
			g := &s.Grants[i]
			t.word(uint64(g.Rank))
			if g.Gone {
				t.word(1)
			}
			for _, share := range g.GPUs {
				t.word(hashString(string(share.GPU)))
				t.word(uint64(share.Milli))
			}
		}
	}
	b := l.Books()
	for _, r := range [...]topology.Resources{b.Free, b.Reserved, b.Committed, b.Stopping, b.Withdrawn} {
		t.word(uint64(r.MilliCPU))
		t.word(uint64(r.MemoryBytes))
		t.word(uint64(r.MilliGPU))
	}
	return t.a ^ t.b
}

// springs reports whether the trap strikes at this message. If so, the agent dies.
func (o *observer) springs(m *mailbox, message any, which trap) bool {
	if o.trap != which || m.proc.machine == nil || m.proc.machine.original != nil {
		return false
	}
	switch unwrapped(message).(type) {
	case *messages.HeartbeatAck, *messages.Welcome, *messages.Lead, *actor.Started:
		return false
	}
	if strings.HasSuffix(fmt.Sprintf("%T", unwrapped(message)), "Due") {
		return false // a timer: no message about a gang is in progress
	}
	if o.skip--; o.skip >= 0 {
		return false
	}
	o.trap = noTrap
	o.w.note(m.proc, "killed by a trap at message %T", unwrapped(message))
	m.proc.crash()
	return true
}

// scanEvery returns the virtual time between two looks at the whole world.
func (w *World) scanEvery() time.Duration {
	if len(w.machines) > 1000 {
		return 30 * time.Second
	}
	return time.Second
}

// scan repeatedly shows the whole world to the checkers.
func (w *World) scan() {
	w.seen(Event{Kind: Scanned})
	w.gaps.count(w, w.scanEvery())
	w.engine.after(w.scanEvery(), w.scan)
}
