package sim

import "github.com/yi-json/synapse/store"

// idempotent is S9: a message that is delivered again does not change the durable state. One of 64 messages to Nodes is
// delivered twice at once, and the ledgers are compared (observer.go). At the leader a repeated fact may lead to a
// repeated write. The store recognises a repeated write, and rejects a write that breaks a rule. So a rejection for a
// broken rule is a violation here.
type idempotent struct {
	rule
	broken map[store.Rule]int
}

func newIdempotent() *idempotent { return &idempotent{rule: rule{"S9 idempotent", on{Refused}}} }

func (c *idempotent) Step(w *World, e *Event) {
	broken := w.store.kept.Broken()
	for rule, n := range broken { //order: one violation says enough
		if n > c.broken[rule] && rule.Bug() {
			c.violate(w, "the store rejected a write that breaks the rule %q: %s", rule, e.Refused)
			return
		}
	}
	c.broken = broken
}
