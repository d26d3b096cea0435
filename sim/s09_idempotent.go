package sim

import "github.com/yi-json/synapse/store"

// idempotent is S9: delivering any message again leaves the durable state as it
// was. One of 64 messages to Nodes is delivered twice at once and the books are
// compared (observer.go). At the leader a repeated fact may lead to a repeated
// write; the store recognises it, and refuses what breaks a rule. A refusal for
// a broken rule is therefore a violation here.
type idempotent struct {
	rule
	broken map[store.Rule]int
}

func newIdempotent() *idempotent { return &idempotent{rule: rule{"S9 idempotent", on{Refused}}} }

func (c *idempotent) Step(w *World, e *Event) {
	broken := w.store.kept.Broken()
	for rule, n := range broken { //order: one violation says enough
		if n > c.broken[rule] && rule.Bug() {
			c.violate(w, "the store refused a write by the rule %q: %s", rule, e.Refused)
			return
		}
	}
	c.broken = broken
}
