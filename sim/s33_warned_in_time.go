package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
)

// warnedInTime is S33: a task is warned of its end only if its job requests that. The warning uses the job's signal,
// comes no sooner than requested, and names a limit that the job has or had a moment ago. A task that is stopped by its
// limit or a drain was warned of it in time, on each node that its leader heard without a pause. If the end was not
// known so early, the warning follows within moments. Examples are a shortened limit, a drain with a short deadline and
// a new leader. If messages are lost or leaders delayed, only the first half is checked.
type warnedInTime struct {
	rule
	limited map[string]instant // by job: since when its record has its limit
	drained map[string]instant // by node: since when its record says that it is drained
}

// warnedBound is the time that a warning may take: the longest pause before it is resent, and a little more.
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

// onTold checks a warning to a task.
func (c *warnedInTime) onTold(w *World, t *task, m *messages.WarnTask) {
	page := w.books.jobs[t.job]
	if page == nil {
		return
	}
	spec := page.record.Spec
	ahead, signal := spec.Announced()
	switch {
	case !spec.IsAnnounced():
		c.violate(w, "%v of job %s is warned of its end, but its job does not request that", t.key, t.job)
	case m.Cause == messages.Cause_CAUSE_UNSPECIFIED:
	case m.Signal != signal:
		c.violate(w, "%v of job %s is warned by signal %d, but requests %d", t.key, t.job, m.Signal, signal)
	case m.LeftMs > ahead.Milliseconds():
		c.violate(w, "%v of job %s is warned %d ms ahead, but requests %v", t.key, t.job, m.LeftMs, ahead)
	case m.Cause == messages.Cause_CAUSE_TIME_LIMIT && m.Of != page.record.Spec.TimeLimitMs && w.faults.prompt() &&
		w.engine.now.since(c.limited[t.job]) > warnedBound:
		c.violate(w, "%v of job %s is warned of a limit of %d ms, but has one of %d ms", t.key, t.job, m.Of,
			page.record.Spec.TimeLimitMs)
	}
}

// onEnded checks which tasks were warned of an end that was known before.
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
	short := spec.GetWarn().GetAheadMs() < warnedBound.Milliseconds() // or the job wants no warning
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
			c.violate(w, "%v of job %s ends by %v, but its task was warned of %v", t.key, t.job, a.End, t.notice)
			return
		}
	}
}

// quietest returns when the leader last heard a node of an attempt again after a silence.
func (h *schedulerHost) quietest(a *messages.AttemptRecord) (last instant) {
	for _, p := range a.Places {
		if m := h.w.machine(p.Node); m != nil {
			last = max(last, h.quietAt[m.index])
		}
	}
	return last
}
