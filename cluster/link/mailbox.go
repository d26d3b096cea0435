package link

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// This file owns the mailbox of actors that the link delivers to.

// Mailbox is an unbounded mailbox that may be posted to as soon as its actor has a name. Proto.Actor enters an actor
// into the registry before the mailbox knows what to run. The stock mailbox, posted to in that moment, panics in the
// poster and, worse, never runs again: the actor exists and never receives anything. Within a process no actor sends to
// another before it is spawned; the link does, when a machine's fact arrives while the actor of its job is recreated.
// So every Props is made with actor.WithMailbox(link.Mailbox), also in tests, and a law refuses those that are not.
//
// It also gives way after a burst, where the stock mailbox goes on until it is empty, and it takes all that has come at
// once: one lock for many messages, and no allocation for any.
func Mailbox() actor.Mailbox {
	m := &mailbox{}
	m.turn = m.process
	m.user, m.taken, m.system = m.few[0][:0], m.few[1][:0], m.birth[:0]
	return m
}

// mailbox takes messages from any goroutine, and is run by one at a time.
type mailbox struct {
	invoker    actor.MessageInvoker
	dispatcher actor.Dispatcher
	turn       func() // process, bound once

	mu     sync.Mutex
	begun  bool  // the actor may be run
	queued bool  // a turn is under way or asked for
	system []any // goes first
	user   []any
	urgent atomic.Int32 // how many system messages wait

	// These belong to the turn alone.
	taken     []any // user messages in their order; the first done of them are handled handled
	done      int
	suspended bool

	few   [2][2]any // the first room of user and taken: most actors never need more
	birth [1]any    // the first room of system
}

// roomy is the capacity above which an emptied buffer is given back.
const roomy = 1024

// PostUserMessage may come at any time.
func (m *mailbox) PostUserMessage(message any) {
	m.mu.Lock()
	m.user = append(m.user, message)
	m.wake()
}

// PostSystemMessage may come at any time, and goes before all user messages.
func (m *mailbox) PostSystemMessage(message any) {
	m.mu.Lock()
	m.urgent.Add(1)
	m.system = append(m.system, message)
	m.wake()
}

// wake asks for a turn if none is under way, and releases the lock.
func (m *mailbox) wake() {
	asks := m.begun && !m.queued
	m.queued = m.queued || asks
	m.mu.Unlock()
	if asks {
		m.dispatcher.Schedule(m.turn)
	}
}

// RegisterHandlers tells the mailbox what to run, and where.
func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.invoker, m.dispatcher = invoker, dispatcher
}

// Start comes after the actor's Started was posted: what came too early is handled next.
func (m *mailbox) Start() {
	m.mu.Lock()
	m.begun = true
	m.wake()
}

// UserMessageCount is how many messages wait; those that a turn has taken no longer do.
func (m *mailbox) UserMessageCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.user)
}

// process is one turn. If messages are left after it, it asks for the next.
func (m *mailbox) process() {
	for left := m.dispatcher.Throughput(); left > 0; left-- {
		if !m.handle() {
			return
		}
	}
	m.dispatcher.Schedule(m.turn)
}

// handle runs the actor on the next message, and reports whether there was one, also where the actor fails on it: then
// its supervisor is told of the message.
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

// next takes a message. Where there is none the turn is over, and the next post asks for another.
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

// exchange takes what was posted, and reuses the memory of what was taken before.
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
