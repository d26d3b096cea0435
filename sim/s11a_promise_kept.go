package sim

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// promiseKept is S11a: no admission moves the bound of a start guarantee. An attempt that is committed on the
// guaranteed nodes has left them by the bound because of its time limit, or leaves enough capacity.
//
// While its nodes are in service and its job waits, the store neither replaces a guarantee by a later one nor drops it.
// One exception exists: a guarantee on borrowed quota ends if the lending queue reclaims its quota. Such a guarantee is
// marked as on loan, and its victims' job has no better right.
type promiseKept struct {
	rule
	since map[topology.Token]instant // when an attempt's COMMIT, or later its barrier, reached the store
	ended map[topology.Token]instant // when an attempt's end reached the store; it is stopped from then on
}

func newPromiseKept() *promiseKept {
	return &promiseKept{rule: rule{"S11a promise-kept", on{Stored, Scanned, Led}}, since: map[topology.Token]instant{},
		ended: map[topology.Token]instant{}}
}

func (c *promiseKept) clauses() []clause {
	return []clause{{"lent", isPromised, awayFromPromise}, {"given up", isPromised, c.awayFromEnd}}
}

// awayFromEnd returns why the checker does not judge whether a job loses its start guarantee.
func (*promiseKept) awayFromEnd(w *World, page *jobPage) string {
	return cmp.Or(awayFromPromise(w, page), w.awayFromLack(w.books.given[page.record.Id], page.record))
}

func (c *promiseKept) Step(w *World, e *Event) {
	switch {
	case !w.ahead():
	case e.Kind == Led:
		w.takenOver()
	case e.Kind == Scanned:
		w.excuseAll()
		w.noUIDIsFree() // also records when no UID is free
	case e.Stored.job != nil:
		for i, a := range e.Stored.attempts {
			if e.Stored.attemptsWere[i] == nil || a.StartedUnixMs != 0 && e.Stored.attemptsWere[i].StartedUnixMs == 0 {
				c.since[messages.FromToken(a.Token)] = e.Stored.decided
			}
		}
		for i, a := range e.Stored.attempts {
			if a.End != nil && e.Stored.attemptsWere[i].GetEnd() == nil {
				c.ended[messages.FromToken(a.Token)] = e.Stored.decided
			}
		}
		for _, a := range e.Stored.committed() {
			c.onCommit(w, e.Stored, a)
		}
		c.onChange(w, e.Stored)
	}
}

// slackOf returns the tolerance of a bound for the clocks of two leaders and the delay of messages.
func (g *given) slackOf() time.Duration { return 30*time.Second + g.bound.since(g.said)/50 }

// hardEnd returns the latest time at which an attempt has left its nodes, without margins. It returns false if the
// attempt has no time limit and no stored end.
func (c *promiseKept) hardEnd(w *World, a *messages.AttemptRecord, spec *messages.JobSpec) (instant, bool) {
	limit := time.Duration(spec.GetTimeLimitMs()) * time.Millisecond
	grace := time.Duration(spec.GetStop().GetGraceMs()) * time.Millisecond
	t := messages.FromToken(a.Token)
	if a.End != nil {
		return c.ended[t].plus(grace), true
	}
	return c.since[t].plus(limit + grace - actors.Millis(a.InPlaceMs)), limit > 0
}

// onCommit checks each start guarantee on the nodes of a new attempt. It adds up the attempts that are still there at
// the bound.
func (c *promiseKept) onCommit(w *World, s *stored, a *messages.AttemptRecord) {
	end, limited := c.hardEnd(w, a, s.job.Spec)
	commits := func(r *messages.JobRecord) bool { return r.Id == a.Job }
	fresh := s.page.limitIsFresh(s.decided)
	for _, id := range sortedKeys(w.books.given) {
		g := w.books.given[id]
		shares := func(p *messages.Place) bool { _, is := g.onMachine(p.Node); return is }
		if id == a.Job || !slices.ContainsFunc(a.Places, shares) {
			continue
		}
		for _, node := range nodesOf(g.promise) {
			if !isOn(a, node) || w.hasLapsed(a, node) ||
				!g.crowds(w, a, node, func(*messages.AttemptRecord) bool { return true }) {
				continue
			}
			w.count("promises.lent", 1)
			late := func(o *messages.AttemptRecord) bool {
				end, limited := c.hardEnd(w, o, w.books.jobs[o.Job].record.Spec)
				return (!limited || end > g.bound.plus(g.slackOf())) && !w.hasLapsed(o, node)
			}
			g.lookAround(w)
			isLate := g.bound > 0 && (!limited || end > g.bound.plus(g.slackOf()))
			if isLate && !fresh && g.excuse == "" && g.crowds(w, a, node, late) && !g.takenBack(w, commits) {
				until := "for ever"
				if limited {
					until = "until " + clockFace(end)
				}
				c.violate(w, "job %s is committed on %s, where it may stay %s, but job %s has a guaranteed start there by %s",
					a.Job, node, until, g.job, clockFace(g.bound))
				return
			}
			break
		}
	}
}

// hasLapsed reports whether an attempt in the store holds no resources on a node any more: it has ended there, although
// its exit is not in the store yet, or it never began. A stalled disk may complete a COMMIT after the reservations have
// expired. The node refuses such a Commit, and the attempt ends.
func (w *World) hasLapsed(a *messages.AttemptRecord, node string) bool {
	m := w.machine(node)
	if m.proc == nil || m.proc.node == nil || m.proc.node.Ledger() == nil {
		return false // unknown until its agent runs
	}
	s := m.proc.node.Ledger().Allocation(messages.FromToken(a.Token))
	return s == nil || s.State == topology.AllocationEnded
}

// mayBeHeld reports whether a hold may be on its way. A hold that is released before it is on disk also ends a
// guarantee.
func (p *jobPage) mayBeHeld(w *World) bool {
	return p.holdAsked > 0 && w.engine.now.since(p.holdAsked) < time.Minute+w.draw.LateMost
}

// onChange compares each change of a guarantee in the store with its first version.
func (c *promiseKept) onChange(w *World, s *stored) {
	g, r := w.books.given[s.job.Id], s.job
	if g == nil || g.bound == 0 {
		return
	}
	g.lookAround(w)
	switch p := r.Promise; {
	case r.State != messages.JobState_JOB_STATE_QUEUED:
		if len(s.committed()) > 0 && s.decided <= g.bound.plus(g.slackOf()) {
			w.count("promises.met", 1)
		}
	case g.excuse != "" || r.Hold != nil || r.Cancel != nil || s.page.mayBeHeld(w) ||
		r.Spec.BeginUnixMs != s.jobWas.GetSpec().GetBeginUnixMs():
	case proto.Equal(p, s.jobWas.GetPromise()):
		// The record was written for another reason, and the remaining time of the guarantee is from that
		// moment.
	case p != nil && p.LeftMs > 0 && s.decided.plus(time.Duration(p.LeftMs)*time.Millisecond) <= g.bound.plus(g.slackOf()):
	case g.takenBack(w, queuedNow):
		g.excuse = "what its queue borrows for it is taken back"
		w.count("promises.taken-back", 1)
	case p == nil && w.awayFromLack(g, r) != "":
		g.excuse = "no uid is free for it"
		w.count("promises.no-uid", 1)
	case p == nil:
		c.violate(w, "the start guarantee of job %s, by %s, was dropped", r.Id, clockFace(g.bound))
	default:
		c.violate(w, "the start guarantee of job %s by %s was replaced by one within %d ms of %s",
			r.Id, clockFace(g.bound), p.LeftMs,
			clockFace(s.decided))
	}
}
