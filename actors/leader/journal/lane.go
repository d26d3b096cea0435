package journal

import (
	"cmp"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file owns how writes wait for the disk, and which of them share a
// transaction.

// lane is a queue of writes, first in, first out.
type lane struct {
	waiting []pending // those before head are gone
	head    int
	bytes   int // of those that wait
}

func (l *lane) len() int { return len(l.waiting) - l.head }

func (l *lane) first() *pending { return &l.waiting[l.head] }

func (l *lane) push(w pending) {
	// The gone are dropped once they are the larger half, so that a lane that is
	// never quite empty stays as small as what waits in it.
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

// fill takes what the next transaction writes: decisions, then submits, up to
// the limits of a transaction. The first always fits, or it would wait for ever.
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

// batch counts what a transaction still has room for, and names whose records it has.
type batch struct {
	changes, bytes int
	jobs, nodes    map[string]bool
}

// takes reports whether the transaction has room for one more write, and counts
// it. A second write to the same record waits for the next transaction: if
// both had landed and the answer was lost, the first, written again, would meet
// the second one's revision and be told Conflict though it is on disk.
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

// bytesOf is about how much a change is on disk.
func bytesOf(c actors.Change) int {
	const token = 16
	n := messages.Size(c.Job) + messages.Size(c.Node) + messages.Size(c.Policy) + messages.Size(c.Queues) +
		token*len(c.Learned)
	for _, a := range c.Attempts {
		n += messages.Size(a)
	}
	return n
}
