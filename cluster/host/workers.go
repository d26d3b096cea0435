package host

import (
	"runtime"
	"sync"
)

// This file owns the goroutines that run the mailboxes: one per CPU, each running one burst of messages after another.
// An actor never blocks, so more goroutines would only add switches. Proto.Actor starts a goroutine for every burst
// instead. Each start is a switch, and its stack grows by copying. Together these took a third of the cost of a gang.

// burst limits the messages that an actor handles before other actors continue.
const burst = 300

// roomy is the capacity above which an emptied queue is released.
const roomy = 1 << 16

// workers use a queue instead of a channel. The queue starts at its beginning again whenever it is empty, so it stays
// in a CPU's cache. A post wakes a worker only if one sleeps. A channel of sufficient capacity was a tenth slower.
type workers struct {
	mu    sync.Mutex
	some  sync.Cond // the queue is not empty
	queue []func()  // the bursts; those before head have been taken
	head  int
}

func newWorkers() *workers {
	w := newQueue()
	for range runtime.GOMAXPROCS(0) {
		go w.serve()
	}
	return w
}

// newQueue returns workers without goroutines.
func newQueue() *workers {
	w := &workers{}
	w.some.L = &w.mu
	return w
}

// Schedule queues one burst of a mailbox. It never runs the burst on the caller's goroutine, and the caller never
// waits.
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

// Throughput returns the length of a burst.
func (w *workers) Throughput() int { return burst }

func (w *workers) serve() {
	for {
		w.take()()
	}
}

// take waits for a burst and takes the oldest one.
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
