package link

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/cluster/link/envelope"
	"github.com/yi-json/synapse/messages"
)

// This file owns the handling of incoming frames. Everything that a peer sends is checked. Only a frame that gRPC
// itself refuses ends the stream.

// reader delivers the messages of one peer.
type reader struct {
	line *line
	may  table // permitted incoming messages
	pace pace
	// caller is the node at the other end. It is nil at a node's own end.
	caller *caller
	batch  envelope.Batch
	// complained is set after the first logged refusal, and puzzled after the first unknown type. One line is enough to
	// find the fault, and a hostile peer must not fill the disk.
	complained, puzzled bool
}

// maxKindShown limits the logged length of a type name in bytes, because the peer chooses the name.
const maxKindShown = 80

// bulk limits the large messages that are decoded at the same time. Decoded messages take several times as many bytes,
// and only then can Validate refuse them.
var bulk = make(chan struct{}, maxBulky)

// frame delivers one frame, and returns how long to pause the reading.
func (r *reader) frame(frame []byte) time.Duration {
	said := 1
	for ok := range r.batch.Each(frame) {
		if !ok {
			r.line.o.Count(countMalformed, 1)
		}
		said += r.batch.Len()
		for i := range r.batch.Len() {
			if name := r.take(i); name != countReceived {
				r.line.o.Count(name, 1)
			}
		}
	}
	r.batch.Forget()
	return r.pace.took(said, len(frame))
}

// take delivers one message of the batch, and returns the counter for the result.
func (r *reader) take(i int) (outcome string) {
	defer func() {
		if reason := recover(); reason != nil {
			r.line.o.Log.Error("Reading a message from %s failed with a panic: %v", r.line.theirs, reason)
			outcome = countPanicked
		}
	}()
	m, ok := r.batch.At(i)
	if !ok {
		return countMalformed
	}
	row := r.may[string(m.Kind)]
	switch {
	case row == nil:
		r.wonder(m.Kind)
		return countUnknown
	case string(m.Target.Address) != r.line.ours || !covers(row.to, string(m.Target.Path)):
		return countForbidden
	case row.from != "" && (string(m.Sender.Address) != r.line.theirs || !covers(row.from, string(m.Sender.Path))):
		return countForbidden
	case row.to == anyRack && !r.line.ofRack(string(m.Target.Path)):
		return countForbidden
	}
	message, outcome := r.message(row, m.Data)
	if message == nil {
		return outcome
	}
	if r.caller != nil && !r.caller.says(message) {
		return countForged
	}
	if h, ok := message.(*messages.Hello); ok && r.caller != nil {
		h.Doubt = doubts(r.caller.bounds, h.Announcement)
	}
	return r.deliver(row, m, message)
}

// message decodes and checks one message, or returns the counter of its refusal.
func (r *reader) message(row *rule, data []byte) (spoken, string) {
	if len(data) > maxMessageBytes {
		return nil, countInvalid
	}
	if len(data) > bulky {
		if envelope.Objects(row.descriptor(), data, maxObjects) < 0 {
			return nil, countInvalid
		}
		bulk <- struct{}{}
		defer func() { <-bulk }()
	}
	message := row.fresh()
	err := proto.Unmarshal(data, message)
	if err == nil {
		err = message.Validate()
	}
	if err != nil {
		r.complain(row, err)
		return nil, countInvalid
	}
	return message, ""
}

// complain logs the first refusal.
func (r *reader) complain(row *rule, why error) {
	if !r.complained {
		r.complained = true
		r.line.o.Log.Error("Dropped a %s of %s: %v", row.descriptor().Name(), r.line.theirs, why)
	}
}

// wonder logs the first message of an unknown type or direction. A newer version sends messages that this version does
// not know, and must continue without an answer.
func (r *reader) wonder(kind []byte) {
	if !r.puzzled {
		r.puzzled = true
		r.line.o.Log.Info("Ignored a message of %s: this version does not accept a %s from there; the link "+
			"stays open",
			r.line.theirs, messages.AsText(string(kind[:min(len(kind), maxKindShown)])))
	}
}

// says reports whether a fact is about the node that sent it, and about this start of its agent.
func (c *caller) says(message spoken) bool {
	fact, ok := message.(interface{ GetOrigin() *messages.Origin })
	if !ok {
		return true
	}
	o := fact.GetOrigin()
	return o.GetNode() == string(c.node) && o.GetMachineId() == c.machine &&
		o.GetIncarnation().GetBootId() == c.boot && o.GetIncarnation().GetStartedNs() == c.startedNs
}

// deliver passes a message to the actor, if it exists.
func (r *reader) deliver(row *rule, m envelope.Received, message spoken) string {
	to := actor.NewPID(r.line.ours, string(m.Target.Path))
	process, ok := r.line.system.ProcessRegistry.GetLocal(to.Id)
	if !ok {
		return countDeadLetters
	}
	r.line.o.Count(countReceived, 1)
	if row.from == "" {
		process.SendUserMessage(to, message)
		return countReceived
	}
	sender := actor.NewPID(*r.line.known.Load(), string(m.Sender.Path))
	process.SendUserMessage(to, &actor.MessageEnvelope{Message: message, Sender: sender})
	return countReceived
}

// String returns the node for logs.
func (c caller) String() string {
	return fmt.Sprintf("%s (machine %s, boot %s)", c.node, c.machine, c.boot)
}
