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

// This file owns the durations and counts that a leader's actors measure for operators, by their process's steady
// clock. No decision depends on them.

// TookPass names the distribution of the duration of a pass.
const TookPass = "scheduler.pass"

// CountRefused is the prefix of the counters of refusals by nodes. The reason follows.
const CountRefused = "refused."

// refusalName returns a refusal's reason as used in counters.
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
	case outageBackedOff:
		return mirror.BackedOff
	case outageDead, outageUnheard:
		return mirror.Unreachable
	}
	return mirror.Closed
}

// The rest of this file owns what the Mirror needs to account for GPU time, in addition to what it shows. These are the
// sums of earlier leaders, the class of free GPUs, and the requested GPU types.

// recallGPUTime passes on the sums of earlier leaders and the attempts that have ended after them.
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

// limitLooks limits the waiting jobs that are checked for a queue limit at a time. Jobs beyond it count as not limited.
const limitLooks = 256

// wantsTelling records what the Mirror knows about requested GPU types.
type wantsTelling struct {
	told  goodput.Wants
	began bool
	at    actors.Instant // time of the last check
}

// tellWants sends changes of the GPU types that waiting jobs could use, now or after the minimum interval.
func (s *teller) tellWants(ctx actor.Context) {
	t, now := &s.wants, s.p.Clock.Now()
	if t.began && s.tellsLater(ctx, t.at.Plus(reasonEvery)) {
		return
	}
	t.began, t.at = true, now
	left := limitLooks
	planner, _ := s.planner.(*policy.Judgement)
	var wants goodput.Wants
	wants.Types, wants.Any = s.queue.Wanted(s.view.Tree(), func(job topology.JobID) bool {
		left--
		return planner != nil && left >= 0 && planner.Over(job) != nil
	})
	if !wants.Equal(t.told) {
		t.told = wants
		ctx.Send(s.peers.Mirror, mirror.WantsShown{Wants: wants})
	}
}
