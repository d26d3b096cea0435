package link

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// This file owns the mailbox of actors that the link delivers to.

// Mailbox is an unbounded mailbox that may be posted to as soon as its actor has
// a name. Proto.Actor enters an actor into the registry before the mailbox knows
// what to run. The stock mailbox, posted to in that moment, panics in the poster
// and, worse, never runs again: the actor is there, and deaf for ever. Among
// actors of one process nobody speaks to an actor before it is spawned; the link
// does, when a machine's fact meets its job's actor being recreated. So every
// Props of a process with a link is made with actor.WithMailbox(link.Mailbox).
//
// It also gives way after a burst, where the stock mailbox goes on until it is
// empty, and it takes what has come all at once: one lock for many messages, and
// no allocation for any.
func Mailbox() actor.Mailbox {
	m := &mailbox{}
	m.turn = m.process
	m.user, m.taken, m.system = m.few[0][:0], m.few[1][:0], m.birth[:0]
	return m
}

// mailbox is posted to by anybody, and run by one goroutine at a time.
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

	// Of the turn alone.
	taken     []any // user messages in their order, the first so many done
	done      int
	suspended bool

	few   [2][2]any // most actors never have more
	birth [1]any    // of system messages, those that every actor gets
}

// roomy is from where on an emptied buffer is given back.
const roomy = 1024

// PostUserMessage may come at any time.
func (m *mailbox) PostUserMessage(message any) {
	m.mu.Lock()
	m.user = append(m.user, message)
	m.wake()
}

// PostSystemMessage is heard before all user messages.
func (m *mailbox) PostSystemMessage(message any) {
	m.mu.Lock()
	m.urgent.Add(1)
	m.system = append(m.system, message)
	m.wake()
}

// wake asks for a turn where none is under way, and lets go of the lock.
func (m *mailbox) wake() {
	asks := m.begun && !m.queued
	m.queued = m.queued || asks
	m.mu.Unlock()
	if asks {
		m.dispatcher.Schedule(m.turn)
	}
}

// RegisterHandlers tells whom to run and where.
func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.invoker, m.dispatcher = invoker, dispatcher
}

// Start comes after the actor's Started was posted: whoever spoke early is heard next.
func (m *mailbox) Start() {
	m.mu.Lock()
	m.begun = true
	m.wake()
}

// UserMessageCount is how many wait; those that a turn has taken no longer do.
func (m *mailbox) UserMessageCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.user)
}

// process is one turn. Where messages are left after it, the next is asked for.
func (m *mailbox) process() {
	for left := m.dispatcher.Throughput(); left > 0; left-- {
		if !m.handle() {
			return
		}
	}
	m.dispatcher.Schedule(m.turn)
}

// handle runs the actor on the next message, and reports whether there was one. A
// message that the actor fails on is told to its supervisor.
func (m *mailbox) handle() (some bool) {
	message, system, some := m.next()
	if !some {
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

// next takes a message. Where there is none the turn is over, and whoever posts
// from then on asks for another.
func (m *mailbox) next() (message any, system, some bool) {
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

// exchange has what was posted become what is taken, and the other way round.
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
