package sim

import (
	"runtime/debug"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/actors/leader/scheduler"
)

// This file simulates the mailbox. It holds messages until the engine picks it, and never runs anything by itself.

// mailbox is one actor's queue. Messages of one mailbox keep their order, as in production. The seed chooses which
// mailbox is next.
type mailbox struct {
	proc      *process
	kind      actors.Kind
	invoker   actor.MessageInvoker
	self      *actor.PID
	path      uint64 // hash of address and path, for the trace
	user      fifo[any]
	system    fifo[any]
	posted    fifo[instant] // arrival of each user message, for a Job that the checkers observe
	handled   instant       // arrival of the message that the actor handles now, for the same Jobs
	suspended bool
	busy      instant // until then the actor is at its last step
	queued    bool    // it is among the engine's ready mailboxes, or is parked
	drafted   instant // when a Job last passed a write to the Journal
	answered  bool    // the present message is the answer to that write
}

// fifo is a queue that releases its memory when it is empty.
type fifo[T any] struct {
	items []T
	head  int
}

func (f *fifo[T]) len() int { return len(f.items) - f.head }

func (f *fifo[T]) push(x T) { f.items = append(f.items, x) }

func (f *fifo[T]) pop() (x T) {
	if f.head == len(f.items) {
		return x
	}
	var none T
	x, f.items[f.head] = f.items[f.head], none
	f.head++
	switch {
	case f.head < len(f.items):
	case cap(f.items) > 16:
		f.items, f.head = nil, 0
	default:
		f.items, f.head = f.items[:0], 0
	}
	return x
}

// PostUserMessage keeps a message. Messages to a dead process are lost.
func (m *mailbox) PostUserMessage(message any) {
	if m.proc.dead {
		return
	}
	if w := m.proc.w; w.opts.Prompt && isPass(message) {
		w.engine.passes = append(w.engine.passes, func() {
			m.user.push(message)
			m.wake()
		})
		return
	}
	m.user.push(message)
	if m.kind == actors.KindJob && m.proc.w.checking {
		m.posted.push(m.proc.w.engine.now)
	}
	if m.kind == actors.KindJournal {
		m.proc.draft(unwrapped(message))
	}
	m.proc.w.mailed(m)
	m.wake()
}

// PostSystemMessage keeps a message of Proto.Actor itself.
func (m *mailbox) PostSystemMessage(message any) {
	if m.proc.dead {
		return
	}
	m.system.push(message)
	m.wake()
}

// RegisterHandlers stores the owner of the mailbox.
func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, _ actor.Dispatcher) {
	m.invoker = invoker
	m.self = invoker.(actor.Context).Self()
	if slices.Contains(lasting, m.kind) {
		m.proc.lasting = append(m.proc.lasting, m)
	}
	if m.kind == actors.KindCoordinator {
		m.proc.coordinators[m.self.Id]++
	}
	m.path = hashString(m.self.Address) ^ hashString(m.self.Id)*3
}

// actor returns the owner of the mailbox.
func (m *mailbox) actor() actor.Actor { return m.invoker.(actor.Context).Actor() }

// Start does nothing, because the engine runs all mailboxes.
func (m *mailbox) Start() {}

// UserMessageCount returns the number of waiting messages.
func (m *mailbox) UserMessageCount() int { return m.user.len() }

func (m *mailbox) wake() {
	if m.queued || m.busy > m.proc.w.engine.now || m.system.len() == 0 && m.suspended {
		return
	}
	m.queued = true
	m.proc.w.engine.ready = append(m.proc.w.engine.ready, m)
}

// take returns the next message, system messages first, or nil.
func (m *mailbox) take() (message any, system bool) {
	if x := m.system.pop(); x != nil {
		return x, true
	}
	if m.suspended {
		return nil, false
	}
	m.handled = m.posted.pop()
	return m.user.pop(), false
}

// deliver runs the actor on one message. A panic is a bug of the actor and ends the run.
func (m *mailbox) deliver(message any, system bool) {
	defer m.catch(message)
	w := m.proc.w
	w.current = m
	switch {
	case !system && w.breaks(m):
		m.crack(message)
	case !system:
		m.handle(message)
	case isSuspend(message):
		m.suspended = true
	case isResume(message):
		m.suspended = false
	default:
		m.invoker.InvokeSystemMessage(message)
	}
	w.current = nil
}

// handle runs the actor on a user message, with the observers around it.
func (m *mailbox) handle(message any) {
	w := m.proc.w
	_, m.answered = unwrapped(message).(protocol.Written)
	if !m.proc.observed(m.kind) {
		m.invoker.InvokeUserMessage(message)
		return
	}
	if w.observer.springs(m, message, trapBefore) {
		return
	}
	w.beforeReceive(m, message)
	m.invoker.InvokeUserMessage(message)
	w.afterReceive(m, message)
	w.observer.springs(m, message, trapAfter)
}

func (m *mailbox) catch(message any) {
	reason := recover()
	if reason == nil {
		return
	}
	m.proc.w.current = nil
	m.proc.w.panicked(m, message, reason, debug.Stack())
}

func isPass(message any) bool    { _, is := message.(scheduler.PlanNow); return is }
func isSuspend(message any) bool { _, is := message.(*actor.SuspendMailbox); return is }
func isResume(message any) bool  { _, is := message.(*actor.ResumeMailbox); return is }

// unwrapped returns the message without Proto.Actor's envelope.
func unwrapped(message any) any {
	if envelope, is := message.(*actor.MessageEnvelope); is {
		return envelope.Message
	}
	return message
}

// senderOf returns the sender in Proto.Actor's envelope.
func senderOf(message any) *actor.PID {
	if envelope, is := message.(*actor.MessageEnvelope); is {
		return envelope.Sender
	}
	return nil
}

// idleDispatcher is never used, because a message would run on another goroutine.
type idleDispatcher struct{}

func (idleDispatcher) Schedule(func()) {
	panic("the simulator's dispatcher was asked to run something")
}
func (idleDispatcher) Throughput() int { return 1 }
