package worker

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns phase one on the node: reservations. They exist in memory only and expire. If an agent restart loses a
// reservation, the later Commit is refused. Phase one therefore needs no disk.

// nodeAllocations limits the allocations in a node's ledger.
const nodeAllocations = 4096

type expiryDue struct{ At actors.Instant }

func (n *Node) onReserve(ctx actor.Context, m *messages.Reserve) {
	token, job := subject(m.Order)
	n.expire()
	if s := n.slices[token]; s != nil {
		n.answer(ctx, s)
		return
	}
	past := n.ledger.Past(token)
	switch {
	case past == topology.PastRan:
		n.tell(ctx, job, &messages.Ended{Origin: n.origin(token, job)})
	case past.Over():
		n.refuse(ctx, token, job, messages.RefusalReason_REFUSAL_REASON_OVER, "attempt has already ended on this node")
	case n.hindered() != "":
		n.refuse(ctx, token, job, messages.RefusalReason_REFUSAL_REASON_DISK, "%s", n.hindered())
	case n.unfit(m.DespiteUnwell) != "":
		n.refuse(ctx, token, job, messages.RefusalReason_REFUSAL_REASON_CLOSED, "%s", n.unfit(m.DespiteUnwell))
	case len(n.slices) >= nodeAllocations:
		n.refuse(ctx, token, job, messages.RefusalReason_REFUSAL_REASON_CLOSED, "node already has %d allocations",
			len(n.slices))
	default:
		n.reserve(ctx, token, job, m)
	}
}

func (n *Node) reserve(ctx actor.Context, token topology.Token, job topology.JobID, m *messages.Reserve) {
	ttl := time.Duration(min(max(m.TtlMs, 0), n.p.Constants.TombstoneAge.Milliseconds())) * time.Millisecond
	claim := topology.Claim{Token: token, Job: job, GPUType: m.GpuType, WantPort: m.Rendezvous, TTLNs: ttl.Nanoseconds()}
	for _, w := range m.Members {
		claim.Members = append(claim.Members, topology.Member{
			Rank: topology.Rank(w.GetRank()), Amount: messages.FromResources(w.GetAmount()),
		})
	}
	slice, short := n.ledger.Reserve(claim, n.now())
	if short != nil {
		n.refuse(ctx, token, job, reasonOf(short), "%s", short.Detail)
		return
	}
	s := n.newAllocation(slice)
	s.reserved, s.despite = n.p.Clock.Now(), m.DespiteUnwell
	n.slices[token] = s
	n.tellReserved(ctx, s)
}

func reasonOf(s *topology.Shortage) messages.RefusalReason {
	switch s.Lack {
	case topology.LackGPUType:
		return messages.RefusalReason_REFUSAL_REASON_GPU_TYPE
	case topology.LackSense:
		return messages.RefusalReason_REFUSAL_REASON_MALFORMED
	default:
		return messages.RefusalReason_REFUSAL_REASON_SHORTAGE
	}
}

func (n *Node) tellReserved(ctx actor.Context, s *nodeAllocation) {
	n.tell(ctx, s.page.Job, &messages.Reserved{
		Origin: n.origin(s.page.Token, s.page.Job), Address: n.p.Announcement.GetAddress(),
		RendezvousPort: s.page.Port, Grants: s.grants,
	})
}

// onAbort ends a reservation. A committed allocation cannot be aborted, and the answer reports its state.
func (n *Node) onAbort(ctx actor.Context, m *messages.Abort) {
	token, job := subject(m.Order)
	if s := n.slices[token]; s != nil && s.page.State != topology.AllocationReserved {
		n.p.Host.Count("node.abort_after_commit", 1)
		n.answer(ctx, s)
		return
	}
	if n.ledger.Past(token) == topology.PastRan {
		// A leader with an older view may abort an attempt that has ended. The answer Aborted would contradict earlier
		// messages.
		n.tell(ctx, job, &messages.Ended{Origin: n.origin(token, job)})
		return
	}
	n.drop(token)
	n.tell(ctx, job, &messages.Aborted{Origin: n.origin(token, job)})
}

// drop frees a reservation, if there is one. In any case it leaves a tombstone, because a Reserve or Commit of the
// token may still be on its way.
func (n *Node) drop(t topology.Token) {
	n.ledger.Abort(t, n.now())
	delete(n.slices, t)
}

// expire ends the expired reservations. It is also called before a command is handled, because the timer's message may
// still wait in the mailbox.
func (n *Node) expire() {
	if _, any := n.ledger.NextExpiry(); !any {
		return
	}
	for _, t := range n.ledger.Expire(n.now()) {
		delete(n.slices, t)
	}
}

func (n *Node) onExpiryDue(m expiryDue) {
	if m.At == n.expiryAt {
		n.expiryAt = 0
	}
	n.expire()
}

// armExpiry keeps one timer for the earliest reservation. A timer cannot be cancelled. If it fires too early, it finds
// nothing and schedules the next one. The next delay is never zero, so a clock slightly behind its timers costs a
// millisecond but no busy loop.
func (n *Node) armExpiry(ctx actor.Context) {
	next, any := n.ledger.NextExpiry()
	if at := actors.Instant(next); any && (n.expiryAt == 0 || at < n.expiryAt) {
		n.expiryAt = at
		n.p.Clock.After(max(at.Since(n.p.Clock.Now()), time.Millisecond), ctx.Self(), expiryDue{at})
	}
}

// onGpuFaulted takes a device out of service. A reservation of the device ends as if it had expired. The leader stops a
// running allocation when it sees the device in the report.
func (n *Node) onGpuFaulted(m *messages.GpuFaulted) {
	id := topology.GPUID(m.GpuId)
	var reserved []topology.Token
	for _, s := range n.ledger.Allocations() {
		if s.State == topology.AllocationReserved && s.HoldsGPU(id) {
			reserved = append(reserved, s.Token)
		}
	}
	for _, t := range reserved {
		n.drop(t)
	}
	if n.ledger.Withdraw(id) {
		n.p.Log.Info("GPU %s is withdrawn: %s", id, m.Detail)
		n.change()
	} else {
		n.p.Host.Count("node.gpu_fault_again", 1)
	}
}
