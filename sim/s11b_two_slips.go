package sim

import (
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// twoSlips is S11b: a start guarantee slips at most twice because of backfilled jobs that overran their estimates. The
// slips are counted and shown. The stored count never decreases while the guarantee stands. After two slips, no job
// without a time limit is started on the reserved nodes.
type twoSlips struct{ rule }

const mostSlips = 2

func newTwoSlips() *twoSlips { return &twoSlips{rule{"S11b two-slips", on{Stored}}} }

func (*twoSlips) clauses() []clause { return []clause{{about: isPromised, away: awayFromPromise}} }

func (c *twoSlips) Step(w *World, e *Event) {
	s := e.Stored
	if s.job == nil || !w.ahead() {
		return
	}
	if p, was := s.job.Promise, s.jobWas.GetPromise(); p.GetSlips() > mostSlips ||
		p != nil && was.GetOrder() == p.Order && was.Slips > p.Slips {
		c.violate(w, "the start guarantee of job %s has slipped %d times, after %d before", s.job.Id, p.Slips, was.GetSlips())
		return
	}
	for _, a := range s.committed() {
		if s.job.Spec.GetTimeLimitMs() == 0 {
			c.onCommit(w, s, a)
		}
	}
}

// onCommit checks that a job without a time limit does not backfill nodes of a guarantee that has slipped twice. Two
// cases are allowed: a job that was admitted before the second slip was known, and a job that leaves before other jobs
// for which the guarantee waits anyway.
func (c *twoSlips) onCommit(w *World, s *stored, a *messages.AttemptRecord) {
	for _, id := range sortedKeys(w.books.given) {
		g := w.books.given[id]
		if g.promise.Slips < mostSlips || id == a.Job || s.decided.since(g.said) < w.constants.ReservationTTL+10e9 {
			continue
		}
		if p := w.leader(); p != nil && p.leader != nil {
			if slips, known := p.leader.Slips(topology.JobID(id)); known && slips < mostSlips {
				// one stored slip is reserved for the present backfill, in case its overrun is never
				// observed
				continue
			}
		}
		for _, node := range nodesOf(g.promise) {
			endless := func(o *messages.AttemptRecord) bool {
				return w.books.jobs[o.Job].record.GetSpec().GetTimeLimitMs() == 0 && !g.waitsFor(w, o, node) &&
					!w.hasLapsed(o, node)
			}
			g.lookAround(w)
			if g.excuse == "" && isOn(a, node) && isNewOn(a, node) && g.crowds(w, a, node, endless) {
				c.violate(w, "job %s has no time limit and is committed on %s, which is reserved for job %s after two slips",
					a.Job, node, id)
				return
			}
		}
	}
}
