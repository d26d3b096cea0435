package host

import (
	"runtime"
	"sync"
)

// This file owns the goroutines that mailboxes run on: as many as there are
// processors, each taking one burst of messages after the other. An actor never
// blocks, so more would only be switched between. The library starts a goroutine
// for every burst instead; its stack then grows by copying each time, and each
// start is a switch: together a third of all that a gang cost.

// burst is how many messages an actor handles before others get their turn.
const burst = 300

// roomy is from where on an emptied queue is given back.
const roomy = 1 << 16

// workers have a queue of their own instead of a channel: it begins anew whenever
// it is empty, so that it stays in a processor's cache, and whoever posts wakes a
// worker only if one sleeps. A channel with room enough took a tenth more.
type workers struct {
	mu    sync.Mutex
	some  sync.Cond // the queue is not empty
	queue []func()  // of bursts, those before head are taken
	head  int
}

func newWorkers() *workers {
	w := newQueue()
	for range runtime.GOMAXPROCS(0) {
		go w.serve()
	}
	return w
}

// newQueue is workers without anybody who works.
func newQueue() *workers {
	w := &workers{}
	w.some.L = &w.mu
	return w
}

// Schedule has one burst of a mailbox run, never on the caller's goroutine. Whoever posts never waits.
func (w *workers) Schedule(run func()) {
	w.mu.Lock()
	if w.head > roomy && w.head > len(w.queue)/2 {
		n := copy(w.queue, w.queue[w.head:])
		clear(w.queue[n:])
		w.queue, w.head = w.queue[:n], 0
	}
	w.queue = append(w.queue, run)
	w.mu.Unlock()
	w.some.Signal()
}

// Throughput is the library's word for a burst.
func (w *workers) Throughput() int { return burst }

func (w *workers) serve() {
	for {
		w.take()()
	}
}

// take waits for the burst that has waited longest.
func (w *workers) take() func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.head == len(w.queue) {
		w.some.Wait()
	}
	run := w.queue[w.head]
	w.queue[w.head] = nil
	if w.head++; w.head == len(w.queue) {
		w.queue, w.head = w.queue[:0], 0
		if cap(w.queue) > roomy {
			w.queue = nil
		}
	}
	return run
}
