package link

import (
	"slices"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/yi-json/synapse/messages"
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

func (l *letter) size() int {
	return len(l.data) + len(l.to) + len(l.sender) + len(l.kind) + messages.LetterBytes
}

// outbox is the queue. send writes one frame and may block; only the writer
// calls it, and there is one writer at a time.
type outbox struct {
	ours, theirs string                   // the addresses, as they stand on the wire
	send         func(frame []byte) error // has no use for it afterwards
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
		b.count(countNoLink, 1)
		return
	case len(b.letters) >= queueMessages || b.bytes+l.size() > queueBytes:
		b.count(countFull, 1)
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
		b.count(countNoLink, int64(n))
	}
	b.letters, b.bytes = nil, 0
}

func (b *outbox) write() {
	defer b.writers.Done()
	var frame []byte
	for {
		batch := b.take()
		if batch == nil {
			return
		}
		frame = b.frame(frame, batch)
		if err := b.send(frame); err != nil {
			b.failed(err)
			b.count(countNoLink, int64(len(batch)))
			continue // the box has ended, or is about to
		}
		b.count(countSent, int64(len(batch)))
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

// frame puts a batch into Proto.Actor's form: names are said once, and meant by
// index. It is written as bytes into the room of the last one, for what was said
// is bytes already.
func (b *outbox) frame(room []byte, batch []letter) []byte {
	var kinds, targets, senders names
	need := frameHead
	for i := range batch {
		need += batch[i].size() + len(b.ours) + len(b.theirs)
	}
	frame := append(slices.Grow(room[:0], need), make([]byte, frameHead)...)
	for i := range batch {
		l := &batch[i]
		kind, target, sender := kinds.index(l.kind), targets.index(l.to), 0
		if l.sender != "" {
			sender = senders.index(l.sender) + 1 // 0 is no sender
		}
		size := sizeIndex(kind) + sizeIndex(target) + sizeIndex(sender) + 1 + protowire.SizeBytes(len(l.data))
		frame = appendHead(frame, batchEnvelopes, size)
		frame = appendIndex(frame, envelopeType, kind)
		frame = append(appendHead(frame, envelopeData, len(l.data)), l.data...)
		frame = appendIndex(frame, envelopeTarget, target)
		frame = appendIndex(frame, envelopeSender, sender)
	}
	for _, kind := range kinds.list {
		frame = append(appendHead(frame, batchTypeNames, len(kind)), kind...)
	}
	frame = appendPIDs(frame, batchTargets, b.theirs, targets.list)
	frame = appendPIDs(frame, batchSenders, b.ours, senders.list)
	// How long the batch is stands before it, and is known only now.
	var head [frameHead]byte
	written := appendHead(head[:0], frameBatch, len(frame)-frameHead)
	return append(frame[:frameHead-len(written)], written...)[frameHead-len(written) : len(frame)]
}

// frameHead is room for a tag and a length.
const frameHead = 1 + 5

func appendHead(b []byte, number protowire.Number, size int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.BytesType), uint64(size))
}

// appendIndex leaves zeros out, as protobuf does.
func appendIndex(b []byte, number protowire.Number, i int) []byte {
	if i == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), uint64(i))
}

func sizeIndex(i int) int {
	if i == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(uint64(i))
}

func appendPIDs(b []byte, number protowire.Number, address string, paths []string) []byte {
	for _, path := range paths {
		b = appendHead(b, number, 2+protowire.SizeBytes(len(address))+protowire.SizeBytes(len(path)))
		b = append(appendHead(b, pidAddress, len(address)), address...)
		b = append(appendHead(b, pidPath, len(path)), path...)
	}
	return b
}

// names numbers what it is asked for. Most batches hold a name or two.
type names struct {
	list  []string
	known map[string]int
}

func (n *names) index(name string) int {
	if len(n.list) > 0 && n.list[len(n.list)-1] == name {
		return len(n.list) - 1
	}
	if i, is := n.known[name]; is {
		return i
	}
	if len(n.list) == 1 && n.known == nil {
		n.known = map[string]int{n.list[0]: 0}
	}
	i := len(n.list)
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
	l.data = messages.Bytes(message)
	return l, true
}
