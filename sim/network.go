package sim

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
)

// This file simulates the path of a message between two processes. The message is marshalled, hashed, perhaps lost,
// doubled or late, and recreated at the other side. So no memory is shared between nodes.

// endpoint is an address and its present receiver.
type endpoint struct {
	address   string
	proc      *process
	machine   *machine
	scheduler *schedulerHost
	// receive is set for the client, which is no actor.
	receive func(path string, from *process, message messages.Message)
}

// remote is the Proto.Actor process of every actor elsewhere. It sends the messages that leave a process.
type remote process

// SendUserMessage sends a message.
func (x *remote) SendUserMessage(to *actor.PID, message any) {
	p := (*process)(x)
	if p.dead {
		return
	}
	said, is := unwrapped(message).(messages.Message)
	if !is {
		panic(fmt.Sprintf("%s: message %T to %s cannot be sent between processes", p.address, unwrapped(message), to.Address))
	}
	sender := senderOf(message)
	if sender == nil && vouched(said) {
		panic(fmt.Sprintf("%s: message %T to %s has no sender, which the link requires", p.address, said, to.Id))
	}
	p.w.send(p, to, sender, said)
}

// vouched reports whether a message is an order or a fact. The link passes these only from actors of certain paths.
func vouched(said messages.Message) bool {
	switch said.(type) {
	case interface{ GetOrder() *messages.Order }, interface{ GetOrigin() *messages.Origin }:
		return true
	}
	return false
}

// SendSystemMessage does nothing, because Proto.Actor's own messages never cross processes.
func (x *remote) SendSystemMessage(*actor.PID, any) {}

// Stop does nothing, because no actor elsewhere is stopped.
func (x *remote) Stop(*actor.PID) {}

// letter is one message on its way.
type letter struct {
	w       *World
	from    *process
	to      *endpoint
	path    string
	sender  *actor.PID
	message messages.Message
	link    *link // nil between a client and a scheduler
	toward  side
	stream  uint32 // stream of the link when the letter was sent
	size    int    // size in an outbox, in bytes
}

// send takes a message from a process.
func (w *World) send(from *process, to *actor.PID, sender *actor.PID, message messages.Message) {
	dest := w.endpoints[to.Address]
	message = w.worded(from, dest, message)
	if !w.ranting { // the checkers ignore messages that no actor sent
		w.seen(Event{Kind: Sent, Process: from, Message: message, To: dest, Path: to.Id})
	}
	if dest == nil {
		w.count("net.nowhere", 1)
		return
	}
	w.buffer = messages.Append(w.buffer[:0], message)
	w.engine.trace.bytes(w.buffer)
	l := &letter{w: w, from: from, to: dest, path: to.Id, message: w.remade(message)}
	l.size = sizeOf(len(w.buffer), message, to, sender)
	if !from.understands(l.message) {
		return
	}
	switch {
	case from == nil:
	case from.machine != nil && (from.machine.lies != nil || from.machine.rages):
		if l.message = from.machine.tellLies(l.message); l.message == nil {
			return
		}
	default:
		w.judge(from, l.message)
	}
	if sender != nil {
		l.sender = actor.NewPID(sender.Address, sender.Id)
	}
	w.sent++
	if len(w.snares) > 0 {
		w.snap(message)
	}
	if w.onLetter != nil {
		w.onLetter(l.shown())
	}
	if w.lose != nil && w.lose(l.shown()) {
		w.count("net.lost", 1)
		return
	}
	if n := len(w.buffer); n > messages.MaxMessageBytes && from != nil && dest.receive == nil {
		// The real link drops it, and its receiver waits for ever.
		w.violate("S15 bounded", "%s said %T of %d bytes, more than %d", from.address, message, n,
			messages.MaxMessageBytes)
		return
	}
	switch {
	case dest.receive != nil || from == nil:
		w.engine.at(w.engine.now.plus(w.net.between(50*time.Microsecond, 300*time.Microsecond)), l)
	case from.machine != nil && dest.scheduler != nil:
		l.link, l.toward = from.machine.links[dest.scheduler.index], towardScheduler
		l.link.carry(from, l)
	case from.host != nil && dest.machine != nil:
		l.link, l.toward = dest.machine.links[from.host.index], towardMachine
		l.link.carry(from, l)
	default:
		w.count("net.unlinked", 1)
	}
}

// sizeOf returns the size of a letter in an outbox.
func sizeOf(data int, message messages.Message, to, sender *actor.PID) int {
	n := data + len(message.ProtoReflect().Descriptor().FullName()) + len(to.Id) + messages.LetterBytes
	if sender != nil {
		n += len(sender.Id)
	}
	return n
}

// worded returns a message in the form that an agent of an earlier version sends. It also reports a message to such an
// agent that the agent does not understand.
func (w *World) worded(from *process, to *endpoint, message messages.Message) messages.Message {
	if start, ok := message.(*messages.Start); ok && start.Roster != nil && to != nil && to.machine != nil &&
		to.machine.earlier {
		w.violate("wire", "%s is of an earlier version, and was sent a roster", to.address)
	}
	if commit, ok := message.(*messages.Commit); ok && commit.Spec.GetScript() != nil && to != nil &&
		to.machine != nil &&
		to.machine.lacksScripts(commit.Order.GetIncarnation()) {
		w.violate("wire", "%s is of an earlier version, and was sent a job with a script", to.address)
	}
	if hello, ok := message.(*messages.Hello); ok && from != nil && from.machine != nil && from.machine.unversed {
		said := copyOf(hello)
		said.Vocabulary = messages.VocabularyNetwork - 1
		if from.machine.earlier {
			said.Vocabulary = 0
		}
		said.Announcement.Vocabulary, said.Users = said.Vocabulary, nil
		return said
	}
	return message
}

// shown returns a letter as a script sees it.
func (l *letter) shown() Letter {
	from := clientAddress
	if l.from != nil {
		from = l.from.address
	}
	return Letter{From: from, To: l.to.address, Path: l.path, Message: copyOf(l.message), sender: l.sender}
}

// remade returns the message as the other side decodes it from the buffer.
func (w *World) remade(message messages.Message) messages.Message {
	fresh := message.ProtoReflect().New().Interface().(messages.Message)
	if err := proto.Unmarshal(w.buffer, fresh); err != nil {
		panic(fmt.Sprintf("message %T cannot be decoded again: %v", message, err))
	}
	return fresh
}

// judge reports an actor's message that a real link would drop. If the message is a fact, the sender would repeat it
// for ever. Invalid messages of clients are for actors to reject.
func (w *World) judge(from *process, message messages.Message) {
	if m, ok := message.(interface{ Validate() error }); ok {
		if err := m.Validate(); err != nil {
			w.violate("wire", "%s said %T: %v", from.address, message, err)
		}
	}
}

// copied returns a copy of a letter on its way.
func (l *letter) copied() *letter {
	twin := *l
	twin.message = copyOf(l.message)
	if l.sender != nil {
		twin.sender = actor.NewPID(l.sender.Address, l.sender.Id)
	}
	return &twin
}

// happen delivers the letter, if its receiver still exists.
func (l *letter) happen() {
	w := l.w
	if l.to.receive != nil {
		l.to.receive(l.path, l.from, l.message)
		return
	}
	proc := l.to.proc
	if l.link != nil && !l.link.arrives(l) {
		return
	}
	if l.link != nil && l.toward == towardMachine && l.link.up() {
		proc = l.link.agent
	}
	if proc == nil || proc.dead {
		w.count("net.nobody", 1)
		return
	}
	if !proc.understands(l.message) {
		return
	}
	box, found := proc.system.ProcessRegistry.GetLocal(l.path)
	if !found {
		w.count("net.dead_letters", 1)
		return
	}
	w.delivered++
	if l.link != nil && l.toward == towardScheduler {
		proc.host.heard(l, proc)
	}
	if l.sender == nil {
		box.SendUserMessage(nil, l.message)
		return
	}
	box.SendUserMessage(nil, &actor.MessageEnvelope{Message: l.message, Sender: l.sender})
}
