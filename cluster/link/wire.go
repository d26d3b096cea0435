package link

import "github.com/asynkron/protoactor-go/actor"

// This file owns what the actors here see of actors elsewhere: one Proto.Actor
// process for all of them, which looks for the stream at every message. A PID
// remembers its process for ever, so a process per stream would go on writing
// to one that has ended.

// wire sends by address. find answers the line that leads there now.
type wire struct {
	o    *Options
	may  table
	ours string
	find func(to *actor.PID, message any) *line
}

// SendUserMessage puts a message on its way, or drops and counts it. It never blocks.
func (w *wire) SendUserMessage(to *actor.PID, said any) {
	l, may := written(w.may, w.ours, to, said)
	if !may {
		w.o.Count(CountUnsayable, 1)
		return
	}
	line := w.find(to, actor.UnwrapEnvelopeMessage(said))
	if line == nil {
		w.o.Count(CountNoLink, 1)
		return
	}
	line.out.put(l)
}

// SendSystemMessage does nothing: nobody watches, or is watched, across machines.
func (w *wire) SendSystemMessage(*actor.PID, any) { w.o.Count(CountSystem, 1) }

// Stop does nothing: nobody stops an actor elsewhere.
func (w *wire) Stop(*actor.PID) { w.o.Count(CountSystem, 1) }
