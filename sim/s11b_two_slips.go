package sim

import (
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// twoSlips is S11b: what was lent on estimates makes a promise slip at most twice, counted and shown. The count in the
// store never goes back while the promise stands; and once it is two, nobody without a limit is started on what is
// kept.
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
		c.violate(w, "the promise to %s has slipped %d times, and had %d", s.job.Id, p.Slips, was.GetSlips())
		return
	}
	for _, a := range s.committed() {
		if s.job.Spec.GetTimeLimitMs() == 0 {
			c.onCommit(w, s, a)
		}
	}
}

// onCommit looks whether one that may stay for ever was given what is kept for one that has slipped twice. What was
// admitted before that was known was sooner; and what the promise waits for in any case is gone by then.
func (c *twoSlips) onCommit(w *World, s *stored, a *messages.AttemptRecord) {
	for _, id := range sortedKeys(w.books.given) {
		g := w.books.given[id]
		if g.promise.Slips < mostSlips || id == a.Job || s.decided.since(g.said) < w.constants.ReservationTTL+10e9 {
			continue
		}
		if p := w.leader(); p != nil && p.leader != nil {
			if slips, known := p.leader.Slips(topology.JobID(id)); known && slips < mostSlips {
				continue // one of those on disk is for what is lent now, should nobody come to know whether it is late
			}
		}
		for _, node := range nodesOf(g.promise) {
			endless := func(o *messages.AttemptRecord) bool {
				return w.books.jobs[o.Job].record.GetSpec().GetTimeLimitMs() == 0 && !g.waitsFor(w, o, node)
			}
			g.lookAround(w)
			if g.excuse == "" && isOn(a, node) && g.crowds(w, a, node, endless) {
				c.violate(w, "%s has no limit, and is committed on %s, which is kept for %s after two slips", a.Job, node, id)
				return
			}
		}
	}
}
