package sim

import "slices"

// honestBelieved is S27: a leader disbelieves no machine that keeps honest books,
// whatever is lost, late, doubled, restarted or changed between two starts of its
// agent.
type honestBelieved struct{ rule }

func newHonestBelieved() *honestBelieved {
	return &honestBelieved{rule: rule{"S27 honest-believed", on{Scanned}}}
}

func (c *honestBelieved) Step(w *World, _ *Event) {
	// One that has lied is the one, or nobody can tell.
	if w.counters["scheduler.untrue"] > 0 && !slices.ContainsFunc(w.machines, func(m *machine) bool { return m.lied }) {
		c.violate(w, "a machine was disbelieved, and none has lied")
	}
}
