package worker

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns restarts in place on the node. When the last rank of an allocation has ended, the node can keep the
// resources for the job's next attempt. A Commit that inherits passes them on. Otherwise they become free when the
// leader forgets the allocation or stops it without a hold, when the time is over, or when the node reboots. A kept
// allocation is in state stopping, so a leader of an earlier version stops it again, which frees it.

// keeping is the hold of an allocation after its last exit.
type keeping struct {
	time  time.Duration  // how long the Stop asks to keep it; 0: not at all
	until actors.Instant // when it becomes free; 0: it is not kept
	timed actors.Instant // the end for which there is a timer
	shown bool           // that it is kept is on disk, and was sent or may have been
}

// holdOver is the timer of a hold.
type holdOver struct {
	Token topology.Token
	Until actors.Instant
}

// kept reports whether all ranks have ended and the resources wait for the next attempt.
func (s *nodeAllocation) kept() bool { return s.hold.until != 0 }

// holdOf returns how long a Stop asks to keep the allocation.
func holdOf(s *nodeAllocation, m *messages.Stop) time.Duration {
	if !s.spec.GetRestart().GetInPlace() {
		return 0
	}
	return actors.Millis(min(max(m.HoldMs, 0), messages.MaxDurationMs))
}

// finish frees an allocation after its last exit, or keeps it. An allocation whose ranks all ended by themselves is
// kept although no Stop has come, because the leader may want to restart its gang in place.
func (n *Node) finish(s *nodeAllocation) {
	s.start = nil
	hold := s.hold.time
	if s.page.State == topology.AllocationStarted && s.spec.GetRestart().GetInPlace() {
		hold = n.p.Constants.InPlaceHold
	}
	for i := range s.ranks {
		if !s.ranks[i].exit.Ran() {
			hold = 0
		}
	}
	if hold == 0 {
		n.ledger.End(s.page.Token)
		return
	}
	if s.page.State != topology.AllocationStopping {
		n.ledger.Stop(s.page.Token)
	}
	n.ledger.Renew(s.page.Token)
	s.fixed = nil // the port has changed
	s.hold.until = n.p.Clock.Now().Plus(hold)
}

// awaitHeir schedules the end of a hold.
func (n *Node) awaitHeir(ctx actor.Context, s *nodeAllocation) {
	if s.kept() && s.hold.timed != s.hold.until {
		s.hold.timed = s.hold.until
		left := max(s.hold.until.Since(n.p.Clock.Now()), time.Millisecond)
		n.p.Clock.After(left, ctx.Self(), holdOver{s.page.Token, s.hold.until})
	}
}

func (n *Node) onHoldOver(ctx actor.Context, m holdOver) {
	if s := n.slices[m.Token]; s != nil && s.hold.until == m.Until {
		n.release(ctx, s)
	}
}

// holdAgain handles a further Stop of a kept allocation. The leader may have needed longer than the hold of the first
// one, for example because of a takeover.
func (n *Node) holdAgain(ctx actor.Context, s *nodeAllocation, m *messages.Stop) {
	hold := holdOf(s, m)
	if hold == 0 {
		n.release(ctx, s)
		return
	}
	if until := n.p.Clock.Now().Plus(hold); until.Since(s.hold.until) > hold/4 {
		s.hold.until = until
		n.changed(s)
		n.awaitHeir(ctx, s)
	}
	n.answer(ctx, s)
}

// release frees a kept allocation.
func (n *Node) release(ctx actor.Context, s *nodeAllocation) {
	n.ledger.End(s.page.Token)
	s.hold = keeping{}
	n.changed(s)
	n.settle(ctx, s)
}

// releaseBefore frees the kept allocation of a job if the leader stops a later attempt that never came here.
func (n *Node) releaseBefore(ctx actor.Context, t topology.Token, job topology.JobID) {
	for _, l := range n.ledger.Allocations() {
		if s := n.slices[l.Token]; s.kept() && l.Job == job && l.Token.Less(t) {
			n.release(ctx, s)
			return
		}
	}
}

// inherit passes the resources of a kept allocation to the next attempt of its job. A node that keeps nothing answers
// as for any unknown token.
func (n *Node) inherit(ctx actor.Context, t topology.Token, job topology.JobID, m *messages.Commit) {
	from := messages.FromToken(m.Inherited.From)
	was := n.slices[from]
	switch {
	case n.ledger.Past(t).Over() || was == nil || !was.hold.shown || was.page.Job != job || !from.Less(t) ||
		!was.hasRanks(m.Members):
		n.refuseUnknown(ctx, t, job)
		return
	case n.hindered() != "":
		n.refuse(ctx, t, job, messages.RefusalReason_REFUSAL_REASON_DISK, "%s", n.hindered())
		return
	}
	s := n.newAllocation(n.ledger.Inherit(from, t, n.now()))
	delete(n.slices, from)
	s.spec, s.uid, s.owner, s.proven = m.Spec, m.Uid, m.Owner, m.OwnerProven
	s.inherited, s.shown = m.Inherited, topology.AllocationReserved
	s.reserved, s.despite = n.p.Clock.Now(), was.despite
	n.slices[t] = s
	n.changed(s)
}

// hasRanks reports whether the allocation has exactly these ranks with these amounts.
func (s *nodeAllocation) hasRanks(members []*messages.Member) bool {
	if len(members) != len(s.page.Grants) {
		return false
	}
	for i, g := range s.page.Grants {
		if m := members[i]; topology.Rank(m.GetRank()) != g.Rank || messages.FromResources(m.GetAmount()) != g.Amount {
			return false
		}
	}
	return true
}

// asFresh returns what a node that replaces another one records about a restart in place. It has nothing to take over.
func asFresh(m *messages.Inherited) *messages.Inherited {
	if m == nil {
		return nil
	}
	return &messages.Inherited{From: m.From, Generation: m.Generation, Cause: m.Cause, Rank: m.Rank, Fresh: true}
}

// bequestTo returns the ended task whose files a rank takes over, or nil.
func (s *nodeAllocation) bequestTo(r *nodeRank) *messages.TaskId {
	if s.inherited == nil || s.inherited.Fresh {
		return nil
	}
	return &messages.TaskId{Token: s.inherited.From, Rank: int32(r.rank)}
}

// isBequest reports whether a rank that is not prepared yet takes over the files of this ended task.
func (n *Node) isBequest(key topology.TaskKey) bool {
	for _, l := range n.ledger.Allocations() {
		s := n.slices[l.Token]
		if messages.FromToken(s.inherited.GetFrom()) == key.Token && !s.inherited.Fresh &&
			l.State == topology.AllocationCommitted {
			r := s.rank(key.Rank)
			return r != nil && r.exit == nil
		}
	}
	return false
}

// forgetBequest lets the launcher drop the ended task of a rank that is prepared or has ended.
func (n *Node) forgetBequest(ctx actor.Context, s *nodeAllocation, r *nodeRank) {
	if id := s.bequestTo(r); id != nil {
		n.p.Launcher.Tell(&messages.ForgetTask{Id: id}, ctx.Self())
	}
}

// EachKept visits the kept allocations, for checks.
func (n *Node) EachKept(visit func(t topology.Token, until actors.Instant)) {
	for _, l := range n.ledger.Allocations() {
		if s := n.slices[l.Token]; s.kept() {
			visit(l.Token, s.hold.until)
		}
	}
}
