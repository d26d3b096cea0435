package link

import (
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/protobuf/proto"
)

// This file owns the way out to one peer: a bounded queue, and a writer that
// lives only while there is something to write.

// letter is one message that waits to be written. It is marshalled by whoever
// says it, as in simulation: an actor may change afterwards what it has said.
type letter struct {
	kind   string // the type's name on the wire
	to     string // the path of the actor
	sender string // likewise; empty: none
	data   []byte
}

func (l *letter) size() int { return len(l.data) + len(l.to) + len(l.sender) + len(l.kind) + 32 }

// outbox is the queue. send writes one frame and may block; only the writer
// calls it, and there is one writer at a time.
type outbox struct {
	ours, theirs string // the addresses, as they stand on the wire
	send         func(*remote.RemoteMessage) error
	failed       func(error)
	count        func(string, int64)

	mu      sync.Mutex
	letters []letter
	bytes   int
	open    bool // before, letters wait; after the end they are refused
	writing bool
	ended   bool
	writers sync.WaitGroup
}

// put takes a letter, or drops it: a peer that does not keep up costs no more
// memory than the queue.
func (b *outbox) put(l letter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.ended:
		b.count(CountNoLink, 1)
		return
	case len(b.letters) >= queueMessages || b.bytes+l.size() > queueBytes:
		b.count(CountFull, 1)
		return
	}
	b.letters = append(b.letters, l)
	b.bytes += l.size()
	b.wake()
}

// begin lets the letters go, those among them that came before.
func (b *outbox) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = true
	b.wake()
}

func (b *outbox) wake() {
	if b.open && !b.ended && !b.writing && len(b.letters) > 0 {
		b.writing = true
		b.writers.Add(1)
		go b.write()
	}
}

// end drops what has not left.
func (b *outbox) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	b.drop()
}

func (b *outbox) drop() {
	if n := len(b.letters); n > 0 {
		b.count(CountNoLink, int64(n))
	}
	b.letters, b.bytes = nil, 0
}

func (b *outbox) write() {
	defer b.writers.Done()
	for {
		batch := b.take()
		if batch == nil {
			return
		}
		if err := b.send(b.frame(batch)); err != nil {
			b.failed(err)
			b.count(CountNoLink, int64(len(batch)))
			continue // the box has ended by now: take answers nothing
		}
		b.count(CountSent, int64(len(batch)))
	}
}

// take is the next batch. With none the writer ends.
func (b *outbox) take() []letter {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, bytes := 0, 0
	for n < len(b.letters) && n < batchMessages {
		next := b.letters[n].size()
		if n > 0 && bytes+next > batchBytes {
			break
		}
		bytes += next
		n++
	}
	if n == 0 {
		b.writing, b.letters = false, nil
		return nil
	}
	batch := b.letters[:n:n]
	b.letters = b.letters[n:]
	b.bytes -= bytes
	return batch
}

// frame puts a batch into Proto.Actor's form: names are said once, and meant by index.
func (b *outbox) frame(batch []letter) *remote.RemoteMessage {
	var kinds, targets, senders names
	envelopes := make([]*remote.MessageEnvelope, len(batch))
	for i := range batch {
		l := &batch[i]
		e := &remote.MessageEnvelope{TypeId: kinds.index(l.kind), MessageData: l.data, Target: targets.index(l.to)}
		if l.sender != "" {
			e.Sender = senders.index(l.sender) + 1 // 0 is no sender
		}
		envelopes[i] = e
	}
	return &remote.RemoteMessage{MessageType: &remote.RemoteMessage_MessageBatch{MessageBatch: &remote.MessageBatch{
		TypeNames: kinds.list, Targets: pids(b.theirs, targets.list), Senders: pids(b.ours, senders.list), Envelopes: envelopes,
	}}}
}

func pids(address string, paths []string) []*actor.PID {
	list := make([]*actor.PID, len(paths))
	for i, path := range paths {
		list[i] = actor.NewPID(address, path)
	}
	return list
}

// names numbers what it is asked for. Most batches hold a name or two.
type names struct {
	list  []string
	known map[string]int32
}

func (n *names) index(name string) int32 {
	if len(n.list) > 0 && n.list[len(n.list)-1] == name {
		return int32(len(n.list) - 1)
	}
	if i, is := n.known[name]; is {
		return i
	}
	if len(n.list) == 1 && n.known == nil {
		n.known = map[string]int32{n.list[0]: 0}
	}
	i := int32(len(n.list))
	n.list = append(n.list, name)
	if n.known != nil {
		n.known[name] = i
	}
	return i
}

// written makes a letter of a message, or nothing where it may not be said.
func written(may table, ours string, to *actor.PID, said any) (letter, bool) {
	_, body, sender := actor.UnwrapEnvelope(said)
	message, is := body.(spoken)
	if !is {
		return letter{}, false
	}
	l := letter{kind: typeName(message), to: to.Id}
	row := may[l.kind]
	if row == nil || !covers(row.to, to.Id) {
		return letter{}, false
	}
	if row.from != "" {
		if sender == nil || sender.Address != ours || !covers(row.from, sender.Id) {
			return letter{}, false
		}
		l.sender = sender.Id
	}
	var err error
	l.data, err = proto.Marshal(message)
	return l, err == nil && len(l.data) <= messageBytes
}
