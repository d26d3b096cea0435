package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// wholeGang is S12: a preempted gang is stopped as a whole. Its preemption must be in a start guarantee that was on
// disk before. The preempting job commits only after the last process of each victim has ended, if it can be reached.
type wholeGang struct {
	rule
	named map[topology.Token]map[string]bool // by guarantees: the jobs whose guarantees name a victim
	ended map[topology.Token]bool            // victims ended by these guarantees
	by    map[topology.Token]uint64          // epoch of the leader that first chose each victim
}

func newWholeGang() *wholeGang {
	return &wholeGang{rule: rule{"S12 whole-gang", on{Stored, Drafted}},
		named: map[topology.Token]map[string]bool{}, ended: map[topology.Token]bool{}, by: map[topology.Token]uint64{}}
}

// restored drops everything that the store has lost.
func (c *wholeGang) restored(w *World) {
	clear(c.named)
	for _, id := range w.books.ids {
		for _, v := range w.books.jobs[id].record.GetPromise().GetVictims() {
			c.names(v, id)
		}
	}
	maps.DeleteFunc(c.ended, func(t topology.Token, _ bool) bool {
		return w.books.attempts[t].GetEnd().GetPreemption() == nil
	})
}

func (c *wholeGang) Step(w *World, e *Event) {
	if e.Kind == Drafted {
		for _, a := range e.Draft.Attempts {
			c.onEnd(w, a)
		}
		return
	}
	s := e.Stored
	if s.job == nil {
		return
	}
	for _, v := range s.job.Promise.GetVictims() {
		if c.names(v, s.job.Id) {
			c.by[messages.FromToken(v.Token)] = s.epoch
			w.count("preemptions.chosen", 1)
		}
	}
	for _, a := range s.committed() {
		c.onCommit(w, s, a)
	}
	for i, a := range s.attempts {
		if a.GetEnd().GetPreemption() != nil && s.attemptsWere[i].GetEnd() == nil {
			c.ended[messages.FromToken(a.Token)] = true
			w.count("preemptions."+ruleName(a.End.Preemption.Rule), 1)
		}
	}
}

// names notes that a job's guarantee names a victim, and reports whether this is the first time.
func (c *wholeGang) names(v *messages.Victim, job string) bool {
	t := messages.FromToken(v.Token)
	first := c.named[t] == nil
	if first {
		c.named[t] = map[string]bool{}
	}
	c.named[t][job] = true
	return first
}

func ruleName(r messages.PreemptionRule) string {
	switch r {
	case messages.PreemptionRule_PREEMPTION_RULE_RECLAIM:
		return "reclaim"
	case messages.PreemptionRule_PREEMPTION_RULE_SHORTEST:
		return "shortest"
	}
	return "priority"
}

// onEnd checks the end of a victim when it is decided.
func (c *wholeGang) onEnd(w *World, a *messages.AttemptRecord) {
	p, t := a.GetEnd().GetPreemption(), messages.FromToken(a.Token)
	if p == nil || c.ended[t] {
		return
	}
	if !c.named[t][p.ForJob] {
		c.violate(w, "%v of job %s is preempted for job %s, but no stored start guarantee names it as a victim",
			t, a.Job, p.ForJob)
	}
}

// onCommit checks that a starting job's victims have ended.
func (c *wholeGang) onCommit(w *World, s *stored, a *messages.AttemptRecord) {
	for _, v := range s.jobWas.GetPromise().GetVictims() {
		t := messages.FromToken(v.Token)
		victim := w.books.attempts[t]
		if !c.ended[t] || victim == nil {
			continue // the victim was spared, or has ended completely
		}
		if w.count("preemptions.started", 1); c.by[t] < s.epoch {
			w.count("preemptions.taken-over", 1)
		}
		for _, p := range victim.Places {
			m := w.machine(p.Node)
			if p.Exit != nil || m == nil || s.proc.host == nil || !s.proc.host.heardSince(m, s.decided, 15*time.Second) {
				continue
			}
			if task := m.launcher.tasks[messages.KeyOf(victim.Token, p.Rank)]; task != nil && task.spawned && task.exit == nil {
				c.violate(w, "job %s is committed while rank %d of its victim %s still runs on %s",
					a.Job, p.Rank, victim.Job, p.Node)
				return
			}
		}
	}
}

// awaitsVictims reports whether a job must wait for its victims, wherever it could start.
func (b *books) awaitsVictims(page *jobPage) bool {
	return slices.ContainsFunc(page.record.GetPromise().GetVictims(), func(v *messages.Victim) bool {
		a := b.attempts[messages.FromToken(v.Token)]
		return a != nil && a.Owes()
	})
}
