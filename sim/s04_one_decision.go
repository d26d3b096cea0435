package sim

import (
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// oneDecision is S4. There is at most one COMMIT per token, ENDED comes only after it, and neither is ever undone. No
// node gets Commit before COMMIT is on disk, and nothing is aborted after it. The decision falls while the reservations
// surely hold. If a store has lost a COMMIT, a leader in doubt may write the same one again, which still counts as one.
type oneDecision struct {
	rule
	reserved map[topology.Token]instant // when the first Reserve of an undecided attempt left
}

func newOneDecision() *oneDecision {
	return &oneDecision{rule: rule{"S4 one-decision", on{Sent, Stored}}, reserved: map[topology.Token]instant{}}
}

func (c *oneDecision) Step(w *World, e *Event) {
	if e.Kind == Stored {
		for i, a := range e.Stored.attempts {
			c.onAttempt(w, a, e.Stored.attemptsWere[i])
			c.onDecided(w, e.Stored, a)
		}
		return
	}
	switch m := e.Message.(type) {
	case *messages.Reserve:
		if t := messages.FromToken(m.Order.GetToken()); c.reserved[t] == 0 {
			c.reserved[t] = w.engine.now
		}
	case *messages.Commit:
		if _, committed := w.books.owner[messages.FromToken(m.Order.GetToken())]; !committed {
			c.violate(w, "Commit of %v was sent before COMMIT is on disk", m.Order)
		}
	case *messages.Abort:
		// An old report may still show a reservation of a finished, fully confirmed attempt.
		if a := w.books.attempts[messages.FromToken(m.Order.GetToken())]; a != nil && (a.End == nil || a.Owes()) {
			c.violate(w, "Abort of %v was sent although COMMIT is on disk", m.Order)
		}
		delete(c.reserved, messages.FromToken(m.Order.GetToken()))
	}
}

// onDecided checks the time from an attempt's first Reserve to its decision.
func (c *oneDecision) onDecided(w *World, s *stored, a *messages.AttemptRecord) {
	t := messages.FromToken(a.Token)
	since, open := c.reserved[t]
	delete(c.reserved, t)
	if window := w.constants.ReservationTTL - w.constants.DecisionMargin; open &&
		s.decided.since(since) > window+window/50 {
		c.violate(w, "%v of job %s was decided %s after its first Reserve", t, a.Job, s.decided.since(since))
	}
}

func (c *oneDecision) onAttempt(w *World, a, was *messages.AttemptRecord) {
	t := messages.FromToken(a.Token)
	if was == nil {
		owner, used := w.books.owner[t]
		if again := w.loss.tokens[t] && w.books.commits[t] == decisionOf(a); used && !again {
			c.violate(w, "%v was committed for job %s, and before for job %s", t, a.Job, owner)
		}
		if a.End != nil {
			c.violate(w, "%v of job %s was ended without COMMIT", t, a.Job)
		}
		return
	}
	if was.End != nil && (a.End == nil || a.End.Cause != was.End.Cause) {
		c.violate(w, "%v of job %s had ended by %v, and now by %v", t, a.Job, was.End, a.End)
	}
	if len(a.Places) != len(was.Places) {
		c.violate(w, "%v of job %s had %d places, and now has %d", t, a.Job, len(was.Places), len(a.Places))
		return
	}
	for i, p := range a.Places {
		before := was.Places[i]
		if p.Rank != before.Rank || p.Node != before.Node || p.MachineId != before.MachineId ||
			!proto.Equal(p.Grant, before.Grant) {
			c.violate(w, "%v of job %s had %v, and now has %v", t, a.Job, before, p)
		}
		if before.Exit != nil && p.Exit == nil {
			c.violate(w, "%v of job %s: the exit of rank %d is gone from the store", t, a.Job, p.Rank)
		}
	}
}
