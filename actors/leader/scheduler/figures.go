package scheduler

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/goodput"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns what a leader's actors measure for operators, by their process's steady clock. Nothing is decided by
// it.

// TookPass is that of how long a pass took.
const TookPass = "scheduler.pass"

// CountRefused begins the counters of what machines refused, and why.
const CountRefused = "refused."

// refusalName is a refusal's reason as it is counted.
func refusalName(r messages.RefusalReason) string {
	if r == messages.RefusalReason_REFUSAL_REASON_UNSPECIFIED {
		return "silence"
	}
	return actors.WordOf(r.String(), "REFUSAL_REASON_")
}

// outageOf returns the reason why a node is out of service, as its GPUs are counted.
func (m *machine) outageOf() mirror.Outage {
	if m.closed() == "" {
		return mirror.InService
	}
	switch kind, _ := m.outage(false); kind {
	case outageBenched:
		return mirror.Benched
	case outageDead, outageUnheard:
		return mirror.Unreachable
	}
	return mirror.Closed
}

// What follows owns what the Mirror must be told, beside what it shows, to count where GPU time goes: what earlier
// leaders counted, what becomes of what a machine has free, and which GPUs are wanted.

// recallGPUTime hands on what earlier leaders counted, with what has ended since.
func (s *learner) recallGPUTime(ctx actor.Context, l actors.Loaded) {
	r := mirror.GPUTimeRecalled{Time: l.Policy.GetGpuTime(), Ended: l.Unlearned}
	for _, rec := range l.Nodes {
		if rec.Removed != nil {
			r.Removed = append(r.Removed, rec)
		}
	}
	ctx.Send(s.peers.Mirror, r)
}

// freeClass returns the class of a node's free GPUs, as far as the node decides it. A stop of all admissions is not
// counted here.
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
func (s *teller) tellWants(ctx actor.Context) {
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
