package job

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/verdict"
	"github.com/yi-json/synapse/topology"
)

// This file owns the verdicts that count against nodes.

// accusation is the part of the latest verdict that the Scheduler has received.
type accusation struct {
	token topology.Token
	node  string
	class messages.FailureClass
}

// accuse reports the node that a verdict names to the Scheduler, when the verdict is on disk. A later verdict on the
// same attempt corrects it.
func (j *Job) accuse(ctx actor.Context, written []*messages.AttemptRecord) {
	for _, a := range written {
		j.countVerdict(a)
		now := accusation{token: messages.FromToken(a.GetToken())}
		if verdict.AgainstNode(a) {
			now.node, now.class = a.Verdict.Node, a.Verdict.Class
		}
		if now == j.accused || now.node == "" && now.token != j.accused.token {
			continue
		}
		j.accused = now
		ctx.Send(j.peers.Scheduler, protocol.Accused{
			Token: now.token, Job: j.id, Owner: j.rec.GetOwner().GetName(), Node: topology.NodeID(now.node), Class: now.class,
			Reason: a.GetVerdict().GetReason(),
		})
	}
}

// CountFailed is the prefix of the counters of failed attempts. The class of the verdict and the cause follow.
const CountFailed = "verdict."

// countVerdict counts a failed attempt once, when its end is on disk.
func (j *Job) countVerdict(a *messages.AttemptRecord) {
	token := messages.FromToken(a.GetToken())
	if a.GetVerdict() == nil || token == j.judged {
		return
	}
	j.judged = token
	cause := messages.Word(a.GetEnd().GetCause().String(), "CAUSE_")
	j.p.Host.Count(CountFailed+verdict.Word(a.Verdict.Class)+"."+cause, 1)
}
