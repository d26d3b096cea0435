package protocol

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what a Job says of itself, and whom it speaks to.

type (
	// Concluded: a job's terminal state is on disk. Job → Scheduler.
	Concluded struct {
		Job   topology.JobID
		State messages.JobState
	}
	// Foregone: a job that this one waits for has ended so. Scheduler → Job.
	Foregone struct{ Known *messages.AfterKnown }
)

// JobPeers are whom a Job speaks to in its process.
type JobPeers struct{ Scheduler, Journal, Mirror *actor.PID }

// Debtors are the machines an attempt lacks evidence from, each once.
func Debtors(a *messages.AttemptRecord) []string {
	var names []string
	for _, p := range a.Places {
		if p.Exit == nil && (len(names) == 0 || names[len(names)-1] != p.Node) {
			names = append(names, p.Node)
		}
	}
	return names
}

// Acknowledge: those who submitted the job are told so, by its own actor, behind its first words. By then the Mirror
// knows the job, whatever its client asks next, and the Scheduler has heard that it waits before the client can submit
// another: of two jobs the one that was acknowledged first is planned first. Scheduler → Job, Array.
type Acknowledge struct {
	Clients []*actor.PID
	Reply   *messages.SubmitReply
}

func (m Acknowledge) Say(ctx actor.Context) {
	for _, pid := range m.Clients {
		ctx.Send(pid, m.Reply)
	}
}

// LacksUID: the job waits because no uid is free, for this reason; empty: it waits for that no longer. Scheduler → Job.
type LacksUID struct{ Why string }
