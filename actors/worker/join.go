package worker

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file owns the choice of the leader that the node follows. The Node writes the highest accepted epoch to disk
// before it sends anything to that leader. After a restart, an older leader therefore cannot command it.
//
// If the disk fails or does not answer, the message is sent first. A silent node would be declared dead, and a full
// disk would end all its running tasks. The Node then remembers the epoch in memory and obeys no older leader. Until
// the epoch is on disk, the Node accepts no reservation, commit or start, and sends no exit evidence. The agent may end
// in this time, and an older leader may reach the next agent first. Even then, no state has changed that the newer
// leader relies on.
//
// The cluster of the first leader stays the node's cluster. Each cluster counts its own epochs, so a leader of another
// cluster cannot command this node, however high its epoch.

// leadHeard is a leader that has sent Lead and is not accepted yet.
type leadHeard struct {
	epoch   uint64
	cluster string
	from    *actor.PID
	needs   uint64 // the change that must be on disk first; 0: not recorded yet
	late    bool   // the time limit for the disk has passed
}

// leadLate reports that the time to save the epoch of a leader has passed.
type leadLate struct{ Epoch uint64 }

// sworn reports whether the accepted epoch is on disk.
func (n *Node) sworn() bool { return n.disk.saved >= n.oath }

// hindered returns why the disk prevents new work. It returns the empty string if new work may begin.
func (n *Node) hindered() string {
	if n.disk.trouble == "" && !n.sworn() {
		return "epoch of the leader is not saved yet"
	}
	return n.disk.trouble
}

func (n *Node) onLeadLate(ctx actor.Context, m leadLate) {
	if n.lead != nil && n.lead.epoch == m.Epoch {
		n.lead.late = true
		n.acceptLead(ctx)
	}
}

// recall reads the cluster from the record. It drops a leader that came before the record was read if the record
// contradicts it.
func (n *Node) recall() {
	n.cluster = n.record.ClusterId
	if n.lead != nil && (n.lead.epoch < n.epoch || n.foreign(n.lead.cluster)) {
		n.lead = nil
	}
}

// foreign reports whether a cluster differs from the node's cluster. A node without a cluster accepts any.
func (n *Node) foreign(cluster string) bool { return n.cluster != "" && cluster != n.cluster }

// onLead accepts a leader whose epoch is at least the present one. A repeated Lead is answered again, because a broken
// link may have lost the Hello.
func (n *Node) onLead(ctx actor.Context, m *messages.Lead) {
	from := ctx.Sender()
	switch {
	case from == nil || m.Epoch == 0:
		n.p.Host.Count("node.malformed", 1)
	case n.foreign(m.ClusterId):
		n.p.Host.Count("node.foreign", 1)
		n.tellObeyed(ctx, from)
	case m.Epoch < n.epoch || n.lead != nil && m.Epoch < n.lead.epoch:
		n.p.Host.Count("node.fenced", 1)
		n.tellObeyed(ctx, from)
	case n.lead != nil && m.Epoch == n.lead.epoch:
		n.lead.from, n.lead.cluster = from, m.ClusterId
	default:
		n.lead = &leadHeard{epoch: m.Epoch, cluster: m.ClusterId, from: from}
		n.acceptLead(ctx)
	}
}

// acceptLead continues the acceptance of a leader, as far as the disk allows.
func (n *Node) acceptLead(ctx actor.Context) {
	if n.lead == nil || !n.Ready() {
		return
	}
	if n.cluster == "" { // a record of an earlier version, perhaps with this leader's epoch, names no cluster
		n.cluster = n.lead.cluster
		n.change()
	}
	if n.lead.epoch > n.epoch {
		if n.lead.needs == 0 {
			n.lead.needs = n.change()
			n.p.Clock.After(n.p.Constants.Heartbeat, ctx.Self(), leadLate{n.lead.epoch})
		}
		if n.disk.saved < n.lead.needs && n.disk.trouble == "" && !n.lead.late {
			return
		}
		n.epoch, n.rack, n.oath = n.lead.epoch, nil, n.lead.needs
		actors.UnderEpoch(n.p.Log, n.epoch)
		n.states.Become("lead", nodeJoining)
	} else if n.states.In(nodeAlone) {
		n.states.Become("lead", nodeJoining)
	}
	n.leader, n.lead = n.lead.from, nil
	n.sayHello(ctx)
}

// tellObeyed sends a leader that the node does not follow the epoch that it follows. This Hello has no ledger and joins
// no cluster, even if the same address now leads under the followed epoch. The leader may be old, of another cluster,
// or restored from an old copy of the store. Without this message, the node would only appear silent.
func (n *Node) tellObeyed(ctx actor.Context, other *actor.PID) {
	if n.Ready() && n.epoch > 0 {
		ctx.Request(actors.At(other, actors.SchedulerPath), &messages.Hello{
			Origin: n.origin(noToken, ""), Epoch: n.epoch, ClusterId: n.cluster, Announcement: n.p.Announcement,
		})
	}
}

// sayHello sends the Scheduler the complete state of the node. It is repeated at the heartbeat interval until the
// Scheduler answers.
func (n *Node) sayHello(ctx actor.Context) {
	n.users.said = n.usersNow()
	ctx.Request(actors.At(n.leader, actors.SchedulerPath), &messages.Hello{
		Origin: n.origin(noToken, ""), Epoch: n.epoch, ClusterId: n.cluster, Announcement: n.p.Announcement,
		Ledger:     n.ledgerReport(),
		Vocabulary: messages.Vocabulary,
		Users:      n.users.said,
	})
	if n.states.In(nodeJoining) {
		n.armPulse(ctx)
	}
}

// usersNow returns the accounts under which jobs run here, or nil if the agent does not report them.
func (n *Node) usersNow() *messages.NodeUsers {
	if n.p.Users == nil {
		return nil
	}
	return n.p.Users()
}

func (n *Node) onWelcome(ctx actor.Context, m *messages.Welcome) {
	if !n.states.In(nodeJoining, nodeMember) || ctx.Sender() == nil || !n.meant(m.Epoch, m.Incarnation) {
		n.p.Host.Count("node.stale_welcome", 1)
		return
	}
	n.states.Become("welcome", nodeMember)
	n.p.Log.Info("Success! Master says: %s", m.Text)
	n.rack, n.users.known = ctx.Sender(), n.users.said
	n.pulse.acked, n.pulse.reported = 0, 0
	n.repeatProgress()
	n.beat(ctx)
	n.armPulse(ctx)
}

// onRejected handles the leader's refusal of this node. Another Lead may ask again. If a leader of another cluster
// refuses, the Node only logs it, once: that leader's epoch may equal the epoch of the node's own leader.
func (n *Node) onRejected(m *messages.Rejected) {
	if m.Reason == messages.RejectReason_REJECT_REASON_ANOTHER_CLUSTER &&
		messages.SameIncarnation(m.Incarnation, n.p.Incarnation) {
		if n.refusal != m.Text {
			n.refusal = m.Text
			n.p.Log.Info("Master refuses this node: %s", m.Text)
		}
		return
	}
	if !n.states.In(nodeJoining) || !n.meant(m.Epoch, m.Incarnation) {
		n.p.Host.Count("node.stale_welcome", 1)
		return
	}
	n.states.Become("rejected", nodeAlone)
	n.p.Log.Info("Master refuses this node: %s", m.Text)
}

// meant reports whether a message is from the present leader and for this start of this agent.
func (n *Node) meant(epoch uint64, to *messages.Incarnation) bool {
	return epoch == n.epoch && messages.SameIncarnation(to, n.p.Incarnation)
}
