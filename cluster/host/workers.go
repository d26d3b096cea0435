package host

import (
	"runtime"
	"sync"
)

// This file owns the goroutines that run the mailboxes: as many as there are processors, each taking one burst of
// messages after the other. An actor never blocks, so more of them would only cost switches. The library starts a
// goroutine for every burst instead; its stack then grows by copying each time, and each start is a switch: together a
// third of all that a gang cost.

// burst is how many messages an actor handles before others get their turn.
const burst = 300

// roomy is the capacity above which an emptied queue is given back.
const roomy = 1 << 16

// workers have a queue of their own instead of a channel: it starts again at its beginning whenever it is empty, so
// that it stays in a processor's cache, and a post wakes a worker only if one sleeps. A channel with room enough took a
// tenth more.
type workers struct {
	mu    sync.Mutex
	some  sync.Cond // the queue is not empty
	queue []func()  // the bursts; those before head are taken
	head  int
}

func newWorkers() *workers {
	w := newQueue()
	for range runtime.GOMAXPROCS(0) {
		go w.serve()
	}
	return w
}

// newQueue makes workers without any goroutine that serves them.
func newQueue() *workers {
	w := &workers{}
	w.some.L = &w.mu
	return w
}

// Schedule queues one burst of a mailbox. It never runs it on the caller's goroutine, and the caller never waits.
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

// take waits for a burst, and takes the one that has waited longest.
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
