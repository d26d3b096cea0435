package link

import (
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/cluster/link/envelope"
	"github.com/yi-json/synapse/messages"
)

// This file owns the outgoing messages to one peer: a bounded queue, and a writer goroutine that exists only while
// there is something to write.

// size returns the size of a letter while it waits.
func size(l *envelope.Letter) int {
	return len(l.Data) + len(l.To) + len(l.Sender) + len(l.Kind) + messages.LetterBytes
}

// outbox is the queue. The function send writes one batch and may block. Only the writer calls it, and there is one
// writer at a time.
type outbox struct {
	send   func(batch []envelope.Letter) error
	failed func(error)
	count  func(string, int64)

	mu      sync.Mutex
	letters []envelope.Letter
	bytes   int
	open    bool // letters are written; until then they wait
	writing bool
	ended   bool // letters are refused
	writers sync.WaitGroup
}

// put queues a letter, or drops it: a slow peer costs no more memory than the queue.
func (b *outbox) put(l envelope.Letter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.ended:
		b.count(countNoLink, 1)
		return
	case len(b.letters) >= maxQueuedMessages || b.bytes+size(&l) > maxQueuedBytes:
		b.count(countFull, 1)
		return
	}
	b.letters = append(b.letters, l)
	b.bytes += size(&l)
	b.wake()
}

// begin starts the writing, including the letters that came before.
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

// end drops the unsent letters, and refuses later ones.
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
	for {
		batch := b.take()
		if batch == nil {
			return
		}
		if err := b.send(batch); err != nil {
			b.failed(err)
			b.count(countNoLink, int64(len(batch)))
			continue // the outbox has ended, or is about to
		}
		b.count(countSent, int64(len(batch)))
	}
}

// take returns the next batch from the queue. If there is none, the writer ends.
func (b *outbox) take() []envelope.Letter {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, bytes := 0, 0
	for n < len(b.letters) && n < maxBatchMessages {
		next := size(&b.letters[n])
		if n > 0 && bytes+next > maxBatchBytes {
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

// written makes a letter of a message, if the table permits it. The sender's goroutine marshals it, as in simulation,
// because an actor may change a message after sending it.
func written(may table, ours string, to *actor.PID, sent any) (envelope.Letter, bool) {
	_, body, sender := actor.UnwrapEnvelope(sent)
	message, ok := body.(spoken)
	if !ok {
		return envelope.Letter{}, false
	}
	l := envelope.Letter{Kind: typeName(message), To: to.Id}
	row := may[l.Kind]
	if row == nil || !covers(row.to, to.Id) {
		return envelope.Letter{}, false
	}
	if row.from != "" {
		if sender == nil || sender.Address != ours || !covers(row.from, sender.Id) {
			return envelope.Letter{}, false
		}
		l.Sender = sender.Id
	}
	l.Data = messages.Bytes(message)
	return l, true
}
