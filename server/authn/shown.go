package authn

import (
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/cluster/link/envelope"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/rights"
)

// This file owns that an event is copied and encoded once for all who are shown the same of it. Whoever watches
// everything is sent every event, and to leave out what one may not see costs more than to send it: for a hundred
// watchers that was nearly half of all memory that a scheduler allocated. To encode what is left was half of what such
// a watch cost then.

// What is kept of copies: how many, and how many bytes as they are sent. The watchers of a change come for it within a
// moment; those that begin to watch come for all that there is, each at its own pace.
const (
	keptEvents = 4_096
	keptBytes  = 2 << 20
)

// aspect has what is shown of an event to all of a role, and apart from them to the owner of its job.
type aspect struct {
	event *messages.Event
	role  identity.Role
	mine  bool
}

// events are the copies that were made last.
type events struct {
	mu     sync.Mutex
	copies map[aspect]rights.Answer
	made   []madeCopy // the oldest first
	bytes  int        // of all of them
}

// madeCopy is one, and how long it is.
type madeCopy struct {
	of    aspect
	bytes int
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
	size := proto.Size(shown.Message)
	shown.Message = envelope.Share(shown.Message)
	s.mu.Lock()
	defer s.mu.Unlock()
	if first, ok := s.copies[v]; ok { // another watcher was as quick
		return first
	}
	if s.copies == nil {
		s.copies = map[aspect]rights.Answer{}
	}
	one := madeCopy{v, size}
	s.copies[v], s.made, s.bytes = shown, append(s.made, one), s.bytes+one.bytes
	for len(s.made) > keptEvents || s.bytes > keptBytes && len(s.made) > 1 {
		delete(s.copies, s.made[0].of)
		s.bytes -= s.made[0].bytes
		s.made[0] = madeCopy{}
		s.made = s.made[1:]
	}
	return shown
}
