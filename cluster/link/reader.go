package link

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/cluster/link/envelope"
	"github.com/yi-json/synapse/messages"
)

// This file owns the handling of incoming frames. Nothing that a peer sends is believed before it is checked, and
// nothing ends the stream but a frame that gRPC itself refuses.

// reader delivers what one peer sends.
type reader struct {
	line *line
	may  table // what may come in
	pace pace
	// caller is the machine at the other end; it is nil at a machine's own end.
	caller *caller
	batch  envelope.Batch
	// complained is set once a refusal has been logged, and puzzled once a kind that is not known has been. One line is
	// enough to find the fault, and a hostile peer must not fill the disk.
	complained, puzzled bool
}

// maxKindShown bounds what the log shows of a kind's name, in bytes: whoever is at the other end chose it.
const maxKindShown = 80

// bulk bounds how many large messages are decoded at the same time: decoded, they take several times as many bytes,
// and Validate can refuse them only then.
var bulk = make(chan struct{}, maxBulky)

// frame delivers one frame, and returns for how long to read nothing more from the peer.
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

// take delivers one message of the batch, and returns the counter for what happened to it.
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

// wonder logs the first message of a kind that is not known here, or not from this side: a newer version says more than
// this one understands, and has to go on without an answer.
func (r *reader) wonder(kind []byte) {
	if !r.puzzled {
		r.puzzled = true
		r.line.o.Log.Info("Ignored a message of %s: this version does not accept a %s from there; the link "+
			"stays open",
			r.line.theirs, messages.AsText(string(kind[:min(len(kind), maxKindShown)])))
	}
}

// says reports whether a fact is about the machine that it comes from, and from this start of its agent.
func (c *caller) says(message spoken) bool {
	fact, ok := message.(interface{ GetOrigin() *messages.Origin })
	if !ok {
		return true
	}
	o := fact.GetOrigin()
	return o.GetNode() == string(c.node) && o.GetMachineId() == c.machine &&
		o.GetIncarnation().GetBootId() == c.boot && o.GetIncarnation().GetStartedNs() == c.startedNs
}

// deliver hands a message to the actor, if it is there.
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

// String is for logs.
func (c caller) String() string {
	return fmt.Sprintf("%s (machine %s, boot %s)", c.node, c.machine, c.boot)
}
