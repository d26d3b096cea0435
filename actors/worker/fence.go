package worker

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the single entry of commands and the single exit of facts. A command counts only if the newest leader
// sent it to this start of this agent. Other commands get no answer: their sender has lost the lead, or it will learn
// of this agent from the Hello.

// command is an order about an attempt.
type command interface {
	GetOrder() *messages.Order
	Validate() error
}

// onCommand checks a command against the fence, then dispatches it.
func (n *Node) onCommand(ctx actor.Context, c command) {
	if why := n.fence(c); why != "" {
		n.p.Host.Count(why, 1)
		return
	}
	switch m := c.(type) {
	case *messages.Reserve:
		n.onReserve(ctx, m)
	case *messages.Abort:
		n.onAbort(ctx, m)
	case *messages.Commit:
		n.onCommit(ctx, m)
	case *messages.Start:
		n.onStart(ctx, m)
	case *messages.Warn:
		n.onWarn(ctx, m)
	case *messages.Stop:
		n.onStop(ctx, m)
	case *messages.Forget:
		n.onForget(ctx, m)
	default:
		n.p.Host.Count("node.unknown_message", 1)
	}
}

// fence returns the name of the counter for a command that is ignored, or the empty string for a valid one. The epoch
// is checked first, so that an old leader which does not know its successor yet is stopped.
func (n *Node) fence(c command) string {
	o := c.GetOrder()
	switch {
	case o == nil:
		return "node.malformed"
	case !n.Ready():
		return "node.not_ready"
	case o.Epoch < n.epoch:
		return "node.fenced"
	case o.Epoch > n.epoch:
		return "node.future_epoch" // a leader always sends Lead first
	case o.Node != string(n.p.Node):
		return "node.misaddressed"
	case !messages.SameIncarnation(o.Incarnation, n.p.Incarnation):
		return "node.other_incarnation"
	}
	if s := n.slices[messages.FromToken(o.Token)]; s != nil && string(s.page.Job) != o.Job || c.Validate() != nil {
		return "node.malformed" // a token belongs to one attempt of one job
	}
	return ""
}

// about caches the header of the last fact, because consecutive facts often go to one Job about one attempt. For
// another attempt the header is rebuilt.
type about struct {
	token  topology.Token
	wire   *messages.Token
	leader *actor.PID
	job    topology.JobID
	to     *actor.PID
}

// wire returns a token as a message.
func (n *Node) wire(t topology.Token) *messages.Token {
	if t.IsZero() {
		return nil
	}
	if n.about.token != t {
		n.about.token, n.about.wire = t, messages.ToToken(t)
	}
	return n.about.wire
}

// origin returns the header of a fact. Its version is the present one, after the change that the fact reports.
func (n *Node) origin(t topology.Token, job topology.JobID) *messages.Origin {
	return &messages.Origin{
		Token: n.wire(t), Job: string(job), Node: string(n.p.Node), MachineId: n.p.MachineID,
		Incarnation: n.p.Incarnation, LedgerVersion: n.ledger.Version(),
	}
}

// tell sends a fact to the Job at the newest leader. Answers also go there, because only that leader's commands pass
// the fence. Without a leader nothing is lost: the next leader gets the ledger in the Hello.
func (n *Node) tell(ctx actor.Context, job topology.JobID, fact any) {
	if n.leader == nil {
		n.p.Host.Count("node.nobody_leads", 1)
		return
	}
	if n.about.leader != n.leader || n.about.job != job {
		n.about.leader, n.about.job, n.about.to = n.leader, job, actors.At(n.leader, actors.JobPath(job))
	}
	ctx.Request(n.about.to, fact)
}

// refuse answers a Reserve or a Commit with the resources that the node has free.
func (n *Node) refuse(ctx actor.Context, t topology.Token, job topology.JobID, why messages.RefusalReason,
	format string, args ...any) {
	n.tell(ctx, job, &messages.Refused{
		Origin: n.origin(t, job), Reason: why, Detail: fmt.Sprintf(format, args...), Ledger: n.ledgerReport(),
	})
}

// subject returns the attempt and the job of an order.
func subject(o *messages.Order) (topology.Token, topology.JobID) {
	return messages.FromToken(o.Token), topology.JobID(o.Job)
}
