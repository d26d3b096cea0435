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

// This file owns what the Mirror is told so that it answers why a job waits as the Scheduler would: what each machine
// has free, who has the rest and what is kept there. Such an answer takes long, and nobody who asks may keep a gang
// from starting. What changed is told a tenth of a second after the last telling at the earliest, each machine once.

// showing is how far the Mirror has been told.
type showing struct {
	at    actors.Instant // the last time
	began bool
	armed bool // a timer for the next one is set
}

// showAgain is the timer of the next telling.
type showAgain struct{}

// roomsEvery is how often the Mirror is told at most.
const roomsEvery = 100 * time.Millisecond

// showRooms tells what has changed, now or as soon as it may. It is called after every message.
func (s *teller) showRooms(ctx actor.Context) {
	t, fabric := &s.showing, s.view.Fabric()
	if t.armed || !fabric.Untold() {
		return
	}
	now := s.p.Clock.Now()
	if wait := t.at.Plus(roomsEvery).Since(now); t.began && wait > 0 {
		t.armed = true
		s.p.Clock.After(wait, ctx.Self(), showAgain{})
		return
	}
	t.began, t.at = true, now
	shown := mirror.RoomsShown{Changes: fabric.Tell()}
	shown.Holders = make([][]topology.Holder, len(shown.Machines))
	for i := range shown.Machines {
		shown.Holders[i] = s.holders(shown.Machines[i].ID)
	}
	ctx.Send(s.peers.Mirror, shown)
}

// holders tells who has something on a machine.
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

// unqueue takes a job out of the queue that does not start, and tells the Mirror that nobody waits behind it any more.
func (s *teller) unqueue(ctx actor.Context, job topology.JobID) {
	if s.queue.Remove(job) {
		if _, foretells := s.planner.(policy.Foreteller); foretells {
			s.plan(ctx) // what was kept for it is others' now, and so is its turn
		}
		s.waitsNoMore(ctx, job)
	}
}

// Explain returns the Scheduler's own reason why a job waits. It returns false if the job is not in the queue, if there
// is room for it, or if nothing is planned yet. Only checks of the Mirror's answers call it, because it is slow.
func (s *teller) Explain(job topology.JobID) (string, bool) {
	all := topology.NewHolders()
	s.view.Fabric().Walk(func(m topology.Machine, _ topology.Capacity, _ string) { all.Set(m.ID, s.holders(m.ID)) })
	answer, waits := policy.Explain(s.view.Fabric(), s.queue, job, all)
	answer.NowNs = int64(s.p.Clock.Now())
	return answer.String(), waits && answer.Refusal != nil && s.states.In(schedulerLeading)
}

// Room returns the tree that the Scheduler plans with, and the holders on each node. Checks compare it with the Mirror.
func (s *teller) Room() (*topology.Fabric, func(topology.NodeID) []topology.Holder) {
	return s.view.Fabric(), s.holders
}

// What follows owns that people see when each job starts, as far as a planner that looks ahead can say: the Mirror is
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

// tellsLater reports whether something is not to be told again yet, and sees to it that it is looked at then.
func (s *teller) tellsLater(ctx actor.Context, next actors.Instant) bool {
	wait := next.Since(s.p.Clock.Now())
	if wait > 0 && !s.telling.armed {
		s.telling.armed = true
		s.p.Clock.After(wait, ctx.Self(), tellAgain{})
	}
	return wait > 0
}

// startsOf names where those are that have no end.
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

// nodeOf is the first of these machines that is in a place.
func nodeOf(nodes []topology.NodeID, where topology.Placement) topology.NodeID {
	at := slices.IndexFunc(where.Slots, func(s topology.Slot) bool { return slices.Contains(nodes, s.Node) })
	if at < 0 {
		return ""
	}
	return where.Slots[at].Node
}

// waitsNoMore tells the Mirror that a job has left the queue; what it was told of the time is dropped there.
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

// startsBy is when an attempt that was just admitted has passed its barrier at the latest, by what it was lent.
func (s *jobTable) startsBy(spec *messages.JobSpec, now actors.Instant, startBy int64) actors.Instant {
	starts := now.Plus(untilStarted(spec, &s.p.Constants))
	if startBy > 0 {
		starts = min(starts, actors.Instant(startBy))
	}
	return starts
}

// What follows owns that people see why each job waits, without asking: the Mirror is told of every group of waiting
// jobs. It must never cost the pass anything: a refusal is put into words here, at most once a second for each group,
// and not where it is made.

// telling is how far the Mirror has been told.
type telling struct {
	began    bool
	at       actors.Instant // when all groups were looked at last
	revision uint64         // of the view then
	armed    bool           // a timer for the next look is set
	aside    string
	scratch  []policy.Reason
}

// tellAgain is the timer of the next look.
type tellAgain struct{}

// reasonEvery is how often a group's reason is looked at, and told where it changed.
const reasonEvery = time.Second

// tellWaiting tells what is new after a pass. Jobs that have just begun to wait
// are told of at once, with their reason; other groups a second after the last time.
func (s *teller) tellWaiting(ctx actor.Context, joined []policy.Joined) {
	s.tellWants(ctx)
	t := &s.telling
	now := s.p.Clock.Now()
	stale := !t.began || t.revision != s.view.Fabric().Revision()
	if !stale && len(joined) == 0 {
		return
	}
	reasons := s.queue.ReasonsOf(joined, t.scratch[:0])
	before := t.aside
	switch {
	case !stale:
	case !t.began || now.Since(t.at) >= reasonEvery:
		reasons = s.queue.Reasons(s.view.Fabric(), reasons)
		t.began, t.at, t.revision, t.aside = true, now, s.view.Fabric().Revision(), s.outOfService()
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

// outOfService says how many nodes take no new jobs, in a few words: "2 nodes drained". If there are several causes, it
// only counts the nodes. The list of nodes names them.
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
