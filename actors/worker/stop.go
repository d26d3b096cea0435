package worker

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the end of an allocation on the node. Its tasks are stopped or end by themselves, evidence is gathered
// rank by rank, and the devices become free with the last exit.

func (n *Node) onStop(ctx actor.Context, m *messages.Stop) {
	token, job := subject(m.Order)
	s := n.slices[token]
	if s == nil || s.page.State == topology.AllocationReserved {
		n.releaseBefore(ctx, token, job)
		n.drop(token)
		n.tell(ctx, job, &messages.Ended{Origin: n.origin(token, job)})
		return
	}
	grace := m.GraceMs
	if grace <= 0 {
		grace = n.p.Constants.StopGrace.Milliseconds()
	}
	signal := m.Signal
	if signal == 0 { // from a leader that sends no signal of the job
		signal = s.spec.GetStop().GetSignal()
	}
	switch s.page.State {
	case topology.AllocationEnded:
		n.answer(ctx, s)
	case topology.AllocationStopping:
		if s.kept() {
			n.holdAgain(ctx, s, m)
			return
		}
		s.hold.time = holdOf(s, m)
		if grace < s.grace {
			n.stopRanks(ctx, s, signal, grace) // the new Stop shortens the grace
		}
		n.answer(ctx, s)
	default:
		s.cause, s.hold.time = m.Cause, holdOf(s, m)
		n.ledger.Stop(token)
		n.change()
		n.stopRanks(ctx, s, signal, grace)
		n.settle(ctx, s)
	}
}

// stopRanks stops every rank that has not ended. A rank without a Task was never passed to the launcher, so no process
// of it can run.
func (n *Node) stopRanks(ctx actor.Context, s *nodeAllocation, signal int32, graceMs int64) {
	s.grace = graceMs
	for i := range s.ranks {
		r := &s.ranks[i]
		switch {
		case r.exit != nil:
		case r.pid != nil:
			ctx.Send(r.pid, taskStop{signal, graceMs})
		default:
			n.forgetBequest(ctx, s, r)
			n.noteExit(s, r, &messages.Exit{
				Rank: int32(r.rank), Kind: messages.ExitKind_EXIT_KIND_NEVER_STARTED, AtUnixMs: n.p.Clock.WallMs(),
			})
		}
	}
}

// onRankGone handles the exit evidence of a Task.
func (n *Node) onRankGone(ctx actor.Context, m rankGone) {
	s := n.slices[m.key.Token]
	if s == nil {
		return
	}
	r := s.rank(m.key.Rank)
	if r.exit != nil {
		return
	}
	ctx.Stop(r.pid)
	r.pid, r.adopting = nil, false
	s.excuseExit(m.exit)
	n.forgetBequest(ctx, s, r)
	r.began = max(r.began, m.began) // an agent that started after the rank did learns the time only now
	n.noteExit(s, r, n.boundText(s, m.exit))
	if m.ended > 0 && m.ended < r.ended {
		r.ended = m.ended // the report came later: the supervisor wrote the exit to disk first
	}
	n.lookInto(ctx, m.exit)
	n.settle(ctx, s)
	n.adopted(ctx)
}

// noteExit records the exit of one rank. After the last exit it frees the resources of the allocation.
func (n *Node) noteExit(s *nodeAllocation, r *nodeRank, exit *messages.Exit) {
	r.exit, r.ended = exit, n.p.Clock.Now()
	n.ledger.Exit(s.page.Token, r.rank)
	n.changed(s)
	if s.page.AllGone() {
		n.finish(s)
	}
	if n.disk.trouble != "" {
		n.excuse(s)
	}
}

// excuse allows exits of ranks that were never started to be sent before they are on disk, while the disk fails.
// Otherwise one full disk would delay the gang's next attempt, and the full disk may be the reason why an image could
// not be unpacked. A Commit or a start is never excused. Nothing is excused while the leader's epoch is not on disk,
// because after a restart an older leader could start the excused ranks.
func (n *Node) excuse(s *nodeAllocation) bool {
	state := s.page.State
	durable := s.shown >= topology.AllocationCommitted && state != topology.AllocationStarted
	if s.unsaved == 0 || !n.sworn() || !durable && state != topology.AllocationEnded || !s.harmless() {
		return false
	}
	s.unsaved = 0
	return true
}

// onForget drops an allocation whose exits are on the leader's disk.
func (n *Node) onForget(ctx actor.Context, m *messages.Forget) {
	token, _ := subject(m.Order)
	s := n.slices[token]
	if s != nil && s.hold.shown {
		n.ledger.End(token)
		s.hold, s.shown = keeping{}, topology.AllocationEnded
	}
	if s == nil || s.shown != topology.AllocationEnded {
		n.p.Host.Count("node.nothing_to_forget", 1)
		return
	}
	n.ledger.Forget(token, n.now())
	delete(n.slices, token)
	n.change()
	for i := range s.ranks {
		n.p.Launcher.Tell(&messages.ForgetTask{Id: s.ranks[i].id}, ctx.Self())
	}
}
