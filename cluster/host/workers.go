package host

import "runtime"

// This file owns the goroutines that mailboxes run on: as many as there are
// processors, each taking one burst of messages after the other. An actor never
// blocks, so more would only be switched between. The library starts a goroutine
// for every burst instead; its stack then grows by copying each time, and each
// start is a switch: together a third of all that a gang cost.

// waiting is how many bursts wait for their turn; beyond it each gets a
// goroutine of its own, so that whoever posts never waits.
const waiting = 1 << 16

// burst is how many messages an actor handles before others get their turn.
const burst = 300

type workers struct{ work chan func() }

func newWorkers() *workers {
	w := &workers{work: make(chan func(), waiting)}
	for range runtime.GOMAXPROCS(0) {
		go w.serve()
	}
	return w
}

// Schedule runs one burst of a mailbox, never on the caller's goroutine.
func (w *workers) Schedule(run func()) {
	select {
	case w.work <- run:
	default:
		go run()
	}
}

// Throughput is the library's word for a burst.
func (w *workers) Throughput() int { return burst }

func (w *workers) serve() {
	for run := range w.work {
		run()
	}
}
