package scheduler

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/mirror"
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
func (s *Scheduler) showRooms(ctx actor.Context) {
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
func (s *Scheduler) holders(n topology.NodeID) []topology.Holder {
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
func (s *Scheduler) unqueue(ctx actor.Context, job topology.JobID) {
	if s.queue.Remove(job) {
		if _, foretells := s.planner.(policy.Foreteller); foretells {
			s.plan(ctx) // what was kept for it is others' now, and so is its turn
		}
		s.waitsNoMore(ctx, job)
	}
}

// Explain is what the Scheduler itself would answer to why a job waits; false where it is not in its queue, there is
// room for it, or nothing is planned yet. It is for whoever checks what the Mirror answers: it takes long.
func (s *Scheduler) Explain(job topology.JobID) (string, bool) {
	all := topology.NewHolders()
	s.view.Fabric().Walk(func(m topology.Machine, _ topology.Capacity, _ string) { all.Set(m.ID, s.holders(m.ID)) })
	answer, waits := policy.Explain(s.view.Fabric(), s.queue, job, all)
	answer.NowNs = int64(s.p.Clock.Now())
	return answer.String(), waits && answer.Refusal != nil && s.states.In(schedulerLeading)
}

// Room is what the Scheduler plans with, and who has the rest: for whoever checks what the Mirror knows of it.
func (s *Scheduler) Room() (*topology.Fabric, func(topology.NodeID) []topology.Holder) {
	return s.view.Fabric(), s.holders
}
