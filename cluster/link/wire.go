package link

import (
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
)

// This file owns how local actors reach remote actors: through one Proto.Actor process for all of them, which looks up
// the stream for every message. A PID caches its process forever, so with a process per stream it would keep writing to
// a stream that has ended.

// sender sends by address. The function find returns the present line to an address.
type sender struct {
	o    *Options
	may  table
	ours string
	find func(to *actor.PID, message any) *line
	long sync.Once // logs the first message that is too long: its receiver would wait forever
}

// SendUserMessage sends a message, or drops and counts it. It never blocks.
func (w *sender) SendUserMessage(to *actor.PID, sent any) {
	l, may := written(w.may, w.ours, to, sent)
	if may && len(l.Data) > maxMessageBytes {
		may = false
		w.long.Do(func() {
			w.o.Log.Error("Dropped a %s for %s: it has %d bytes, more than %d",
				l.Kind, to.Address, len(l.Data), maxMessageBytes)
		})
	}
	if !may {
		w.o.Count(countUnsayable, 1)
		return
	}
	message := actor.UnwrapEnvelopeMessage(sent)
	line := w.find(to, message)
	if line == nil {
		w.o.Count(countNoLink, 1)
		return
	}
	if _, welcome := message.(*messages.Welcome); welcome {
		line.rack.Store(&l.Sender)
	}
	line.out.put(l)
}

// SendSystemMessage does nothing, because no actor watches a remote actor.
func (w *sender) SendSystemMessage(*actor.PID, any) { w.o.Count(countSystem, 1) }

// Stop does nothing, because no actor stops a remote actor.
func (w *sender) Stop(*actor.PID) { w.o.Count(countSystem, 1) }
