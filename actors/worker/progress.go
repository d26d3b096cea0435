package worker

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file owns the reports of the tasks' progress to the leader. Heartbeats carry the progress, and a leader of an
// earlier version ignores it. An attempt's progress is sent at most once per progressEvery, if it has changed or the
// leader may lack it. Progress is never on disk, and no decision depends on it.

// progressEvery is the minimum interval between two reports of the progress of one attempt.
const progressEvery = 5 * time.Second

// earlyEvery is the minimum interval between two heartbeats that are sent early because of progress.
const earlyEvery = time.Second

type progressDue struct{}

// progressSent records when the progress of an allocation was sent to the leader.
type progressSent struct {
	changed bool           // changed after the last report
	urgent  bool           // a rank began or ended to make no progress after the last report
	seq     uint64         // the last heartbeat that carried it, until its acknowledgement; 0: acknowledged
	at      actors.Instant // time of the last report; 0: none
}

// due reports whether the progress must be sent now.
func (p *progressSent) due(now actors.Instant) bool {
	every := progressEvery
	if p.urgent {
		every = earlyEvery
	}
	return (p.changed || p.seq > 0) && (p.at == 0 || now.Since(p.at) >= every)
}

// onRankProgress records the progress of a rank. An early heartbeat carries it if it is due. Otherwise a later
// heartbeat does.
func (n *Node) onRankProgress(ctx actor.Context, m rankProgress) {
	s := n.slices[m.key.Token]
	if s == nil || m.told.Validate() != nil {
		n.p.Host.Count("node.no_progress", 1)
		return
	}
	r := s.rank(m.key.Rank)
	if r == nil || r.exit != nil {
		return
	}
	before := r.progress
	was, first := quiet(before), before == nil
	r.progress, s.progress.changed = m.told, true
	s.progress.urgent = s.progress.urgent || was != quiet(m.told)
	if first && m.told.ChangedNs == 0 && !quiet(m.told) {
		return // the next regular heartbeat carries that the task works
	}
	if onlyUses(before, m.told) {
		return // the next regular heartbeat carries it
	}
	if s.progress.due(n.p.Clock.Now()) {
		n.beatEarly(ctx)
	}
}

// onlyUses reports whether only the use has changed since the last progress of a rank.
func onlyUses(was, is *messages.TaskProgress) bool {
	return was != nil && was.Use != is.Use && was.Step == is.Step && was.ChangedNs == is.ChangedNs &&
		was.Garbage == is.Garbage && quiet(was) == quiet(is)
}

// quiet reports whether a rank makes no progress, as far as that is known.
func quiet(t *messages.TaskProgress) bool {
	return t.GetState().GetLate() || t.GetState().GetQuietNs() > 0
}

// beatEarly sends a heartbeat before the regular time, at most once per earlyEvery. Attempts that report at nearly the
// same time share one heartbeat.
func (n *Node) beatEarly(ctx actor.Context) {
	now := n.p.Clock.Now()
	switch wait := earlyEvery - now.Since(n.pulse.early); {
	case !n.states.In(nodeMember):
	case n.pulse.early == 0 || wait <= 0:
		n.pulse.early = now
		n.beat(ctx)
	case !n.pulse.earlyArmed:
		n.pulse.earlyArmed = true
		n.p.Clock.After(wait, ctx.Self(), progressDue{})
	}
}

// onProgressDue sends the progress that waited for earlyEvery to pass, unless a heartbeat has carried it already.
func (n *Node) onProgressDue(ctx actor.Context) {
	n.pulse.earlyArmed = false
	now := n.p.Clock.Now()
	for _, l := range n.ledger.Allocations() {
		if p := &n.slices[l.Token].progress; p.changed && p.due(now) {
			n.beatEarly(ctx)
			return
		}
	}
}

// progressReport returns the progress of the allocations that are due, for the heartbeat that is being sent.
func (n *Node) progressReport() (all []*messages.AttemptProgress) {
	now := n.p.Clock.Now()
	for _, l := range n.ledger.Allocations() {
		s := n.slices[l.Token]
		if !s.progress.due(now) || len(all) == messages.MaxProgresses {
			continue
		}
		all = append(all, s.progressOf(now))
		s.progress = progressSent{seq: n.pulse.seq, at: now}
	}
	return all
}

// progressAcked records that the leader has received the progress that was sent with heartbeat seq.
func (n *Node) progressAcked(seq uint64) {
	for _, l := range n.ledger.Allocations() {
		if p := &n.slices[l.Token].progress; p.seq > 0 && p.seq <= seq {
			p.seq = 0
		}
	}
}

// repeatProgress makes the next heartbeat carry all progress, for a leader that has none.
func (n *Node) repeatProgress() {
	for _, l := range n.ledger.Allocations() {
		s := n.slices[l.Token]
		s.progress = progressSent{}
		for i := range s.ranks {
			s.progress.changed = s.progress.changed || s.ranks[i].progress != nil
		}
	}
}

// progressOf returns the progress of the ranks of an allocation.
func (s *nodeAllocation) progressOf(now actors.Instant) *messages.AttemptProgress {
	p := &messages.AttemptProgress{Token: s.wire, Job: string(s.page.Job), SentNs: max(int64(now), 0)}
	var slowest *messages.TaskProgress
	var changed int64
	for i := range s.ranks {
		t := s.ranks[i].progress
		if t == nil {
			continue
		}
		switch {
		case s.ranks[i].exit != nil:
		case quiet(t):
			p.Quiet = append(p.Quiet, t.State)
		case t.State != nil:
			p.Active++
			if t.State.Reports {
				p.OnTime++
			}
		}
		p.Use = p.Use.Plus(s.ranks[i].use())
		p.Garbage = min(p.Garbage+t.Garbage, messages.MaxSteps)
		if len(p.Metrics) == 0 {
			p.Metrics = t.Metrics
		}
		if t.ChangedNs == 0 {
			continue // no step yet
		}
		p.Ranks, changed = p.Ranks+1, max(changed, t.ChangedNs)
		if t.Pace != nil && s.ranks[i].exit == nil && len(p.Paces) < messages.MaxPaces {
			p.Paces = append(p.Paces, &messages.RankPace{
				Rank: int32(s.ranks[i].rank), Step: t.Pace.Step, StepUs: t.Pace.StepUs, WorkUs: t.Pace.WorkUs,
			})
		}
		p.MostStep = max(p.MostStep, t.Step)
		if slowest == nil || messages.Behind(t, slowest) {
			slowest = t
		}
	}
	if slowest != nil {
		p.LeastStep, p.Total, p.MilliRate = slowest.Step, slowest.Total, slowest.MilliRate
		p.AgeMs = min(max(now.Since(actors.Instant(changed)).Milliseconds(), 0), messages.MaxDurationMs)
	}
	return p
}

// use returns what a rank uses. A rank that has ended has used its totals, and uses nothing any more. It does not keep
// the others from being idle.
func (r *nodeRank) use() *messages.Use {
	u := r.progress.GetUse()
	if u == nil || r.exit == nil {
		return u
	}
	return &messages.Use{
		CpuMs: max(u.CpuMs, r.exit.CpuMs), PeakMemoryBytes: max(u.PeakMemoryBytes, r.exit.PeakMemoryBytes),
		DiskBytes: u.DiskBytes, NetworkBytes: u.NetworkBytes, IdleMs: messages.MaxDurationMs,
	}
}
