package link

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// This file owns the mailbox of actors that the link delivers to.

// Mailbox returns an unbounded mailbox that accepts messages as soon as its actor has a name. Proto.Actor registers an
// actor before its mailbox is ready to run. If Proto.Actor's own mailbox gets a message in that moment, it panics in
// the sender. Afterwards it never runs, so the actor receives nothing. Within a process, no actor sends to another
// before it is created. The link does, if a node's fact arrives while a Job is recreated. Therefore every Props uses
// actor.WithMailbox(link.Mailbox), also in tests, and an architecture rule enforces this.
//
// This mailbox also yields after a burst, while Proto.Actor's continues until it is empty. It takes all waiting
// messages at once: one lock for many messages, and no allocation.
func Mailbox() actor.Mailbox {
	m := &mailbox{}
	m.turn = m.process
	m.user, m.taken, m.system = m.few[0][:0], m.few[1][:0], m.birth[:0]
	return m
}

// mailbox accepts messages from any goroutine, and one goroutine at a time runs it.
type mailbox struct {
	invoker    actor.MessageInvoker
	dispatcher actor.Dispatcher
	turn       func() // process, bound once

	mu     sync.Mutex
	begun  bool  // the actor may run
	queued bool  // a turn is running or scheduled
	system []any // taken before user messages
	user   []any
	urgent atomic.Int32 // number of waiting system messages

	// Only the running turn uses these fields.
	taken     []any // user messages in order; the first done of them are handled
	done      int
	suspended bool

	few   [2][2]any // initial space of user and taken: most actors need no more
	birth [1]any    // initial space of system
}

// roomy is the capacity above which an emptied buffer is released.
const roomy = 1024

// PostUserMessage may be called at any time.
func (m *mailbox) PostUserMessage(message any) {
	m.mu.Lock()
	m.user = append(m.user, message)
	m.wake()
}

// PostSystemMessage may be called at any time. System messages precede all user messages.
func (m *mailbox) PostSystemMessage(message any) {
	m.mu.Lock()
	m.urgent.Add(1)
	m.system = append(m.system, message)
	m.wake()
}

// wake schedules a turn if none is running or scheduled, and releases the lock.
func (m *mailbox) wake() {
	asks := m.begun && !m.queued
	m.queued = m.queued || asks
	m.mu.Unlock()
	if asks {
		m.dispatcher.Schedule(m.turn)
	}
}

// RegisterHandlers sets the actor and the dispatcher.
func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.invoker, m.dispatcher = invoker, dispatcher
}

// Start is called after the actor's Started was posted. Messages that came earlier are handled next.
func (m *mailbox) Start() {
	m.mu.Lock()
	m.begun = true
	m.wake()
}

// UserMessageCount returns the number of waiting messages, without those that a turn has taken.
func (m *mailbox) UserMessageCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.user)
}

// process is one turn. If messages are left after it, it schedules the next turn.
func (m *mailbox) process() {
	for left := m.dispatcher.Throughput(); left > 0; left-- {
		if !m.handle() {
			return
		}
	}
	m.dispatcher.Schedule(m.turn)
}

// handle runs the actor on the next message, and reports whether there was one. It reports true also if the actor fails
// on it. The supervisor then gets the message.
func (m *mailbox) handle() (ok bool) {
	message, system, ok := m.next()
	if !ok {
		return false
	}
	defer func() {
		if why := recover(); why != nil {
			m.invoker.EscalateFailure(why, message)
		}
	}()
	if !system {
		m.invoker.InvokeUserMessage(message)
		return true
	}
	switch message.(type) {
	case *actor.SuspendMailbox:
		m.suspended = true
	case *actor.ResumeMailbox:
		m.suspended = false
	default:
		m.invoker.InvokeSystemMessage(message)
	}
	return true
}

// next takes a message. If there is none, the turn ends, and the next post schedules another.
func (m *mailbox) next() (message any, system, ok bool) {
	if m.urgent.Load() == 0 && !m.suspended && m.done < len(m.taken) {
		return m.take(), false, true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.system) > 0 {
		message = m.system[0]
		m.system = slices.Delete(m.system, 0, 1)
		m.urgent.Add(-1)
		return message, true, true
	}
	if m.done == len(m.taken) {
		m.exchange()
	}
	if m.suspended || len(m.taken) == 0 {
		m.queued = false
		return nil, false, false
	}
	return m.take(), false, true
}

// exchange takes the posted messages, and reuses the memory of those taken before.
func (m *mailbox) exchange() {
	if cap(m.taken) > roomy {
		m.taken = nil
	}
	m.user, m.taken, m.done = m.taken[:0], m.user, 0
}

func (m *mailbox) take() any {
	message := m.taken[m.done]
	m.taken[m.done] = nil
	m.done++
	return message
}
