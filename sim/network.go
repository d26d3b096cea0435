package sim

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
)

// This file owns what happens to a message between two processes: it is
// marshalled, hashed, perhaps lost, doubled or late, and recreated at the other
// side, so that nothing is ever shared between machines.

// endpoint is an address and what answers to it now.
type endpoint struct {
	address   string
	proc      *process
	machine   *machine
	scheduler *schedulerHost
	// receive is set for the client, which is no actor.
	receive func(path string, from *process, message messages.Message)
}

// remote sends what leaves a process: it is the Proto.Actor process of every actor elsewhere.
type remote process

// SendUserMessage puts a message on its way.
func (x *remote) SendUserMessage(to *actor.PID, message any) {
	p := (*process)(x)
	if p.dead {
		return
	}
	said, is := unwrapped(message).(messages.Message)
	if !is {
		panic(fmt.Sprintf("%s: %T cannot cross to %s", p.address, unwrapped(message), to.Address))
	}
	sender := senderOf(message)
	if sender == nil && vouched(said) {
		panic(fmt.Sprintf("%s: %T leaves for %s without a sender: the link asks whose word it is", p.address, said, to.Id))
	}
	p.w.send(p, to, sender, said)
}

// vouched tells of orders and facts, which the link lets pass only from actors of certain paths.
func vouched(said messages.Message) bool {
	switch said.(type) {
	case interface{ GetOrder() *messages.Order }, interface{ GetOrigin() *messages.Origin }:
		return true
	}
	return false
}

// SendSystemMessage does nothing: Proto.Actor's own messages never cross.
func (x *remote) SendSystemMessage(*actor.PID, any) {}

// Stop does nothing: nobody stops an actor elsewhere.
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
	stream  uint32 // of the link, when it was sent
	size    int    // in bytes, as it waits in an outbox
}

// send takes a message off a process.
func (w *World) send(from *process, to *actor.PID, sender *actor.PID, message messages.Message) {
	dest := w.endpoints[to.Address]
	message = w.worded(from, dest, message)
	if !w.ranting { // what no actor said is no word of the Node that the checkers look at
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
		// The real link drops it, and whoever waits for it waits for ever.
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

// worded is a message as an agent of an earlier version says it, and finds what
// such an agent is told that it does not understand.
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

// shown is a letter as a script sees it.
func (l *letter) shown() Letter {
	from := clientAddress
	if l.from != nil {
		from = l.from.address
	}
	return Letter{From: from, To: l.to.address, Path: l.path, Message: copyOf(l.message), sender: l.sender}
}

// remade is the message as the other side reads it from the bytes in the buffer.
func (w *World) remade(message messages.Message) messages.Message {
	fresh := message.ProtoReflect().New().Interface().(messages.Message)
	if err := proto.Unmarshal(w.buffer, fresh); err != nil {
		panic(fmt.Sprintf("%T cannot be read again: %v", message, err))
	}
	return fresh
}

// judge finds what an actor says and a real link refuses: it would be dropped there
// and, where it is a fact, told again for ever. What clients say is for actors to refuse.
func (w *World) judge(from *process, message messages.Message) {
	if m, ok := message.(interface{ Validate() error }); ok {
		if err := m.Validate(); err != nil {
			w.violate("wire", "%s said %T: %v", from.address, message, err)
		}
	}
}

// copied is a second one of what is on its way.
func (l *letter) copied() *letter {
	twin := *l
	twin.message = copyOf(l.message)
	if l.sender != nil {
		twin.sender = actor.NewPID(l.sender.Address, l.sender.Id)
	}
	return &twin
}

// happen delivers the letter, if there is still somebody to deliver it to.
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
