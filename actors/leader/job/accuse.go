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
		if againstNode(a) {
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

// againstNode reports whether the verdict on an attempt counts against a node. Operators remove nodes, and a task that
// cannot be prepared or launched may be the job's fault, so these ends do not count.
func againstNode(a *messages.AttemptRecord) bool {
	v := a.GetVerdict()
	if v.GetNode() == "" || v.Charged {
		return false
	}
	switch a.GetEnd().GetCause() {
	case messages.Cause_CAUSE_MEMBER_FAILED, messages.Cause_CAUSE_MACHINE_LOST, messages.Cause_CAUSE_REBOOTED,
		messages.Cause_CAUSE_GPU_FAULT, messages.Cause_CAUSE_UNWELL:
	default:
		return false
	}
	switch v.Class {
	case messages.FailureClass_FAILURE_CLASS_NODE, messages.FailureClass_FAILURE_CLASS_GPU,
		messages.FailureClass_FAILURE_CLASS_NETWORK, messages.FailureClass_FAILURE_CLASS_STORAGE:
		return true
	}
	return false
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
