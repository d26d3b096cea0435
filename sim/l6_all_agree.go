package sim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// allAgree is L6: store, ledgers and processes agree within three heartbeats. A difference may exist for a while, but
// the same difference may not stay.
type allAgree struct {
	rule
	since map[string]instant // since when each present difference has existed
	seen  map[string]bool
}

func newAllAgree() *allAgree {
	return &allAgree{rule: rule{"L6 all-agree", on{Scanned}}, since: map[string]instant{}, seen: map[string]bool{}}
}

func (c *allAgree) Step(w *World, _ *Event) {
	if !w.healed || w.engine.now.since(w.healedAt) < reconnect {
		return
	}
	clear(c.seen)
	for _, m := range w.machines {
		if m.core() && m.proc.node != nil && m.proc.node.Member() {
			c.machine(w, m)
		}
	}
	for _, id := range w.books.ids {
		for _, a := range w.books.attemptsOf(w.books.jobs[id]) {
			c.attempt(w, messages.FromToken(a.Token), a)
		}
	}
	maps.DeleteFunc(c.since, func(text string, _ instant) bool { return !c.seen[text] })
}

// differs notes a difference, and reports one that has stayed too long.
func (c *allAgree) differs(w *World, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	c.seen[text] = true
	if since, known := c.since[text]; !known {
		c.since[text] = w.engine.now
	} else if w.engine.now.since(since) > 3*w.constants.Heartbeat+w.constants.StopGrace {
		c.violate(w, "since %s: %s", clockFace(since), text)
	}
}

func (c *allAgree) machine(w *World, m *machine) {
	for _, t := range m.launcher.order {
		a := w.books.attempts[t.key.Token]
		switch {
		case t.state != taskRunning:
		case m.proc.node.Ledger().Allocation(t.key.Token) == nil:
			c.differs(w, "%s runs %v of job %s, but its ledger does not include it", m.address, t.key, t.job)
		case a == nil || a.End != nil:
			c.differs(w, "%s runs %v of job %s, which has ended in the store", m.address, t.key, t.job)
		}
	}
	for _, s := range m.proc.node.Ledger().Allocations() {
		a := w.books.attempts[s.Token]
		if a == nil || !c.waits(a, m) && !c.keeps(w, s, m) {
			c.differs(w, "%s has %v of job %s (%v), but the store waits for no exit of it", m.address, s.Token, s.Job, s.State)
		}
	}
}

// attempt looks for exit confirmations that the store needs and that cannot arrive, because the node has no trace of
// the attempt or is gone.
func (c *allAgree) attempt(w *World, t topology.Token, a *messages.AttemptRecord) {
	for _, p := range a.Places {
		m := w.machine(p.Node)
		switch {
		case p.Exit != nil || m == nil:
		case w.books.nodes[p.Node].GetRemoved() != nil:
			c.differs(w, "the store waits for the exit of rank %d of %v of job %s on node %s, which was removed", p.Rank, t,
				a.Job, m.address)
		case !m.core() || m.machineID != p.MachineId || m.proc.node == nil || !m.proc.node.Member():
		case m.proc.node.Ledger().Allocation(t) == nil:
			c.differs(w, "the store waits for the exit of rank %d of %v of job %s, but %s has no trace of it", p.Rank, t,
				a.Job, m.address)
		}
	}
}

// waits reports whether the store lacks an exit confirmation from this node.
func (c *allAgree) waits(a *messages.AttemptRecord, m *machine) bool {
	return slices.ContainsFunc(a.Places, func(p *messages.Place) bool { return p.Node == string(m.id) && p.Exit == nil })
}

// keeps reports whether a node keeps the resources of an open attempt for a restart in place. S44 checks when that
// ends.
func (c *allAgree) keeps(w *World, s *topology.Allocation, m *machine) (keeps bool) {
	page := w.books.jobs[string(s.Job)]
	if page == nil || page.record.State != messages.JobState_JOB_STATE_ACTIVE ||
		messages.FromToken(page.record.Attempt) != s.Token {
		return false
	}
	m.proc.node.EachKept(func(t topology.Token, _ actors.Instant) { keeps = keeps || t == s.Token })
	return keeps
}
