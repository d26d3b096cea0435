package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
)

// warnedInTime is S33: a task is told of its end if its job asks for that, and no other is; by the signal that its job
// names, no sooner than it wants, and of a limit that the job has or had a moment ago. A task that is stopped by its
// limit or by a drain had been told of just that, well before, on each machine that its leader had heard all the time.
// What nobody knew so long before (a limit that was made shorter, a drain with a short deadline, a leader that has
// just taken over) is told within moments. Where letters are lost, or leaders held up, only the first half is looked
// at.
type warnedInTime struct {
	rule
	limited map[string]instant // by job: since when its record has its limit
	drained map[string]instant // by machine: since when its record says that it is emptied
}

// warnedBound is how long it may take to say it: the longest pause before it is said again, and a little.
const warnedBound = 12 * time.Second

func newWarnedInTime() *warnedInTime {
	return &warnedInTime{
		rule:    rule{"S33 warned-in-time", on{Stored, TaskTold, Drafted}},
		limited: map[string]instant{}, drained: map[string]instant{},
	}
}

func (c *warnedInTime) Step(w *World, e *Event) {
	switch e.Kind {
	case Stored:
		c.onStored(w, e.Stored)
	case TaskTold:
		c.onTold(w, e.Task, e.Message.(*messages.WarnTask))
	case Drafted:
		for _, a := range e.Draft.Attempts {
			was := w.books.attempts[messages.FromToken(a.Token)]
			if a.End != nil && was != nil && was.End == nil && e.Process.host != nil {
				c.onEnded(w, e, a)
			}
		}
	}
}

func (c *warnedInTime) onStored(w *World, s *stored) {
	if n := s.node; n != nil && (s.nodeWas.GetDrained().GetAtUnixMs() != n.GetDrained().GetAtUnixMs() ||
		(s.nodeWas.GetDrainDeadlineUnixMs() == 0) != (n.DrainDeadlineUnixMs == 0)) {
		c.drained[n.Id] = w.engine.now
	}
	if s.job != nil && s.jobWas != nil && s.jobWas.Spec.TimeLimitMs != s.job.Spec.TimeLimitMs {
		c.limited[s.job.Id] = w.engine.now
	}
}

// onTold looks at what a task is told.
func (c *warnedInTime) onTold(w *World, t *task, m *messages.WarnTask) {
	page := w.books.jobs[t.job]
	if page == nil {
		return
	}
	warn := page.record.Spec.GetWarn()
	switch {
	case warn == nil:
		c.violate(w, "%v of %s is told of its end, and its job does not ask for that", t.key, t.job)
	case m.Cause == messages.Cause_CAUSE_UNSPECIFIED:
	case m.Signal != warn.Signal:
		c.violate(w, "%v of %s is warned by signal %d, and wants %d", t.key, t.job, m.Signal, warn.Signal)
	case m.LeftMs > warn.AheadMs:
		c.violate(w, "%v of %s is warned %d ms ahead, and wants %d", t.key, t.job, m.LeftMs, warn.AheadMs)
	case m.Cause == messages.Cause_CAUSE_TIME_LIMIT && m.Of != page.record.Spec.TimeLimitMs && w.faults.prompt() &&
		w.engine.now.since(c.limited[t.job]) > warnedBound:
		c.violate(w, "%v of %s is warned of a limit of %d ms, and has one of %d ms", t.key, t.job, m.Of,
			page.record.Spec.TimeLimitMs)
	}
}

// onEnded looks who was told of an end that was known before.
func (c *warnedInTime) onEnded(w *World, e *Event, a *messages.AttemptRecord) {
	spec := e.Draft.Job.Spec
	since := e.Process.host.quietest(a)
	switch a.End.Cause {
	case messages.Cause_CAUSE_TIME_LIMIT:
		since = max(since, c.limited[a.Job])
	case messages.Cause_CAUSE_DRAINED:
		since = max(since, c.drained[a.End.Node])
	default:
		return
	}
	short := spec.GetWarn().GetAheadMs() < warnedBound.Milliseconds() // or there is none
	if short || !w.faults.prompt() || e.Since.since(since) < warnedBound {
		return
	}
	for _, p := range a.Places {
		m := w.machine(p.Node)
		if m == nil || p.Exit != nil || m.old || !e.Process.host.heardSince(m, e.Since, warnedBound) {
			continue
		}
		t := m.launcher.tasks[messages.KeyOf(a.Token, p.Rank)]
		if t == nil || t.state != taskRunning || w.engine.now.since(t.spawnedAt) < warnedBound {
			continue
		}
		w.count("warned.judged", 1)
		if t.notice.GetCause() != a.End.Cause {
			c.violate(w, "%v of %s ends by %v, and its task was told of %v", t.key, t.job, a.End, t.notice)
			return
		}
	}
}

// quietest is when the leader heard the last machine of an attempt again after a silence.
func (h *schedulerHost) quietest(a *messages.AttemptRecord) (last instant) {
	for _, p := range a.Places {
		if m := h.w.machine(p.Node); m != nil {
			last = max(last, h.quietAt[m.index])
		}
	}
	return last
}
