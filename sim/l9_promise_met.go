package sim

import "time"

// promiseMet is L9: a start guarantee with a bound is met within 60 s, the longest grace and 1 % of drift. The time
// counts from the bound or from the repair of all faults, whichever is later. The guarantee does not hold in three
// cases: one of its nodes was lost or closed, its job was held, or a takeover lost the time that a holder had spent.
type promiseMet struct{ rule }

func newPromiseMet() *promiseMet { return &promiseMet{rule{"L9 promise-met", on{Scanned}}} }

func (*promiseMet) clauses() []clause {
	due := func(w *World, page *jobPage) bool { return w.healed && isPromised(w, page) }
	return []clause{{about: due, away: awayFromPromise}}
}

func (c *promiseMet) Step(w *World, _ *Event) {
	if !w.ahead() || !w.healed {
		return
	}
	for _, id := range sortedKeys(w.books.given) {
		g := w.books.given[id]
		if g.bound == 0 || g.excuse != "" {
			continue
		}
		due := max(g.bound, w.healedAt).plus(time.Minute + g.bound.since(g.said)/100)
		if w.engine.now <= due || w.engine.now <= due.plus(w.longestGrace()) {
			continue
		}
		if g.lookAround(w); g.excuse == "" {
			c.violate(w, "job %s has a guaranteed start by %s, it is %s, and the job waits: %s",
				id, clockFace(g.bound), clockFace(g.said),
				w.whyWaits(w.books.jobs[id]))
		}
	}
}

// longestGrace returns the longest grace of all jobs.
func (w *World) longestGrace() (grace time.Duration) {
	for _, id := range w.books.ids {
		grace = max(grace, time.Duration(w.books.jobs[id].record.GetSpec().GetStop().GetGraceMs())*time.Millisecond)
	}
	return grace
}
