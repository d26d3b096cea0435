package scheduler

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns that people see when each job starts, as far as a planner that looks ahead can say: the Mirror is
// told of every promise, and of where those stand that have none. It must never cost the pass anything: what is told
// is put together at most once a second, and not sent where nothing changed.

// startsTelling is how far the Mirror has been told.
type startsTelling struct {
	began bool
	at    actors.Instant // when it was last put together
	told  mirror.StartsShown
	stale bool // the Mirror has dropped one of these, since its job waited no more
}

// startsEvery is how often what is told of the time is looked at.
const startsEvery = time.Second

// tellStarts tells when jobs start, now or as soon as it may.
func (s *Scheduler) tellStarts(ctx actor.Context) {
	planner, foretells := s.planner.(policy.Foreteller)
	if !foretells {
		return
	}
	t, now := &s.starts, s.p.Clock.Now()
	if t.began && s.tellsLater(ctx, t.at.Plus(startsEvery)) {
		return
	}
	first := !t.began
	t.began, t.at = true, now
	shown := s.startsOf(planner.Prospects())
	if !first && !t.stale && shown.Equal(&t.told) {
		return
	}
	t.told, t.stale = shown, false
	ctx.Send(s.peers.Mirror, shown)
}

// tellsLater reports whether something is not to be told again yet, and sees to it that it is looked at then.
func (s *Scheduler) tellsLater(ctx actor.Context, next actors.Instant) bool {
	wait := next.Since(s.p.Clock.Now())
	if wait > 0 && !s.telling.armed {
		s.telling.armed = true
		s.p.Clock.After(wait, ctx.Self(), tellAgain{})
	}
	return wait > 0
}

// startsOf names where those are that have no end.
func (s *Scheduler) startsOf(p policy.Prospects) mirror.StartsShown {
	shown := mirror.StartsShown{Prospects: p, Learned: s.learning.cells.Len() > 0}
	for i := range p.Promises {
		who := p.Promises[i].Endless
		if e := s.jobs[who]; e != nil && e.run != nil {
			shown.Endless = append(shown.Endless, mirror.Endless{Job: who, Node: nodeOf(e.run.nodes, p.Promises[i].Where)})
		}
	}
	return shown
}

// nodeOf is the first of these machines that is in a place.
func nodeOf(nodes []topology.NodeID, where topology.Placement) topology.NodeID {
	at := slices.IndexFunc(where.Slots, func(s topology.Slot) bool { return slices.Contains(nodes, s.Node) })
	if at < 0 {
		return ""
	}
	return where.Slots[at].Node
}

// waitsNoMore tells the Mirror that a job has left the queue; what it was told of the time is dropped there.
func (s *Scheduler) waitsNoMore(ctx actor.Context, job topology.JobID) {
	s.starts.stale = s.starts.stale ||
		slices.ContainsFunc(s.starts.told.Promises, func(p policy.Promise) bool { return p.Job == job })
	ctx.Send(s.peers.Mirror, mirror.WaitsNoMore{Job: job})
	s.tellWants(ctx)
}

// Prospects is what the Scheduler could tell now of the time: for whoever checks what the Mirror shows of it.
func (s *Scheduler) Prospects() (policy.Prospects, bool) {
	if planner, foretells := s.planner.(policy.Foreteller); foretells && s.states.In(schedulerLeading) {
		return planner.Prospects(), true
	}
	return policy.Prospects{}, false
}

// startsBy is when an attempt that was just admitted has passed its barrier at the latest, by what it was lent.
func (s *Scheduler) startsBy(spec *messages.JobSpec, now actors.Instant, startBy int64) actors.Instant {
	starts := now.Plus(untilStarted(spec, &s.p.Constants))
	if startBy > 0 {
		starts = min(starts, actors.Instant(startBy))
	}
	return starts
}
