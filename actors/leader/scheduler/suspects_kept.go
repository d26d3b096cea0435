package scheduler

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/verdict"
	"github.com/yi-json/synapse/topology"
	"github.com/yi-json/synapse/topology/suspicion"
)

// This file owns how the failures that count against nodes reach the next leader. They are a part of the record of the
// run-time statistics. The next leader adds the failures of the attempts that ended after that record. The time without
// a leader does not count, because no steady clock has measured it.

// failuresOfNodes returns the failures for the record.
func (s *nodeTable) failuresOfNodes() (all []*messages.NodeFailures) {
	now := s.p.Clock.Now()
	age := func(at int64) int64 { return now.Since(actors.Instant(at)).Milliseconds() }
	for _, k := range s.suspects.docket.Known() {
		n := &messages.NodeFailures{Node: string(k.Node), LastBackoffMs: k.Rest.Milliseconds()}
		if m := s.machines[k.Node]; m != nil && m.rest.why != "" {
			n.BackoffLeftMs = max(m.rest.ends.Since(now).Milliseconds(), 0)
		}
		for _, f := range k.Failures {
			n.Failures = append(n.Failures, &messages.CountedFailure{
				Attempt: messages.ToToken(f.Attempt), Job: string(f.Job), Owner: f.Owner,
				Class: messages.FailureClass(messages.FailureClass_value[f.Class]), Reason: f.Reason, AtUnixMs: f.WallMs,
				AgeMs: age(f.AtNs),
			})
		}
		all = append(all, n)
	}
	return all
}

// recallSuspects continues with the failures that earlier leaders have counted, after nodes and jobs are restored.
func (s *capacity) recallSuspects(ctx actor.Context, l actors.Loaded) {
	now := s.p.Clock.Now()
	for _, n := range l.Policy.GetNodeFailures() {
		if !s.stillExists(n.Node) {
			continue
		}
		known := suspicion.Known{Node: topology.NodeID(n.Node), Rest: actors.Millis(n.LastBackoffMs)}
		for _, f := range n.Failures {
			known.Failures = append(known.Failures, suspicion.Failure{
				Attempt: messages.FromToken(f.Attempt), Job: topology.JobID(f.Job), Owner: f.Owner, Class: f.Class.String(),
				Reason: f.Reason, AtNs: int64(now) - int64(actors.Millis(f.AgeMs)), WallMs: f.AtUnixMs,
			})
		}
		s.suspects.docket.Recall(known)
		if n.BackoffLeftMs > 0 {
			s.restFor(ctx, s.machines[known.Node], min(actors.Millis(n.BackoffLeftMs), suspicion.MostRest))
		}
	}
	for _, e := range l.Unlearned {
		if a := e.Attempt; verdict.AgainstNode(a) && s.stillExists(a.Verdict.Node) {
			s.suspects.docket.Note(topology.NodeID(a.Verdict.Node), suspicion.Failure{
				Attempt: messages.FromToken(a.Token), Job: topology.JobID(a.Job), Owner: e.Job.GetOwner().GetName(),
				Class: a.Verdict.Class.String(), Reason: a.Verdict.Reason, AtNs: int64(now), WallMs: a.GetEnd().GetAtUnixMs(),
			})
		}
	}
	if len(s.suspects.docket.Known()) > 0 {
		s.tidyLater(ctx)
	}
	s.weighSuspects(ctx)
	for _, m := range slices.Clone(s.suspects.resting) {
		s.refresh(ctx, m)
	}
}

// stillExists reports whether a node has a record, and was not removed.
func (s *nodeTable) stillExists(node string) bool {
	m := s.machines[topology.NodeID(node)]
	return m != nil && m.record != nil && m.record.Removed == nil
}
