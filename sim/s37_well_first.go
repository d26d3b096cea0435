package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// wellFirst is S37: no gang starts on a machine whose last check of its health failed. What is to be prepared there is
// prepared after a check that was begun for it, and passes the barrier only while the machine's agent knows of no check
// that failed last; and no attempt that ends for that counts against its job. The leader may want a place despite a
// check only where those of more than a twentieth of the pool failed of late.
type wellFirst struct {
	rule
	told    map[*machine]string  // which check failed, as its agent was told last
	ill     map[*machine]instant // when a check last failed
	passed  map[slot]string      // what the agent had been told when the attempt passed the barrier there
	despite map[slot]bool
}

// slot is one attempt on one machine.
type slot struct {
	token topology.Token
	m     *machine
}

// illLately is for how long a leader may count on what it was told of a machine's health: words are late by minutes.
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
			c.violate(w, "%v of %s is prepared on %s, which was not checked for it", e.Task.key, e.Task.job,
				e.Machine.address)
		}
	case TaskSpawned:
		at := slot{e.Task.key.Token, e.Machine}
		if why := c.passed[at]; why != "" && !c.despite[at] {
			c.violate(w, "%v of %s begins on %s, whose agent knew: %s", e.Task.key, e.Task.job, e.Machine.address, why)
		}
	case Checked:
		if !e.Machine.launcher.fit() {
			c.ill[e.Machine] = w.engine.now
		}
	}
}

// handled notes what an agent knows, and what it knew when an attempt passed the barrier.
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
		s := e.Process.node.Ledger().Slice(at.token)
		if _, before := c.passed[at]; !before && s != nil && s.State == topology.SliceStarted {
			c.passed[at] = c.told[e.Machine]
		}
	}
}

// excused looks whether checks failed on as many machines as a leader needs to pass over one.
func (c *wellFirst) excused(w *World, m *messages.Reserve) {
	ill := 0
	for _, other := range w.machines {
		if at, ever := c.ill[other]; ever && (w.engine.now.since(at) < illLately || !other.launcher.fit()) {
			ill++
		}
	}
	if ill <= max(len(w.machines)/20, 1) {
		c.violate(w, "%s is wanted despite its check, and checks failed on %d machines of %d", m.Order.Node, ill,
			len(w.machines))
	}
}

// counts looks whether a job pays for an attempt that a machine was not well for.
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
		c.violate(w, "%s pays for run %d, for which a machine was not well", s.job.Id, a.Run)
	}
}
