package worker

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file owns which leader the machine follows. The highest epoch ever accepted is on disk before the first message
// to that leader, so that no restart lets an older one command again. Only where the disk fails, or does not answer,
// the message comes first: a silent machine would be declared dead, and all that runs well there given up because of a
// full disk. It then remembers the epoch in memory, obeys no older leader, and begins nothing until the disk has it: no
// reservation, no commit, no start; and no evidence leaves before the disk has that either. So if its agent ends
// meanwhile and an older leader is the first to speak to the next, that one finds nothing here that the newer had
// reason to think over. The cluster of the first leader stays the machine's: each cluster counts its own epochs,
// so that a leader of another one, however high its own, may command nothing here.

// leadHeard is a leader that sent Lead and is not accepted yet.
type leadHeard struct {
	epoch   uint64
	cluster string
	from    *actor.PID
	needs   uint64 // the change that must be on disk first; 0: not noted yet
	late    bool   // the disk has had its time
}

// leadLate: the disk has had time enough to keep the epoch of a leader.
type leadLate struct{ Epoch uint64 }

// sworn reports whether the disk has the epoch that the machine follows.
func (n *Node) sworn() bool { return n.disk.saved >= n.oath }

// hindered is why nothing new may begin; empty: it may.
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

// recall takes the cluster from the record, and drops a leader that came before the record was read if the record
// contradicts it.
func (n *Node) recall() {
	n.cluster = n.record.ClusterId
	if n.lead != nil && (n.lead.epoch < n.epoch || n.foreign(n.lead.cluster)) {
		n.lead = nil
	}
}

// foreign reports whether a cluster is not the machine's own. A machine without one accepts any.
func (n *Node) foreign(cluster string) bool { return n.cluster != "" && cluster != n.cluster }

// onLead accepts a leader at least as new as the present one. A repeated Lead is answered again: the link may have
// broken and lost our Hello.
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

// acceptLead goes on with what onLead began, as far as the disk has come.
func (n *Node) acceptLead(ctx actor.Context) {
	if n.lead == nil || !n.Ready() {
		return
	}
	if n.cluster == "" { // a record of an earlier version, perhaps with this leader's epoch, has none either
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

// tellObeyed tells a leader that is not followed which epoch is, and nothing else: a Hello without a ledger joins no
// cluster, even if the same address leads under our epoch by now. The leader may be an old one, or of another cluster,
// or its store may have been restored from an old copy. Without this message the machine would only seem silent.
func (n *Node) tellObeyed(ctx actor.Context, other *actor.PID) {
	if n.Ready() && n.epoch > 0 {
		ctx.Request(actors.At(other, actors.SchedulerPath), &messages.Hello{
			Origin: n.origin(noToken, ""), Epoch: n.epoch, ClusterId: n.cluster, Announcement: n.p.Announcement,
		})
	}
}

// sayHello tells the Scheduler all there is to know of the machine. It is sent again at the heartbeat's interval until
// it is answered.
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

// usersNow is as which accounts jobs run here now; nil: nobody says.
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
	n.beat(ctx)
	n.armPulse(ctx)
}

// onRejected: the leader refuses this machine. Another Lead may ask again. The refusal of another cluster's leader
// changes nothing and is only logged, once: its epoch may happen to be that of our own leader.
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

// meant reports whether a message is from the present leader, for this start of this agent.
func (n *Node) meant(epoch uint64, to *messages.Incarnation) bool {
	return epoch == n.epoch && messages.SameIncarnation(to, n.p.Incarnation)
}
