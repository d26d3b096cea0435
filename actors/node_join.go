package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
)

// This file owns whom the machine follows. The highest epoch ever accepted is on
// disk before the first word to that leader, so that no restart lets an older
// one command again.

// leadHeard is a leader that said Lead and is not accepted yet.
type leadHeard struct {
	epoch uint64
	from  *actor.PID
	needs uint64 // the change that must be on disk first; 0: not noted yet
}

// onLead accepts a leader at least as new as the present one. The same again is
// answered again: its link may have broken and taken our Hello with it.
func (n *Node) onLead(ctx actor.Context, m *messages.Lead) {
	from := ctx.Sender()
	switch {
	case from == nil || m.Epoch == 0:
		n.p.Host.Count("node.malformed", 1)
	case m.Epoch < n.epoch || n.lead != nil && m.Epoch < n.lead.epoch:
		n.p.Host.Count("node.fenced", 1)
		n.tellOutdated(ctx, from)
	case n.lead != nil && m.Epoch == n.lead.epoch:
		n.lead.from = from
	default:
		n.lead = &leadHeard{epoch: m.Epoch, from: from}
		n.acceptLead(ctx)
	}
}

// acceptLead goes on with what onLead began, as far as the disk has come.
func (n *Node) acceptLead(ctx actor.Context) {
	if n.lead == nil || !n.Ready() {
		return
	}
	if n.lead.epoch < n.epoch {
		n.lead = nil // heard before the record was read, which knew better
		return
	}
	if n.lead.epoch > n.epoch {
		if n.lead.needs == 0 {
			n.lead.needs = n.change()
		}
		if n.disk.saved < n.lead.needs {
			return
		}
		n.epoch, n.rack = n.lead.epoch, nil
		n.states.become("lead", "joining")
	} else if n.states.in("alone") {
		n.states.become("lead", "joining")
	}
	n.leader, n.lead = n.lead.from, nil
	n.sayHello(ctx)
}

// tellOutdated lets who leads under an older epoch know of ours, and of nothing
// that we have: without a ledger it joins nobody, even if the same address leads
// under our epoch by now. It may be a leader of the past; or the store was put back to an
// old copy, and without this word all machines would only seem silent.
func (n *Node) tellOutdated(ctx actor.Context, outdated *actor.PID) {
	if n.Ready() {
		ctx.Request(At(outdated, SchedulerPath), &messages.Hello{
			Origin: n.origin(noToken, ""), Epoch: n.epoch, Announcement: n.w.Announcement,
		})
	}
}

// sayHello tells the Scheduler all there is to know of the machine. Unless it is
// answered it is said again with the heartbeat's rhythm.
func (n *Node) sayHello(ctx actor.Context) {
	ctx.Request(At(n.leader, SchedulerPath), &messages.Hello{
		Origin: n.origin(noToken, ""), Epoch: n.epoch, Announcement: n.w.Announcement, Ledger: n.ledgerReport(),
	})
	if n.states.in("joining") {
		n.armPulse(ctx)
	}
}

func (n *Node) onWelcome(ctx actor.Context, m *messages.Welcome) {
	if !n.states.in("joining", "member") || ctx.Sender() == nil || !n.meant(m.Epoch, m.Incarnation) {
		n.p.Host.Count("node.stale_welcome", 1)
		return
	}
	n.states.become("welcome", "member")
	n.p.Log.Info("Success! Master says: %s", m.Text)
	n.rack = ctx.Sender()
	n.pulse.acked, n.pulse.reported = 0, 0
	n.beat(ctx)
	n.armPulse(ctx)
}

// onRejected: this machine is not taken. It may be asked again by another Lead.
func (n *Node) onRejected(m *messages.Rejected) {
	if !n.states.in("joining") || !n.meant(m.Epoch, m.Incarnation) {
		n.p.Host.Count("node.stale_welcome", 1)
		return
	}
	n.states.become("rejected", "alone")
	n.p.Log.Info("Master refuses this node: %s", m.Text)
}

// meant tells whether the present leader said it to this start of this agent.
func (n *Node) meant(epoch uint64, to *messages.Incarnation) bool {
	return epoch == n.epoch && messages.SameIncarnation(to, n.w.Incarnation)
}
