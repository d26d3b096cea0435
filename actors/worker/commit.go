package worker

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns phase two on the node: a reservation becomes durable, the image and the root filesystem are prepared,
// and the tasks start after the barrier. Each message and each start waits for the disk. The function settle in
// slice.go ensures this.

func (n *Node) onCommit(ctx actor.Context, m *messages.Commit) {
	token, job := subject(m.Order)
	n.expire()
	s := n.slices[token]
	switch {
	case m.Spec == nil:
		n.p.Host.Count("node.malformed", 1)
	case s == nil && m.Inherited != nil:
		n.inherit(ctx, token, job, m)
	case s == nil:
		n.refuseUnknown(ctx, token, job)
	case s.shown == topology.AllocationReserved && n.hindered() != "":
		// The reservation remains, or its save is still pending. In doubt, the leader ends the attempt with Stop.
		n.refuse(ctx, token, job, messages.RefusalReason_REFUSAL_REASON_DISK, "%s", n.hindered())
	case s.page.State == topology.AllocationReserved:
		s.spec, s.uid, s.owner, s.proven = m.Spec, m.Uid, m.Owner, m.OwnerProven
		s.inherited = asFresh(m.Inherited)
		n.ledger.Commit(token)
		n.changed(s)
	default:
		n.answer(ctx, s)
	}
}

// refuseUnknown answers a Commit or Start for which there is no allocation. The tombstone keeps the answer true,
// because a later Reserve of the token is refused. Expired states that the token never ran. The Node does not know this
// of a forgotten token: a restored store may ask for it long after its end.
func (n *Node) refuseUnknown(ctx actor.Context, t topology.Token, job topology.JobID) {
	switch n.ledger.Past(t) {
	case topology.PastRan, topology.PastForgotten:
		n.tell(ctx, job, &messages.Ended{Origin: n.origin(t, job)})
	default:
		n.drop(t)
		n.tell(ctx, job, &messages.Expired{Origin: n.origin(t, job)})
	}
}

// onStart handles the end of the barrier. Its record is on disk before any task starts. If the allocation is not
// prepared yet, the leader must send Start again.
func (n *Node) onStart(ctx actor.Context, m *messages.Start) {
	token, job := subject(m.Order)
	s := n.slices[token]
	if s == nil {
		n.refuseUnknown(ctx, token, job)
		return
	}
	switch s.page.State {
	case topology.AllocationPrepared:
		if n.health.GetUnwell() != "" && !s.despite { // the node may have been unhealthy when this agent started
			n.spoil(ctx, s)
		}
		if s.unhealthy != "" {
			n.p.Host.Count("node.start_while_unwell", 1)
			return // its Tasks are being stopped
		}
		if !n.sworn() {
			n.p.Host.Count("node.start_before_oath", 1)
			return
		}
		if meet := n.gather(ctx, s, m); meet != nil {
			m.Rendezvous, s.start = meet, m // the Start belongs to this Node; its shared parts stay as they are
			n.ledger.Start(token)
			n.changed(s)
		}
	case topology.AllocationStarted:
		if s.startedShown {
			n.tellStarted(ctx, s)
		}
		n.tellExits(ctx, s)
	case topology.AllocationEnded:
		n.answer(ctx, s)
	default:
		n.p.Host.Count("node.start_too_early", 1)
	}
}

func (n *Node) onRankPrepared(ctx actor.Context, m rankPrepared) {
	s := n.slices[m.key.Token]
	if s == nil {
		return
	}
	r := s.rank(m.key.Rank)
	r.prepared = true
	n.forgetBequest(ctx, s, r)
	n.reached(ctx, s)
}

// reached reports Prepared after the last rank is prepared.
func (n *Node) reached(ctx actor.Context, s *nodeAllocation) {
	if s.page.State == topology.AllocationCommitted && s.allPrepared() {
		n.ledger.Prepare(s.page.Token)
	}
	n.settle(ctx, s)
}

func (n *Node) onRankStarted(ctx actor.Context, m rankStarted) {
	s := n.slices[m.key.Token]
	if s == nil {
		return
	}
	r := s.rank(m.key.Rank)
	r.started, r.adopting, r.began = true, false, m.began
	n.reached(ctx, s)
	n.adopted(ctx)
}

// roster holds the received part of a gang's list of nodes.
type roster struct {
	digest uint64
	data   []byte
}

// gather returns the rendezvous with the complete list of members. If a part is missing, gather asks the leader for it
// and returns nil. A repeated Start carries no list, so only gather notices that a part was lost or went to an earlier
// agent. The list stays packed, because the Node only passes it on.
func (n *Node) gather(ctx actor.Context, s *nodeAllocation, m *messages.Start) *messages.Rendezvous {
	r := m.Roster
	if r == nil {
		return m.Rendezvous // the leader is of an earlier version, or takes this agent for one
	}
	if s.roster.digest != r.Digest {
		s.roster = roster{digest: r.Digest}
	}
	list, from := s.roster.data, int(r.OffsetBytes)
	switch {
	case len(list) == 0 && from == 0:
		list = r.Data
	case from <= len(list) && from+len(r.Data) > len(list):
		list = append(list, r.Data[len(list)-from:]...)
	}
	if len(list) < int(r.SizeBytes) {
		s.roster.data = slices.Clip(list) // clipped, so that an append does not write to the received message
		n.tell(ctx, s.page.Job, &messages.Lacking{Origin: n.origin(s.page.Token, s.page.Job), Digest: r.Digest,
			HaveBytes: int32(len(list))})
		return nil
	}
	s.roster = roster{}
	if messages.RosterDigest(list) != r.Digest {
		n.p.Host.Count("node.malformed", 1) // gathering begins again with the next Start
		return nil
	}
	return &messages.Rendezvous{Address: m.Rendezvous.GetAddress(), Port: m.Rendezvous.GetPort(), Roster: list}
}
