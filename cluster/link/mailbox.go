package link

import (
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
// does, when a machine's fact meets its job's actor being made anew. So every
// Props of a process with a link is made with actor.WithMailbox(link.Mailbox).
func Mailbox() actor.Mailbox { return &mailbox{Mailbox: actor.Unbounded()()} }

type mailbox struct {
	actor.Mailbox
	begun atomic.Bool
	mu    sync.Mutex
	early []any
}

// PostUserMessage keeps what comes too early.
func (m *mailbox) PostUserMessage(message any) {
	if m.begun.Load() || !m.keep(message) {
		m.Mailbox.PostUserMessage(message)
	}
}

func (m *mailbox) keep(message any) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.begun.Load() {
		return false
	}
	m.early = append(m.early, message)
	return true
}

// Start comes after the actor's Started was posted: whoever spoke early is heard next.
func (m *mailbox) Start() {
	m.Mailbox.Start()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, message := range m.early {
		m.Mailbox.PostUserMessage(message)
	}
	m.early = nil
	m.begun.Store(true)
}
