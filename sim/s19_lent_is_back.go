package sim

import (
	"maps"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// lentIsBack is S19: a backfilled gang passes its barrier by startBy. COMMIT contains this deadline as the time that is
// left. Counted from the decision, it holds for each leader by its own clock, which deviates by at most 1%. After the
// deadline no Start is sent, and a gang that counts as started had all of its processes before.
//
// COMMIT must not allow too late a start. A gang that passes its barrier at the deadline, runs to its limit, and uses
// its grace and 20 seconds to end, has left before the bound of the job for which the nodes are reserved.
type lentIsBack struct {
	rule
	due   map[topology.Token]instant
	began map[topology.Token]instant // when the latest process of a backfilled gang started
}

// leaveIn is the time that a gang takes to free its nodes after its time limit, in addition to its grace.
const leaveIn = 20 * time.Second

func newLentIsBack() *lentIsBack {
	return &lentIsBack{rule: rule{"S19 lent-is-back", on{Stored, Sent, TaskSpawned, Led}},
		due: map[topology.Token]instant{}, began: map[topology.Token]instant{}}
}

func (c *lentIsBack) clauses() []clause {
	lent := func(w *World, page *jobPage) bool {
		a := w.books.latest(page)
		return isActive(w, page) && a != nil && a.End == nil && a.StartedUnixMs == 0 && a.StartByLeftMs > 0
	}
	limited := func(w *World, page *jobPage) bool {
		return page.queued && page.record.Spec.GetTimeLimitMs() > 0
	}
	fresh := func(w *World, page *jobPage) string { return c.awayFromLimit(page, w.engine.now) }
	return []clause{{"start by", lent, c.awayFromStart}, {"gone by", limited, fresh}}
}

// awayFromStart returns a reason for attempts that the store has lost, because no deadline is known for them.
func (c *lentIsBack) awayFromStart(w *World, page *jobPage) string {
	if _, lent := c.due[messages.FromToken(w.books.latest(page).Token)]; !lent {
		return "the store was put back while it started"
	}
	return ""
}

// awayFromLimit returns a reason for a short time after a limit changed, because a gang that was planned with another
// limit may be committed.
func (*lentIsBack) awayFromLimit(page *jobPage, decided instant) string {
	if page.limitIsFresh(decided) {
		return "its limit was changed a moment ago"
	}
	return ""
}

// restored drops attempts that the store has lost, because no deadline is known for them.
func (c *lentIsBack) restored(w *World) {
	maps.DeleteFunc(c.due, func(t topology.Token, _ instant) bool { return w.loss.tokens[t] })
}

func (c *lentIsBack) Step(w *World, e *Event) {
	switch e.Kind {
	case Sent:
		m, is := e.Message.(*messages.Start)
		if !is || e.Process != w.leader() {
			return
		}
		t := messages.FromToken(m.Order.GetToken())
		if due, lent := c.due[t]; lent && w.engine.now > due && w.books.attempts[t].GetStartedUnixMs() == 0 {
			c.violate(w, "Start of %v of job %s was sent %s after its start deadline", t, m.Order.Job,
				w.engine.now.since(due))
		}
	case TaskSpawned:
		if _, lent := c.due[e.Task.key.Token]; lent {
			c.began[e.Task.key.Token] = w.engine.now
		}
	case Led:
		for t := range c.due { //order: any will do
			if w.books.attempts[t].GetStartedUnixMs() == 0 {
				w.count("promises.lent-resumed", 1)
			}
		}
	case Stored:
		for _, a := range e.Stored.committed() {
			c.onCommit(w, e.Stored, a)
		}
		for i, a := range e.Stored.attempts {
			c.onWritten(w, a, e.Stored.attemptsWere[i])
		}
	}
}

func (c *lentIsBack) onCommit(w *World, s *stored, a *messages.AttemptRecord) {
	left := time.Duration(a.StartByLeftMs) * time.Millisecond
	if left > 0 {
		c.due[messages.FromToken(a.Token)] = s.decided.plus(left + left/100 + 10*time.Millisecond)
	}
	limit := time.Duration(s.job.Spec.GetTimeLimitMs()) * time.Millisecond
	if s.proc != w.leader() || s.proc.leader == nil || limit == 0 || c.awayFromLimit(s.page, s.decided) != "" {
		return // a job without a limit backfills no nodes with a bound
	}
	if ttl := w.constants.ReservationTTL; w.engine.now.since(s.decided) > ttl+ttl/50 {
		return // it reached the disk after its reservations had expired, and will not start
	}
	phases := 2*w.constants.StartDeadline + w.constants.PrepareTimeout
	if ms := s.job.Spec.GetPrepareTimeoutMs(); ms > 0 {
		phases = 2*w.constants.StartDeadline + time.Duration(ms)*time.Millisecond
	}
	if left == 0 || left > phases { // after that time it is given up anyway
		left = phases
	}
	if a.Inherited != nil {
		left = -actors.Millis(a.InPlaceMs) // its limit counts from the first barrier in its place
	}
	gone := s.proc.clock.read(s.decided).Plus(left + limit + graceOf(w, s.job.Spec) + leaveIn)
	for n, amount := range amounts(a) { //order: any will do
		if w.hasLapsed(a, n) {
			continue // its agent restarted before a stalled disk stored the COMMIT, so it will not start
		}
		c.inTime(w, s, topology.NodeID(n), amount, gone)
	}
}

// inTime looks for a start guarantee on a node that has too little capacity next to a job, and that is due before the
// job is gone.
func (c *lentIsBack) inTime(
	w *World, s *stored, n topology.NodeID, amount topology.Resources, gone actors.Instant,
) {
	s.proc.leader.Bound(n, func(job topology.JobID, kept topology.Resources, by actors.Instant) {
		if job != topology.JobID(s.job.Id) && gone > by && !kept.Plus(amount).Within(s.proc.leader.Size(n)) {
			c.violate(w, "job %s may be on %s until %s, where capacity is reserved for job %s by %s", s.job.Id, n,
				time.Duration(gone), job, time.Duration(by))
		}
	})
}

// amounts returns the resources of an attempt on each node.
func amounts(a *messages.AttemptRecord) map[string]topology.Resources {
	all := map[string]topology.Resources{}
	for _, p := range a.Places {
		all[p.Node] = all[p.Node].Plus(messages.FromResources(p.Grant.GetAmount()))
	}
	return all
}

func graceOf(w *World, spec *messages.JobSpec) time.Duration {
	if ms := spec.GetStop().GetGraceMs(); ms > 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return w.constants.StopGrace
}

func (c *lentIsBack) onWritten(w *World, a, was *messages.AttemptRecord) {
	t := messages.FromToken(a.Token)
	if due, lent := c.due[t]; lent && a.StartedUnixMs != 0 && was.GetStartedUnixMs() == 0 && c.began[t] > due {
		c.violate(w, "%v of job %s counts as started %s after its start deadline", t, a.Job, c.began[t].since(due))
	}
	if a.End != nil && was.GetEnd() == nil {
		if a.End.Cause == messages.Cause_CAUSE_START_BY {
			w.count("promises.start-by", 1)
		}
		delete(c.due, t)
		delete(c.began, t)
	}
}
