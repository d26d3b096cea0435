package mirror

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the progress of jobs, as their tasks report it. Progress is in memory only. A new leader gets it from
// the next heartbeats. No decision depends on it.

// toldEvery is the minimum interval between two events about the progress of one job.
const toldEvery = time.Second

// ProgressShown reports the progress of the attempts on one node. Rack → Mirror.
type ProgressShown struct {
	Node     topology.NodeID
	Progress []*messages.AttemptProgress
}

// gangProgress is the progress of one attempt of a job.
type gangProgress struct {
	token topology.Token
	nodes map[topology.NodeID]nodeProgress
	over  *messages.JobProgress // last progress of an ended job
	told  actors.Instant        // time of the last event; 0: none
	slow  stragglers
}

// nodeProgress is the progress of the ranks on one node.
type nodeProgress struct {
	*messages.AttemptProgress
	changed actors.Instant // last change of a step there, by the leader's clock
}

func (m *Mirror) onProgressShown(ctx actor.Context, shown ProgressShown) {
	for _, p := range shown.Progress {
		s, ok := m.jobs.get(p.GetJob())
		token := messages.FromToken(p.GetToken())
		a := s.GetAttempt()
		if !ok || a == nil || messages.FromToken(a.GetToken()) != token || s.GetRecord().GetState().Terminal() {
			continue
		}
		if s.noteUse(shown.Node, token, p.GetUse()) {
			m.jobs.put(p.GetJob(), s)
		}
		m.tellIdle(ctx, s, p.GetUse())
		m.tellUse(ctx, s, m.p.Clock.Now())
		if s.progress == nil && p.GetRanks() == 0 && p.GetGarbage() == 0 && len(p.GetMetrics()) == 0 {
			continue // it only says what the tasks do
		}
		if s.progress == nil {
			s.progress = &gangProgress{token: token, nodes: map[topology.NodeID]nodeProgress{}}
			m.jobs.put(p.GetJob(), s)
		}
		if _, known := s.progress.nodes[shown.Node]; !known && !placed(a, shown.Node) {
			continue
		}
		now := m.p.Clock.Now()
		s.progress.nodes[shown.Node] = nodeProgress{p, now.Plus(-actors.Millis(p.GetAgeMs()))}
		m.watchPaces(ctx, s, now)
		m.tellProgress(ctx, s, now)
	}
}

// placed reports whether an attempt has a rank on a node.
func placed(a *messages.AttemptRecord, node topology.NodeID) bool {
	return slices.ContainsFunc(a.GetPlaces(), func(p *messages.Place) bool { return p.GetNode() == string(node) })
}

// keepProgress drops the progress of earlier attempts. For an ended job it keeps only the last progress.
func (m *Mirror) keepProgress(s *shownJob) {
	p := s.progress
	switch {
	case p == nil:
	case messages.FromToken(s.GetAttempt().GetToken()) != p.token:
		s.progress = nil
	case s.GetRecord().GetState().Terminal() && p.over == nil:
		over := p.sum(m.p.Clock.Now())
		over.LeftMs = 0
		s.progress = &gangProgress{token: p.token, over: over}
	}
}

// sum returns the progress of the gang, which is that of its slowest rank.
func (p *gangProgress) sum(now actors.Instant) *messages.JobProgress {
	if p.over != nil {
		return p.over
	}
	all := &messages.JobProgress{}
	var slowest *messages.AttemptProgress
	var changed actors.Instant
	first := topology.NodeID("")
	for id, n := range p.nodes { //order: the least and the greatest of all, and sums
		all.Garbage = min(all.Garbage+n.Garbage, messages.MaxSteps)
		if len(n.Metrics) > 0 && (first == "" || id < first) {
			first, all.Metrics = id, n.Metrics
		}
		if n.Ranks == 0 {
			continue
		}
		all.Ranks += n.Ranks
		all.MostStep = max(all.MostStep, n.MostStep)
		changed = max(changed, n.changed)
		if slowest == nil || slower(n.AttemptProgress, slowest) {
			slowest = n.AttemptProgress
		}
	}
	if slowest == nil {
		return all
	}
	all.Slow, all.SlowRanks = p.slow.named, int32(p.slow.count)
	all.Step, all.Total, all.MilliRate = slowest.LeastStep, slowest.Total, slowest.MilliRate
	all.ChangedMsAgo = min(max(now.Since(changed).Milliseconds(), 0), messages.MaxDurationMs)
	if left := all.Total - all.Step; all.Total > 0 {
		all.Percent = int32(min(all.Step*100/all.Total, 100)) // a step is at most 1<<53
		all.LeftMs = leftMs(left, all.MilliRate)
	}
	return all
}

// leftMs returns the duration of the given steps at a rate in thousandths of steps a second; 0 means unknown, or no
// steps.
func leftMs(steps, milliRate int64) int64 {
	if steps <= 0 || milliRate <= 0 {
		return 0
	}
	if steps > messages.MaxDurationMs/1_000_000*milliRate {
		return messages.MaxDurationMs
	}
	return steps * 1000 / milliRate * 1000
}

// slower reports whether a decides instead of b: it is behind, or equally far and slower.
func slower(a, b *messages.AttemptProgress) bool {
	if messages.Behind(a, b) || messages.Behind(b, a) {
		return messages.Behind(a, b)
	}
	return a.MilliRate < b.MilliRate || a.MilliRate == b.MilliRate && a.Total < b.Total
}

// progressed returns the present status of a job, with its progress if it has reported any and does not wait.
func (m *Mirror) progressed(s shownJob) *messages.JobStatus {
	now := m.present(s)
	use := s.use.sum(now)
	if s.progress == nil && use == nil || messages.Waits(now.Phase) {
		return now
	}
	status := &messages.JobStatus{
		Record: now.Record, Phase: now.Phase, Reason: now.Reason, ReasonCode: now.ReasonCode, Attempt: now.Attempt,
		Debts: now.Debts, Tasks: now.Tasks, Group: now.Group, Withheld: now.Withheld, Prospect: now.Prospect,
		Counts: now.Counts, Warned: now.Warned, Saving: now.Saving, Stall: now.Stall, Use: use,
	}
	if s.progress != nil {
		status.Progress = s.progress.sum(m.p.Clock.Now())
	}
	return status
}

// tellProgress sends the progress of a job to the watchers that asked for it. Such an event has no text and is not
// kept, because a watcher that returns receives the present state.
func (m *Mirror) tellProgress(ctx actor.Context, s shownJob, now actors.Instant) {
	if (s.progress.told == 0 || now.Since(s.progress.told) >= toldEvery) && m.tellMeasured(ctx, s) {
		s.progress.told = now
	}
}

// tellMeasured sends the progress and the use of a job to the watchers that asked for progress. It reports whether
// there are such watchers.
func (m *Mirror) tellMeasured(ctx actor.Context, s shownJob) bool {
	var e *messages.Event
	for i := range m.watch.watchers {
		w := &m.watch.watchers[i]
		if !w.asked.Progress || !w.asked.Jobs {
			continue
		}
		if e == nil {
			e = m.figure(&messages.Event{Job: listed(m.progressed(s))})
		}
		if wants(w.asked, e) {
			ctx.Send(w.pid, e)
		}
	}
	return e != nil
}
