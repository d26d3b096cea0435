package worker

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the one place where commands enter, and the one where facts leave. A command counts only if the newest
// leader sent it to this start of this agent. Others are not answered, because their sender has either lost the lead or
// will learn of us from our Hello.

// command is any order about an attempt.
type command interface {
	GetOrder() *messages.Order
	Validate() error
}

// onCommand fences, then dispatches.
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

// fence is why a command does not count; empty when it does. The epoch is checked first: it stops an older leader that
// has not noticed yet.
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
		return "node.malformed" // a token names one attempt of one job
	}
	return ""
}

// about keeps the header of the last fact: most facts of a machine in a row go to one Job about one attempt. It is
// rebuilt for another.
type about struct {
	token  topology.Token
	wire   *messages.Token
	leader *actor.PID
	job    topology.JobID
	to     *actor.PID
}

// wire is a token as a message.
func (n *Node) wire(t topology.Token) *messages.Token {
	if t.IsZero() {
		return nil
	}
	if n.about.token != t {
		n.about.token, n.about.wire = t, messages.ToToken(t)
	}
	return n.about.wire
}

// origin is the header of a fact; the version is the present one, after what the fact says.
func (n *Node) origin(t topology.Token, job topology.JobID) *messages.Origin {
	return &messages.Origin{
		Token: n.wire(t), Job: string(job), Node: string(n.p.Node), MachineId: n.p.MachineID,
		Incarnation: n.p.Incarnation, LedgerVersion: n.ledger.Version(),
	}
}

// tell sends a fact to the Job at the newest leader. Only that leader's commands pass the fence, so answers go there
// too. Without a leader nothing is lost: the next one gets the ledger in the Hello.
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

// refuse answers Reserve or Commit with what the machine really has.
func (n *Node) refuse(ctx actor.Context, t topology.Token, job topology.JobID, why messages.RefusalReason,
	format string, args ...any) {
	n.tell(ctx, job, &messages.Refused{
		Origin: n.origin(t, job), Reason: why, Detail: fmt.Sprintf(format, args...), Ledger: n.ledgerReport(),
	})
}

// subject is the attempt, and its job, that an order is about.
func subject(o *messages.Order) (topology.Token, topology.JobID) {
	return messages.FromToken(o.Token), topology.JobID(o.Job)
}
