package scheduler

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/goodput"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns what the Mirror must be told, beside what it shows, to count where GPU time goes: what earlier leaders
// counted, what becomes of what a machine has free, and which GPUs are wanted.

// recallGPUTime hands on what earlier leaders counted, with what has ended since.
func (s *Scheduler) recallGPUTime(ctx actor.Context, l actors.Loaded) {
	r := mirror.GPUTimeRecalled{Time: l.Policy.GetGpuTime(), Ended: l.Unlearned}
	for _, rec := range l.Nodes {
		if rec.Removed != nil {
			r.Removed = append(r.Removed, rec)
		}
	}
	ctx.Send(s.peers.Mirror, r)
}

// freeClass is what becomes of what a machine has free, as far as the machine decides it. What stops admission
// everywhere is no fault of a machine's.
func (m *machine) freeClass() goodput.Class {
	kind, _ := m.outage(true)
	switch by := m.record.GetCordoned().GetBy().GetName(); {
	case kind == outageDrained, kind == outageCordoned && by != closer && !m.unread():
		return goodput.Closed
	case kind != outageNone, m.untruth != "", m.doubt != "", m.quarantine() != "":
		return goodput.Broken
	}
	return goodput.Unwanted
}

// limitLooks bounds how many waiting jobs are asked in one look whether a limit stops them. Jobs beyond it count as not
// stopped.
const limitLooks = 256

// wantsTelling is how far the Mirror has been told which GPUs are wanted.
type wantsTelling struct {
	told  goodput.Wants
	began bool
	at    actors.Instant // when that was looked at last
}

// tellWants tells which GPUs waiting jobs could use, where that has changed, now or as soon as it may.
func (s *Scheduler) tellWants(ctx actor.Context) {
	t, now := &s.wants, s.p.Clock.Now()
	if t.began && s.tellsLater(ctx, t.at.Plus(reasonEvery)) {
		return
	}
	t.began, t.at = true, now
	left := limitLooks
	planner, _ := s.planner.(*policy.Judgement)
	var wants goodput.Wants
	wants.Types, wants.Any = s.queue.Wanted(s.view.Fabric(), func(job topology.JobID) bool {
		left--
		return planner != nil && left >= 0 && planner.Over(job) != nil
	})
	if !wants.Equal(t.told) {
		t.told = wants
		ctx.Send(s.peers.Mirror, mirror.WantsShown{Wants: wants})
	}
}
