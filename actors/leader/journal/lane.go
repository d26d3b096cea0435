package journal

import (
	"cmp"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file owns the lanes of waiting writes, and which writes share a transaction.

// lane is a queue of writes, first in, first out.
type lane struct {
	waiting []pending // entries before head have been taken
	head    int
	bytes   int // of the waiting writes
}

func (l *lane) len() int { return len(l.waiting) - l.head }

func (l *lane) first() *pending { return &l.waiting[l.head] }

func (l *lane) push(w pending) {
	// The taken entries are dropped when they are the larger half, so a lane that is never empty does not grow.
	if l.head > 64 && l.head > len(l.waiting)/2 {
		n := copy(l.waiting, l.waiting[l.head:])
		clear(l.waiting[n:])
		l.waiting, l.head = l.waiting[:n], 0
	}
	l.waiting = append(l.waiting, w)
	l.bytes += w.bytes
}

func (l *lane) pop() pending {
	w := l.waiting[l.head]
	l.waiting[l.head] = pending{}
	l.head++
	l.bytes -= w.bytes
	if l.head == len(l.waiting) {
		l.waiting, l.head = l.waiting[:0], 0
	}
	return w
}

// fill takes the writes of the next transaction: decisions, then submits, up to the limits of a transaction. The first
// one always fits, because it would otherwise wait forever.
func (j *Journal) fill() {
	batch := batch{
		changes: j.p.Constants.JournalBatch,
		bytes:   j.p.Constants.JournalBatchBytes,
		jobs:    make(map[string]bool),
		nodes:   make(map[string]bool),
	}
	for _, l := range []*lane{&j.decisions, &j.submits} {
		for l.len() > 0 && batch.takes(l.first()) {
			j.flight = append(j.flight, l.pop())
		}
	}
}

// batch counts the remaining capacity of a transaction, and names the records in it.
type batch struct {
	changes, bytes int
	jobs, nodes    map[string]bool
}

// takes reports whether the transaction can include one more write, and counts it. A second write to the same record
// waits for the next transaction. If both were written and the answer was lost, the repeated first write would meet the
// second one's revision. It would get Conflict although it is on disk.
func (b *batch) takes(w *pending) bool {
	job, node := cmp.Or(w.change.Job.GetId(), string(w.change.Drop)), w.change.Node.GetId()
	first := len(b.jobs)+len(b.nodes) == 0
	if b.changes == 0 || (!first && w.bytes > b.bytes) || (job != "" && b.jobs[job]) || (node != "" && b.nodes[node]) {
		return false
	}
	b.changes--
	b.bytes -= w.bytes
	if job != "" {
		b.jobs[job] = true
	}
	if node != "" {
		b.nodes[node] = true
	}
	return true
}

// bytesOf estimates the size of a change on disk.
func bytesOf(c actors.Change) int {
	const token = 16
	n := messages.Size(c.Job) + messages.Size(c.Node) + messages.Size(c.Policy) + messages.Size(c.Queues) +
		token*len(c.Learned)
	for _, a := range c.Attempts {
		n += messages.Size(a)
	}
	return n
}
