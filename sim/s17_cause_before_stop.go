package sim

import (
	"slices"
	"time"

	"github.com/yi-json/synapse/messages"
)

// causeBeforeStop is S17: no Stop is sent before its cause is on disk. A deposed leader may still send Stop for an
// attempt that had ended before, but never for a running attempt. Two kinds of attempts have no stored cause. A liar's
// invented attempt is stopped after the operator has accepted a loss. An attempt that was given up before COMMIT is
// stopped if its node falsely reports it as committed.
//
// The cause must also be true, as far as the world knows. A node that is called lost was silent, or lied about its
// state. A time limit that is reached counts from the barrier.
type causeBeforeStop struct{ rule }

func newCauseBeforeStop() *causeBeforeStop {
	return &causeBeforeStop{rule: rule{"S17 cause-before-stop", on{Sent, Drafted}}}
}

func (c *causeBeforeStop) Step(w *World, e *Event) {
	if e.Kind == Drafted {
		for _, a := range e.Draft.Attempts {
			if was := w.books.attempts[messages.FromToken(a.Token)]; a.End != nil && was != nil && was.End == nil &&
				e.Process.host != nil {
				c.onEnded(w, e, a)
			}
		}
		return
	}
	m, is := e.Message.(*messages.Stop)
	if !is {
		return
	}
	t := messages.FromToken(m.Order.GetToken())
	if a := w.books.attempts[t]; a != nil {
		if a.End == nil {
			c.violate(w, "Stop{%v} of %v of job %s was sent before a cause is on disk", m.Cause, t, a.Job)
		}
		return
	}
	liar := w.machine(m.Order.Node)
	intruder := liar != nil && liar.intruded[t]
	if _, committed := w.books.owner[t]; !committed && !intruder && !(madeUp(t) && t.Epoch <= w.loss.accepted) {
		c.violate(w, "Stop{%v} of %v was sent, which has no COMMIT on disk", m.Cause, t)
	}
}

// onEnded checks that a cause is true when it is decided.
func (c *causeBeforeStop) onEnded(w *World, e *Event, a *messages.AttemptRecord) {
	switch m := w.machine(a.End.Node); {
	case a.End.Cause == messages.Cause_CAUSE_MACHINE_LOST && a.End.Rank < 0 && m != nil && !m.lossy && !m.lied:
		if e.Process.host.heardSince(m, e.Since, 2*time.Second) {
			c.violate(w, "%v of job %s ended by %v, although the node reported all the time",
				messages.FromToken(a.Token), a.Job, a.End)
		}
	case a.End.Cause == messages.Cause_CAUSE_TIME_LIMIT:
		c.timeUp(w, time.Duration(e.Draft.Job.Spec.GetTimeLimitMs())*time.Millisecond, a)
	}
}

// timeUp compares a time limit with the age of the processes that still exist. Each process started before the barrier
// was passed. A gang may end earlier if a rank saved before the limit and exited.
func (c *causeBeforeStop) timeUp(w *World, limit time.Duration, a *messages.AttemptRecord) {
	for _, p := range a.Places {
		m := w.machine(p.Node)
		if p.Exit.GetSaved() {
			return
		}
		if m == nil {
			continue
		}
		t := m.launcher.tasks[messages.KeyOf(a.Token, p.Rank)]
		if t == nil || !t.spawned {
			continue
		}
		from := t.spawnedAt
		if first, heir := w.inPlace[t.key.Token]; heir {
			from = min(from, first) // the limit includes the earlier attempts in this place
		}
		if ran := w.engine.now.since(from); ran < limit-limit/50-time.Second/10 {
			c.violate(w, "%v of job %s ran for %s and was ended by its limit of %s", t.key, t.job, ran, limit)
			return
		}
	}
}

// prompt reports whether in this run no message is ever lost and no write must wait.
func (f *faults) prompt() bool { return f.calm() && !f.waitsForStore() }

// waitsForStore reports whether a leader's writes may have to wait in this run. The world may then have changed before
// a decision is on disk.
func (f *faults) waitsForStore() bool {
	waits := []string{"store-error", "store-stall", "store-outage", "store-full", "store-io", "leader-cut", "leader-pause"}
	return slices.ContainsFunc(waits, func(name string) bool { return f.byName[name] != nil })
}
