package scheduler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/queues"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// This file owns the queue configuration of a cluster. It is one record, which is on disk before it is acknowledged or
// used, and which the next leader continues to use. Package policy applies it. A changed configuration never stops a
// running job.

// described holds the queues that are on disk.
type described struct {
	record  *messages.QueuesRecord // nil: none are configured, and every name is a queue
	tree    *share.Queues          // the same, as the planner uses it
	writing *applying
}

// applying is a configuration on its way to disk, and the tag of its write.
type applying struct {
	record *messages.QueuesRecord
	reply  *messages.ApplyQueuesReply
	asker  *actor.PID
}

// onApplyQueues accepts a valid configuration that is based on the revision on disk. If a client repeats an applied
// request, it gets the same answer.
func (s *shares) onApplyQueues(ctx actor.Context, m *messages.ApplyQueues) {
	if no := s.queuesRefused(m); no != nil {
		ctx.Respond(&messages.ApplyQueuesReply{Outcome: no, Revision: s.queues.record.GetRevision()})
		return
	}
	was := s.queues.record
	reply := &messages.ApplyQueuesReply{
		Outcome: messages.OK(), Revision: was.GetRevision() + 1, Closed: s.closedBy(m.Queues),
	}
	if was != nil && proto.Equal(was.Queues, m.Queues) {
		reply.Revision, reply.Unchanged = was.Revision, true
	}
	if reply.Unchanged || m.DryRun {
		ctx.Respond(reply)
		return
	}
	s.lives++
	w := &applying{reply: reply, asker: ctx.Sender(), record: &messages.QueuesRecord{
		WrittenBy: &messages.Token{Epoch: s.p.Epoch, Counter: s.lives << 32}, Revision: reply.Revision, Queues: m.Queues,
		Applied: &messages.Deed{By: m.Principal, AtUnixMs: s.p.Clock.WallMs()},
	}}
	s.queues.writing = w
	ctx.Request(s.peers.Journal, protocol.Write{Lane: protocol.LaneDecisions, Tag: w,
		Change: actors.Change{Queues: w.record}})
}

// queuesRefused returns the refusal of a configuration. It returns nil if the configuration is accepted.
func (s *shares) queuesRefused(m *messages.ApplyQueues) *messages.Outcome {
	switch {
	case s.states.In(schedulerLoading):
		return &messages.Outcome{
			Code: messages.Code_CODE_UNAVAILABLE, Text: "this leader has just taken over and is not ready",
			Hint: "try again in a few seconds",
		}
	case s.queues.writing != nil:
		return &messages.Outcome{
			Code: messages.Code_CODE_UNAVAILABLE, Text: "another queue configuration is being applied",
			Hint: "try again in a few seconds",
		}
	}
	if err := m.Validate(); err != nil {
		return invalidSubmit(err).Outcome
	}
	if wrong := queues.From(m.Queues, 0).Check(); len(wrong) > 0 {
		return &messages.Outcome{
			Code: messages.Code_CODE_INVALID, Field: "queues", Text: messages.AsText(wrong[0].Error()), Hint: wrong[0].Hint,
		}
	}
	if _, is := s.sharer(); !is {
		return &messages.Outcome{
			Code: messages.Code_CODE_NOT_ALLOWED, Field: "queues",
			Text: "queues are not supported by the policy of this cluster",
		}
	}
	same := proto.Equal(s.queues.record.GetQueues(), m.Queues)
	if has := s.queues.record.GetRevision(); m.Revision != 0 && m.Revision != has && !same {
		return conflictingQueues(m.Revision, has)
	}
	return nil
}

// closedBy returns the queues that have jobs and are not in the configuration.
func (s *shares) closedBy(q *messages.Queues) []string {
	closed := map[string]bool{}
	for _, e := range s.jobs { //order: a set, sorted below
		name := cmp.Or(e.rec.GetSpec().GetQueue(), q.Default)
		if !slices.ContainsFunc(q.Queues, func(s *messages.QueueSpec) bool { return s.Name == name }) {
			closed[cmp.Or(name, "-")] = true
		}
	}
	return slices.Sorted(maps.Keys(closed))
}

// onQueuesWritten applies a configuration that is on disk.
func (s *shares) onQueuesWritten(ctx actor.Context, w *applying, m protocol.Written) {
	s.queues.writing = nil
	if m.Verdict != actors.Done {
		w.reply = &messages.ApplyQueuesReply{Revision: s.queues.record.GetRevision(), Outcome: &messages.Outcome{
			Code: messages.Code_CODE_UNAVAILABLE, Text: "queue configuration was rejected by the store",
			Hint: "read the scheduler's log",
		}}
	} else {
		first := s.queues.tree == nil
		s.goBy(ctx, w.record)
		if first {
			s.occupy()
		}
		s.p.Log.Info("Queues applied: revision %d, by %s", w.record.Revision, w.record.Applied.By.GetName())
		s.plan(ctx)
	}
	if w.asker != nil {
		ctx.Send(w.asker, w.reply)
	}
}

// recallQueues continues with the configuration of an earlier leader.
func (s *shares) recallQueues(ctx actor.Context, record *messages.QueuesRecord) {
	if record != nil {
		s.goBy(ctx, record)
	}
}

// uses returns the past usage of all queues, for a next leader.
func (s *shares) uses() (all []*messages.QueueUse) {
	planner, is := s.planner.(policy.Sharer)
	if !is {
		return nil
	}
	for _, u := range planner.Uses(int64(s.p.Clock.Now())) {
		all = append(all, &messages.QueueUse{Queue: u.Queue, Owner: u.Owner, MilliGpuMs: u.Amount})
	}
	return all
}

// recollect continues with the past usage of queues: the stored usage, and the attempts that ended after it was stored.
func (s *shares) recollect(l actors.Loaded) {
	planner, is := s.planner.(policy.Sharer)
	if !is {
		return
	}
	now := int64(s.p.Clock.Now())
	var uses []share.Use
	for _, u := range l.Policy.GetUses() {
		uses = append(uses, share.Use{Queue: u.Queue, Owner: u.Owner, Amount: u.MilliGpuMs})
	}
	planner.Recollect(uses, now)
	for _, e := range l.Unlearned {
		traits := traitsOf(e.Job, s.poolsNow())
		planner.Spent(&traits, int64(actors.Millis(e.Attempt.End.GetRanMs())), now)
	}
}

// goBy applies queues that are on disk.
func (s *shares) goBy(ctx actor.Context, record *messages.QueuesRecord) {
	s.queues.record, s.queues.tree = record, queues.From(record.Queues, record.Revision)
	if planner, is := s.sharer(); is {
		s.planner = planner
		planner.Obey(s.queues.tree)
	}
	ctx.Send(s.peers.Mirror, mirror.QueuesShown{Record: record})
	for _, id := range slices.Sorted(maps.Keys(s.jobs)) {
		s.tellIdle(ctx, s.jobs[id])
	}
}

// tellIdle reports to a job's actor after which idle time its queue wants the tasks to be notified. It applies to jobs
// that run already.
func (s *shares) tellIdle(ctx actor.Context, e *livingJob) {
	if e.pid == nil || !e.rec.GetSpec().IsAnnounced() || e.rec.Spec.Array != nil {
		return
	}
	afterMs, signal := s.queues.record.GetQueues().IdleIn(e.rec.Spec.Queue)
	if !signal {
		afterMs = 0
	}
	if after := actors.Millis(afterMs); after != e.idleAfter {
		e.idleAfter = after
		ctx.Send(e.pid, protocol.SignalIdle{After: after})
	}
}

// sharer returns the planner, if it supports queues. The FIFO planner does not. It is replaced by a planner that
// behaves the same without configured queues.
func (s *shares) sharer() (policy.Sharer, bool) {
	if _, plain := s.planner.(policy.Default); plain {
		return policy.NewJudgement(policy.OnlyFIFO(), s.learning.cells, ends{s.lookahead}), true
	}
	planner, is := s.planner.(policy.Sharer)
	return planner, is
}

// occupy reports the running jobs that the planner did not start. It runs before the first pass, because a queue could
// otherwise get its quota twice.
func (s *shares) occupy() {
	if s.queues.tree == nil {
		return
	}
	planner, is := s.sharer()
	for _, id := range slices.Sorted(maps.Keys(s.jobs)) {
		e := s.jobs[id]
		if r := e.run; is && r != nil && r.over == 0 && !r.ended && (ends{s.lookahead}).Runs(id) {
			planner.Occupies(policy.Holding{
				Job: id, Gang: messages.GangOf(e.rec.Spec), Traits: traitsOf(e.rec, s.poolsNow()), Nodes: each(r.nodes),
				Fixed: e.rec.Spec.GetNotPreemptible(),
				Since: int64(r.began),
			}, int64(s.p.Clock.Now()))
		}
	}
}

// each returns the nodes without duplicates.
func each(nodes []topology.NodeID) []topology.NodeID {
	return slices.Compact(slices.Sorted(slices.Values(nodes)))
}

// conflictingQueues returns the refusal of a configuration that is not based on the revision on disk.
func conflictingQueues(given, has uint64) *messages.Outcome {
	return &messages.Outcome{
		Code: messages.Code_CODE_CONFLICT, Field: "revision",
		Text: fmt.Sprintf("file is based on revision %d, but the cluster has revision %d", given, has),
		Hint: "run `synapse-cli get queues -o yaml` for the current queues",
	}
}
