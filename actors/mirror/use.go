package mirror

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what running jobs use, as their nodes measure it. It is in memory only, as progress is.

// gangUse holds the use of one attempt of a job, by node.
type gangUse struct {
	token topology.Token
	nodes map[topology.NodeID]*messages.Use
	idle  bool           // an event has reported that the job is idle
	told  actors.Instant // time of the last look for watchers; 0: none
	shown string         // the GPU use that watchers know
}

// useEvery is the minimum interval between two events about the GPU use of one job. Nodes measure over a minute.
const useEvery = 10 * time.Second

// noteUse notes what the tasks of an attempt use on a node. Nodes that run none of its tasks are ignored. It reports
// whether the job had no use before.
func (s *shownJob) noteUse(node topology.NodeID, token topology.Token, use *messages.Use) (first bool) {
	if use == nil || s.use.of(node) == nil && !placed(s.GetAttempt(), node) {
		return false
	}
	if first = s.use == nil; first {
		s.use = &gangUse{token: token, nodes: map[topology.NodeID]*messages.Use{}}
	}
	s.use.nodes[node] = use
	return first
}

func (u *gangUse) of(node topology.NodeID) *messages.Use {
	if u == nil {
		return nil
	}
	return u.nodes[node]
}

// keepUse drops what earlier attempts and ended jobs used. The records of the exits have their totals.
func (s *shownJob) keepUse() {
	if s.use != nil && (messages.FromToken(s.GetAttempt().GetToken()) != s.use.token ||
		s.GetRecord().GetState().Terminal()) {
		s.use = nil
	}
}

// sum returns what a job uses; nil: not measured. A job is idle only if all of its live tasks are known to be idle.
func (u *gangUse) sum(s *messages.JobStatus) *messages.Use {
	if u == nil {
		return nil
	}
	var all *messages.Use
	for _, n := range u.nodes { //order: sums, the greatest and the least
		all = all.Plus(n)
	}
	live := int32(0)
	for _, p := range s.GetAttempt().GetPlaces() {
		if p.GetExit() == nil {
			live++
		}
	}
	if all.GetIdleMs() == 0 || all.Tasks > 0 && all.Tasks >= live {
		return all
	}
	return all.Plus(&messages.Use{}) // a copy that is not idle
}

// tellUse sends a job whose GPU use has changed to the watchers of progress. The sum over a large gang is computed at
// most once per interval, and only if there are such watchers.
func (m *Mirror) tellUse(ctx actor.Context, s shownJob, now actors.Instant) {
	u := s.use
	if u == nil || u.told > 0 && now.Since(u.told) < useEvery || !m.watch.measured() {
		return
	}
	u.told = now
	if words := u.sum(s.JobStatus).GPUWords(); words != u.shown && m.tellMeasured(ctx, s) {
		u.shown = words
	}
}

// tellIdle sends one event when a job has been idle for as long as its queue says, and can send the next one after the
// job has worked.
func (m *Mirror) tellIdle(ctx actor.Context, s shownJob, of *messages.Use) {
	if s.use == nil || of == nil || of.IdleMs < messages.MinIdleAfterMs && !s.use.idle {
		return // the sum over the nodes need not be computed
	}
	after, _ := m.queues.GetQueues().IdleIn(s.GetRecord().GetSpec().GetQueue())
	if of.IdleMs < after && !s.use.idle {
		return
	}
	now := m.progressed(s)
	switch {
	case now.GetUse().GetIdleMs() == 0:
		s.use.idle = false
	case !s.use.idle && messages.Idle(now, after):
		s.use.idle = true
		m.tell(ctx, &messages.Event{Job: listed(now), Text: jobWords(now) + ", idle for " + messages.Span(now.Use.IdleMs) +
			": no GPU activity and no progress, or no process"})
	}
}
