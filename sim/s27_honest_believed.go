package sim

import "slices"

// honestBelieved is S27: a leader accepts the reports of every node with an honest ledger. Lost, late or doubled
// messages, restarts, and changes between two starts of its agent must not matter.
type honestBelieved struct{ rule }

func newHonestBelieved() *honestBelieved {
	return &honestBelieved{rule: rule{"S27 honest-believed", on{Scanned}}}
}

func (c *honestBelieved) Step(w *World, _ *Event) {
	// If a node has lied, it is that one or the rule cannot be judged.
	if w.counters["scheduler.untrue"] > 0 && !slices.ContainsFunc(w.machines, func(m *machine) bool { return m.lied }) {
		c.violate(w, "a node's report was rejected as false, but no node has lied")
	}
}
