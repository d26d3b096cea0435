package host

// This file owns the goroutines that mailboxes run on. The library starts a new
// one for every burst of messages; its stack then grows by copying each time, a
// sixth of all that a gang costs. Goroutines that have run one burst wait for
// the next instead, with the stack they have.

// waiting is how many idle goroutines are kept; more than run at once is waste.
const waiting = 64

// burst is how many messages an actor handles before others get their turn.
const burst = 300

type workers struct {
	work chan func()
	idle chan struct{} // holds one token for each goroutine that waits, or is about to
}

func newWorkers() *workers {
	return &workers{work: make(chan func()), idle: make(chan struct{}, waiting)}
}

// Schedule runs one burst of a mailbox, never on the caller's goroutine.
func (w *workers) Schedule(run func()) {
	select {
	case w.work <- run:
	default:
		go w.serve(run)
	}
}

// Throughput is the library's word for a burst.
func (w *workers) Throughput() int { return burst }

func (w *workers) serve(run func()) {
	for {
		run()
		select {
		case w.idle <- struct{}{}:
		default:
			return // enough are waiting
		}
		run = <-w.work
		<-w.idle
	}
}
