package gate

import (
	"sync"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/cluster/link/envelope"
	"github.com/yi-json/synapse/cluster/rights"
	"github.com/yi-json/synapse/messages"
)

// This file owns that an event is copied and encoded once for all who are shown the same of it. Whoever watches
// everything is sent every event, and to leave out what one may not see costs more than to send it: for a hundred
// watchers that was nearly half of all memory that a scheduler allocated. To encode what is left was half of what such
// a watch cost then.

// keptEvents is how many copies are kept: the watchers of an event come for it within a moment.
const keptEvents = 256

// aspect is what is shown of an event to all of a role, and apart from them to the owner of its job.
type aspect struct {
	event *messages.Event
	role  identity.Role
	mine  bool
}

// events are the copies that were made last.
type events struct {
	mu     sync.Mutex
	copies map[aspect]rights.Answer
	made   []aspect // in a ring, of which next is the oldest
	next   int
}

// show is the event without what the watcher may not see. Nobody changes it.
func (s *events) show(who identity.Identity, e *messages.Event) rights.Answer {
	v := aspect{e, who.Role, rights.Mine(who.Name, e.GetJob().GetRecord().Whose())}
	s.mu.Lock()
	shown, ok := s.copies[v]
	s.mu.Unlock()
	if ok {
		return shown
	}
	shown = rights.Show(who, e)
	shown.Message = envelope.Share(shown.Message)
	s.mu.Lock()
	defer s.mu.Unlock()
	if first, ok := s.copies[v]; ok { // another watcher was as quick
		return first
	}
	if s.copies == nil {
		s.copies, s.made = map[aspect]rights.Answer{}, make([]aspect, keptEvents)
	}
	delete(s.copies, s.made[s.next])
	s.made[s.next], s.copies[v] = v, shown
	s.next = (s.next + 1) % keptEvents
	return shown
}
