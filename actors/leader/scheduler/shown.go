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

// This file owns the updates of the Mirror: the free capacity of each node, the holders of the rest, and reservations.
// With them the Mirror explains a wait as the Scheduler would. An explanation takes long and must not delay the start
// of a gang. Changes are sent at most every tenth of a second, each node once.

// showing records the last update of the Mirror.
type showing struct {
	at    actors.Instant // time of the last update
	began bool
	armed bool // a timer for the next one is set
}

// showAgain is the timer of the next update.
type showAgain struct{}

// roomsEvery is the minimum interval between updates.
const roomsEvery = 100 * time.Millisecond

// showRooms sends the changes, now or after the minimum interval. It is called after every message.
func (s *teller) showRooms(ctx actor.Context) {
	t, tree := &s.showing, s.view.Tree()
	if t.armed || !tree.Untold() {
		return
	}
	now := s.p.Clock.Now()
	if wait := t.at.Plus(roomsEvery).Since(now); t.began && wait > 0 {
		t.armed = true
		s.p.Clock.After(wait, ctx.Self(), showAgain{})
		return
	}
	t.began, t.at = true, now
	shown := mirror.RoomsShown{Changes: tree.Tell()}
	shown.Holders = make([][]topology.Holder, len(shown.Machines))
	for i := range shown.Machines {
		shown.Holders[i] = s.holders(shown.Machines[i].ID)
	}
	ctx.Send(s.peers.Mirror, shown)
}

// holders returns the jobs that hold resources on a node.
func (s *teller) holders(n topology.NodeID) []topology.Holder {
	m := s.machines[n]
	if m == nil || len(m.room.Tenants()) == 0 {
		return nil
	}
	all := make([]topology.Holder, 0, len(m.room.Tenants()))
	for _, t := range m.room.Tenants() {
		all = append(all, topology.Holder{Job: t.Job, Amount: t.Amount(), EndsBy: freeBy(t)})
	}
	return all
}

// unqueue removes a job that does not start from the queue, and notifies the Mirror.
func (s *teller) unqueue(ctx actor.Context, job topology.JobID) {
	if s.queue.Remove(job) {
		if _, foretells := s.planner.(policy.Foreteller); foretells {
			s.plan(ctx) // the nodes reserved for it become free, and its turn passes on
		}
		s.waitsNoMore(ctx, job)
	}
}

// Explain returns the Scheduler's own facts about why a job waits. It returns false if the job is not in the queue, if
// it fits, or if nothing is planned yet. Only checks of the Mirror's facts call it, because it is slow.
func (s *teller) Explain(job topology.JobID) (policy.Answer, bool) {
	all := topology.NewHolders()
	s.view.Tree().Walk(func(m topology.Machine, _ topology.Capacity, _ string) { all.Set(m.ID, s.holders(m.ID)) })
	answer, waits := policy.Explain(s.view.Tree(), s.queue, job, all)
	return answer, waits && answer.Refusal != nil && s.states.In(schedulerLeading)
}

// Room returns the tree that the Scheduler plans with, and the holders on each node. Checks compare it with the Mirror.
func (s *teller) Room() (*topology.Tree, func(topology.NodeID) []topology.Holder) {
	return s.view.Tree(), s.holders
}

// The rest of this section owns the start estimates for the Mirror, if the planner looks ahead. They cover every job
// with reserved nodes, and the position of the others. The estimates must not slow the pass. They are computed at most
// once a second, and sent only after a change.

// startsTelling records the last estimates that the Mirror received.
type startsTelling struct {
	began bool
	at    actors.Instant // time of the last computation
	told  mirror.StartsShown
	stale bool // the Mirror has dropped one, because its job left the queue
}

// startsEvery is the minimum interval between computations of estimates.
const startsEvery = time.Second

// tellStarts sends the start estimates, now or after the minimum interval.
func (s *teller) tellStarts(ctx actor.Context) {
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

// tellsLater reports whether an update must wait, and schedules it.
func (s *teller) tellsLater(ctx actor.Context, next actors.Instant) bool {
	wait := next.Since(s.p.Clock.Now())
	if wait > 0 && !s.telling.armed {
		s.telling.armed = true
		s.p.Clock.After(wait, ctx.Self(), tellAgain{})
	}
	return wait > 0
}

// startsOf adds the nodes of the jobs without a time limit to the estimates.
func (s *lookahead) startsOf(p policy.Prospects) mirror.StartsShown {
	shown := mirror.StartsShown{Prospects: p, Learned: s.learning.cells.Len() > 0}
	for i := range p.Promises {
		who := p.Promises[i].Endless
		if e := s.jobs[who]; e != nil && e.run != nil {
			shown.Endless = append(shown.Endless, mirror.Endless{Job: who, Node: nodeOf(e.run.nodes, p.Promises[i].Where)})
		}
	}
	return shown
}

// nodeOf returns the first of these nodes that a placement uses.
func nodeOf(nodes []topology.NodeID, where topology.Placement) topology.NodeID {
	at := slices.IndexFunc(where.Slots, func(s topology.Slot) bool { return slices.Contains(nodes, s.Node) })
	if at < 0 {
		return ""
	}
	return where.Slots[at].Node
}

// waitsNoMore notifies the Mirror that a job has left the queue. The Mirror drops its estimate.
func (s *teller) waitsNoMore(ctx actor.Context, job topology.JobID) {
	s.starts.stale = s.starts.stale ||
		slices.ContainsFunc(s.starts.told.Promises, func(p policy.Promise) bool { return p.Job == job })
	ctx.Send(s.peers.Mirror, mirror.WaitsNoMore{Job: job})
	s.tellWants(ctx)
}

// Prospects returns the current estimates of starts. Checks compare them with the Mirror.
func (s *planning) Prospects() (policy.Prospects, bool) {
	if planner, foretells := s.planner.(policy.Foreteller); foretells && s.states.In(schedulerLeading) {
		return planner.Prospects(), true
	}
	return policy.Prospects{}, false
}

// startsBy returns when an attempt that was just admitted has passed its barrier at the latest, including its backfill
// deadline.
func (s *jobTable) startsBy(spec *messages.JobSpec, now actors.Instant, startBy int64) actors.Instant {
	starts := now.Plus(untilStarted(spec, &s.p.Constants))
	if startBy > 0 {
		starts = min(starts, actors.Instant(startBy))
	}
	return starts
}

// The rest of this file owns the reasons of waiting jobs for the Mirror, one per group of jobs. The reasons must not
// slow the pass. A refusal becomes text here, at most once a second for each group, and not in the pass.

// telling records the last reasons that the Mirror received.
type telling struct {
	began    bool
	at       actors.Instant // time of the last check of all groups
	revision uint64         // the view's revision at that time
	armed    bool           // a timer for the next check is set
	aside    string
	scratch  []policy.Reason
}

// tellAgain is the timer of the next check.
type tellAgain struct{}

// reasonEvery is the minimum interval between checks of a group's reason.
const reasonEvery = time.Second

// tellWaiting sends the changes after a pass. New waiting jobs are sent at once with their reason. Other groups follow
// after the minimum interval.
func (s *teller) tellWaiting(ctx actor.Context, joined []policy.Joined) {
	s.tellWants(ctx)
	t := &s.telling
	now := s.p.Clock.Now()
	stale := !t.began || t.revision != s.view.Tree().Revision()
	if !stale && len(joined) == 0 {
		return
	}
	reasons := s.queue.ReasonsOf(joined, t.scratch[:0])
	before := t.aside
	switch {
	case !stale:
	case !t.began || now.Since(t.at) >= reasonEvery:
		reasons = s.queue.Reasons(s.view.Tree(), reasons)
		t.began, t.at, t.revision, t.aside = true, now, s.view.Tree().Revision(), s.outOfService()
	case !t.armed:
		t.armed = true
		s.p.Clock.After(t.at.Plus(reasonEvery).Since(now), ctx.Self(), tellAgain{})
	}
	t.scratch = reasons
	if len(reasons) == 0 && len(joined) == 0 && t.aside == before {
		return
	}
	shown := mirror.WaitingShown{Jobs: slices.Clone(joined), Groups: make([]mirror.GroupReason, 0, len(reasons)),
		Aside: t.aside}
	for i := range reasons {
		shown.Groups = append(shown.Groups, mirror.GroupReason{
			Group: reasons[i].Group, Reason: messages.WhyRefused(&reasons[i].Why), Asked: reasons[i].Asked,
		})
	}
	ctx.Send(s.peers.Mirror, shown)
}

func (s *teller) onTellAgain(ctx actor.Context) {
	s.telling.armed = false
	s.tellWaiting(ctx, nil)
	s.tellStarts(ctx)
}

// outOfService returns how many nodes take no new jobs, such as "2 nodes drained". If there are several causes, it
// returns only the number. The list of nodes shows the causes.
func (s *teller) outOfService() string {
	var counts [len(outageWords)]int
	for _, m := range s.order {
		if m.record == nil || m.record.Removed != nil {
			continue
		}
		kind, _ := m.outage(true)
		counts[kind]++
	}
	closed, how := 0, ""
	for kind, word := range outageWords {
		if n := counts[kind]; n > 0 && word != "" {
			if how = word; closed > 0 {
				how = "unavailable"
			}
			closed += n
		}
	}
	if closed == 0 {
		return ""
	}
	return actors.Counted(closed, "node") + " " + how
}
