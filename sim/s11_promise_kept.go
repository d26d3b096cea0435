package sim

// promiseKept is S11: an admission on a hard limit never delays a promise, and
// one on an estimate at most so often. No promises are made yet, so there is
// nothing that could be broken. What is checked is that nobody speaks of one:
// from the day that policy makes promises, a run with any of them needs the
// real check in this file.
type promiseKept struct{ notQuiet }

func newPromiseKept() *promiseKept { return &promiseKept{} }

func (*promiseKept) Name() string         { return "S11 promise-kept" }
func (*promiseKept) Watches() []EventKind { return []EventKind{Scanned} }

func (c *promiseKept) Step(w *World, _ *Event) {
	if n := w.counters["scheduler.promises"]; n > 0 {
		w.violate(c.Name(), "%d promises were made, and this file does not check them", n)
	}
}
