package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// wellFirst is S37: no gang starts on a node whose last health check failed. A task is prepared only after a check that
// was started for it. It passes the barrier only while its agent knows of no failed check. An attempt that ends for
// this reason does not count against its job. The leader may ignore a failed check only if checks failed recently on
// more than a twentieth of the pool.
type wellFirst struct {
	rule
	told    map[*machine]string  // the failed check that its agent last got
	ill     map[*machine]instant // when a check last failed
	passed  map[slot]string      // the agent's knowledge when the attempt passed the barrier there
	despite map[slot]bool
}

// slot is one attempt on one node.
type slot struct {
	token topology.Token
	m     *machine
}

// illLately is the time for which a leader may rely on an earlier health report. Messages may be late by minutes.
const illLately = 5 * time.Minute

func newWellFirst() *wellFirst {
	return &wellFirst{
		rule: rule{"S37 well-first", on{Sent, Handled, Stored, TaskPrepared, TaskSpawned, Checked}},
		told: map[*machine]string{}, ill: map[*machine]instant{}, passed: map[slot]string{}, despite: map[slot]bool{},
	}
}

func (c *wellFirst) Step(w *World, e *Event) {
	if !w.draw.Checks {
		return
	}
	switch e.Kind {
	case Sent:
		if m, is := e.Message.(*messages.Reserve); is && m.DespiteUnwell {
			c.excused(w, m)
		}
	case Handled:
		c.handled(e)
	case Stored:
		c.counts(w, e.Stored)
	case TaskPrepared:
		if a := e.Machine.proc; a != nil && !a.old && !e.Machine.launcher.health.lookedFor[e.Task.key.Token] {
			c.violate(w, "%v of job %s is prepared on %s without a health check for it", e.Task.key, e.Task.job,
				e.Machine.address)
		}
	case TaskSpawned:
		at := slot{e.Task.key.Token, e.Machine}
		if why := c.passed[at]; why != "" && !c.despite[at] {
			c.violate(w, "%v of job %s starts on %s, whose agent knew a failed check: %s",
				e.Task.key, e.Task.job, e.Machine.address, why)
		}
	case Checked:
		if !e.Machine.launcher.fit() {
			c.ill[e.Machine] = w.engine.now
		}
	}
}

// handled notes an agent's knowledge, and its knowledge when an attempt passed the barrier.
func (c *wellFirst) handled(e *Event) {
	switch m := e.Message.(type) {
	case *messages.TaskList:
		c.told[e.Machine] = m.Health.GetUnwell()
	case *messages.MachineChecked:
		c.told[e.Machine] = m.Health.GetUnwell()
	case *messages.Reserve:
		if at := (slot{messages.FromToken(m.Order.Token), e.Machine}); m.DespiteUnwell {
			c.despite[at] = true
		}
	case *messages.Start:
		at := slot{messages.FromToken(m.Order.Token), e.Machine}
		s := e.Process.node.Ledger().Allocation(at.token)
		if _, before := c.passed[at]; !before && s != nil && s.State == topology.AllocationStarted {
			c.passed[at] = c.told[e.Machine]
		}
	}
}

// excused checks that checks failed on enough nodes for a leader to ignore a failed one.
func (c *wellFirst) excused(w *World, m *messages.Reserve) {
	ill := 0
	for _, other := range w.machines {
		if at, ever := c.ill[other]; ever && (w.engine.now.since(at) < illLately || !other.launcher.fit()) {
			ill++
		}
	}
	if ill <= max(len(w.machines)/20, 1) {
		c.violate(w, "%s is used despite its failed check, but checks failed on only %d nodes of %d", m.Order.Node, ill,
			len(w.machines))
	}
}

// counts checks whether an attempt on an unhealthy node counts against its job.
func (c *wellFirst) counts(w *World, s *stored) {
	if s.job == nil || s.jobWas == nil || s.jobWas.State != messages.JobState_JOB_STATE_ACTIVE ||
		s.job.State == messages.JobState_JOB_STATE_ACTIVE {
		return
	}
	a := w.books.attempts[messages.FromToken(s.jobWas.Attempt)]
	for _, now := range s.attempts {
		if a != nil && messages.FromToken(now.Token) == messages.FromToken(a.Token) {
			a = now
		}
	}
	if a.GetEnd().GetCause() != messages.Cause_CAUSE_UNWELL {
		return
	}
	if s.job.Failures != s.jobWas.Failures || s.job.InfraRestarts != s.jobWas.InfraRestarts ||
		s.job.PrepareFailures != s.jobWas.PrepareFailures {
		c.violate(w, "attempt %[2]d of job %[1]s counts against the job, although a node was unhealthy", s.job.Id, a.Run)
	}
}
