package sim

import "github.com/yi-json/synapse/topology"

// booksBalance is S2: on every node, free, reserved, committed, stopping and withdrawn resources add up to the total,
// and none is negative.
type booksBalance struct{ rule }

func newBooksBalance() *booksBalance {
	return &booksBalance{rule: rule{"S2 books-balance", on{Scanned}}}
}

func (c *booksBalance) Step(w *World, _ *Event) {
	for _, m := range w.machines {
		if m.proc == nil || m.proc.node == nil {
			continue
		}
		b := m.proc.node.Ledger().Books()
		if b.Free.Plus(b.Reserved).Plus(b.Committed).Plus(b.Stopping).Plus(b.Withdrawn) != b.Total {
			c.violate(w, "%s: %+v", m.address, b)
		}
		for _, r := range [...]topology.Resources{b.Free, b.Reserved, b.Committed, b.Stopping, b.Withdrawn} {
			if r.IsNegative() {
				c.violate(w, "%s has a negative amount in its ledger: %+v", m.address, b)
			}
		}
	}
}
