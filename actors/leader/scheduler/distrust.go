package scheduler

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what the leader does not believe of a machine. A machine is the
// authority on its own books, and on nothing else: what it says must agree with
// what it announced, with what it was asked, and with itself. One that does not is
// left out by name and, if it goes on, closed; what runs there is left alone, and
// what its members say of their ends still counts. Believed, its word would reach
// other machines by way of the view, or the disk by way of COMMIT.
//
// What only harms its own members is believed, because nothing could be held
// against it: that it has committed, prepared or started, and how a task ended.

// overhaul takes a newer ledger over, and closes the machine while its books
// cannot be true.
func (s *Scheduler) overhaul(ctx actor.Context, m *machine, l *messages.LedgerReport) {
	before := m.untruth
	m.report(l, s.p.Clock.Now())
	s.weighHealth(ctx, m)
	s.acquit(ctx, m)
	s.recant(m)
	if m.untruth = m.doubtful(); m.untruth != "" && m.untruth != before {
		s.disbelieve(ctx, m, m.untruth)
	}
}

// disbelieve leaves a machine out and, after some untruths in a row, closes it:
// trying again would only cost another gang its turn.
func (s *Scheduler) disbelieve(ctx actor.Context, m *machine, why string) {
	s.p.Host.Count("scheduler.untrue", 1)
	m.untrue++
	s.bench(ctx, m, why)
	if m.untrue >= s.p.Constants.LaunchFailures {
		s.close(ctx, m, "its answers cannot be true: "+why)
	}
}

// close cordons a machine in the scheduler's own name.
func (s *Scheduler) close(ctx actor.Context, m *machine, reason string) {
	if m.record != nil && m.record.Cordoned == nil {
		deed := &messages.Deed{By: &messages.Principal{Name: closer}, AtUnixMs: s.p.Clock.WallMs(), Reason: reason}
		s.edit(ctx, m, nodeEdit{change: func(r *messages.NodeRecord) { r.Cordoned = deed }})
	}
}

// doubtful says why the machine's books cannot be true; empty: they can.
func (m *machine) doubtful() string {
	l, a := m.ledger, m.record.GetAnnouncement()
	has, total, free := messages.FromResources(a.GetTotal()), messages.FromResources(l.Total),
		messages.FromResources(l.Free)
	held, ghosts := heldIn(l), len(l.WithdrawnGpus)-actors.OutOfService(a, l)
	most := has.Plus(topology.Resources{MilliGPU: int64(ghosts) * topology.WholeGPU})
	most.MilliCPU, most.MemoryBytes = max(has.MilliCPU, held.MilliCPU), max(has.MemoryBytes, held.MemoryBytes)
	out := topology.Resources{MilliGPU: int64(len(l.WithdrawnGpus)) * topology.WholeGPU}
	var devices int64
	for _, g := range l.FreeGpus {
		devices += g.Milli
		if !actors.Announces(a, g.GpuId) {
			return fmt.Sprintf("it has device %s free, which it never announced", g.GpuId)
		}
	}
	switch {
	case !has.Within(total) || !total.Within(most):
		return fmt.Sprintf("it announced %s, and its books are of %s", amount(has), amount(total))
	case !free.Within(has):
		return fmt.Sprintf("it announced %s, and has %s free", amount(has), amount(free))
	case devices != free.MilliGPU:
		return fmt.Sprintf("it has %d thousandths of devices free, and lists %d", free.MilliGPU, devices)
	case !total.Within(free.Plus(held).Plus(out)):
		return fmt.Sprintf("its books are of %s, and only %s of it are free or given away", amount(total),
			amount(free.Plus(held)))
	}
	return ""
}

// heldIn is what the slices of these books have.
func heldIn(l *messages.LedgerReport) (sum topology.Resources) {
	for _, sl := range l.Slices {
		for _, g := range sl.Grants {
			sum = sum.Plus(messages.FromResources(g.Amount))
		}
	}
	return sum
}

// amount is how much in words.
func amount(r topology.Resources) string {
	return fmt.Sprintf("%d milli-CPU, %d bytes of memory and %d milli-GPU", r.MilliCPU, r.MemoryBytes, r.MilliGPU)
}

// changed reports whether a Hello announces something else than the same start of
// the agent did: what a machine has is read once, when its agent starts.
func (m *machine) changed(h *messages.Hello, known *messages.NodeRecord) bool {
	return messages.SameIncarnation(m.incarnation, h.Origin.Incarnation) &&
		!proto.Equal(known.GetAnnouncement(), h.Announcement)
}

// onStrangeToken: an attempt that this leader never made is no attempt. One of an
// earlier leader may have been told late.
func (s *Scheduler) onStrangeToken(ctx actor.Context, t protocol.StrangeToken) {
	m := s.machines[t.Node]
	if m == nil || !m.up || t.Token.Epoch < s.p.Epoch || s.issued(t.Token) ||
		!messages.SameIncarnation(m.incarnation, t.Incarnation) {
		return
	}
	s.disbelieve(ctx, m, fmt.Sprintf("it speaks of attempt %s, which was never made", t.Token))
	s.refresh(ctx, m)
}

// contradicts reports whether a refusal for want of room came with books that have
// room for all that was asked. It is no untruth, since a port may be what is
// lacking; but nothing in the view would keep the next pass from asking the same again.
func (m *machine) contradicts(t topology.Token) bool {
	asked := m.room.Tenant(t)
	return asked != nil && asked.Amount().Within(messages.FromResources(m.ledger.Free))
}
