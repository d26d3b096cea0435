package storetest

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the records that the contract is tested with.

// writer creates records as a leader does: each write has a separate token.
type writer struct{ epoch, writes uint64 }

func (w *writer) stamp() *messages.Token {
	w.writes++
	return &messages.Token{Epoch: w.epoch, Counter: w.writes}
}

// submit returns the first record of a job.
func (w *writer) submit(id string, arrival uint64) *messages.JobRecord {
	return &messages.JobRecord{
		Id: id, Revision: 1, WrittenBy: w.stamp(), Arrival: arrival,
		Spec:      &messages.JobSpec{Name: "train", Image: "host", Gang: &messages.GangSpec{ReplicasMin: 2, ReplicasMax: 2}},
		Owner:     &messages.Principal{Name: "alice"},
		RequestId: "request-" + id, SubmittedUnixMs: int64(arrival),
		State: messages.JobState_JOB_STATE_QUEUED,
	}
}

// next returns the next record, with this edit.
func (w *writer) next(was *messages.JobRecord, edit func(*messages.JobRecord)) *messages.JobRecord {
	n := proto.Clone(was).(*messages.JobRecord)
	n.Revision++
	n.WrittenBy = w.stamp()
	if edit != nil {
		edit(n)
	}
	return n
}

// over ends a job.
func (w *writer) over(was *messages.JobRecord, finishedMs int64) *messages.JobRecord {
	return w.next(was, func(n *messages.JobRecord) {
		n.State, n.FinishedUnixMs, n.Outcome = messages.JobState_JOB_STATE_SUCCEEDED, finishedMs, "every member exited 0"
	})
}

// active makes a job run this attempt.
func (w *writer) active(was *messages.JobRecord, a *messages.AttemptRecord) *messages.JobRecord {
	return w.next(was, func(n *messages.JobRecord) {
		n.State, n.Attempt, n.Runs = messages.JobState_JOB_STATE_ACTIVE, a.Token, n.Runs+1
	})
}

// commit returns the COMMIT of a two-member attempt.
func commit(job string, token topology.Token) *messages.AttemptRecord {
	place := func(rank int32, node string) *messages.Place {
		return &messages.Place{Rank: rank, Node: node, MachineId: "machine-" + node, Address: node +
			":1", Grant: &messages.Grant{
			Rank: rank, Amount: &messages.Resources{MilliCpu: 1000, MilliGpu: 2000},
			Gpus: []*messages.GpuShare{{GpuId: "gpu-a", Milli: 1000}, {GpuId: "gpu-b", Milli: 1000}},
		}}
	}
	return &messages.AttemptRecord{
		Job: job, Token: messages.ToToken(token), Run: 1, CommittedUnixMs: 7,
		Places: []*messages.Place{place(0, "n0"), place(1, "n1")},
	}
}

// attempt returns a copy of an attempt record with these edits.
func attempt(was *messages.AttemptRecord, edits ...func(*messages.AttemptRecord)) *messages.AttemptRecord {
	n := proto.Clone(was).(*messages.AttemptRecord)
	for _, edit := range edits {
		edit(n)
	}
	return n
}

func ended(cause messages.Cause) func(*messages.AttemptRecord) {
	return func(a *messages.AttemptRecord) { a.End = &messages.End{Cause: cause, Rank: -1, AtUnixMs: 9} }
}

func exited(ranks ...int) func(*messages.AttemptRecord) {
	return func(a *messages.AttemptRecord) {
		for _, r := range ranks {
			a.Places[r].Exit = &messages.Exit{Rank: int32(r), Kind: messages.ExitKind_EXIT_KIND_EXITED, AtUnixMs: 8}
		}
	}
}

func (w *writer) machine(id string) *messages.NodeRecord {
	return &messages.NodeRecord{Id: id, Revision: 1, WrittenBy: w.stamp(), MachineId: "machine-" + id, JoinedUnixMs: 1}
}

func jobChange(j *messages.JobRecord, attempts ...*messages.AttemptRecord) actors.Change {
	return actors.Change{Job: j, Attempts: attempts}
}

func jobName(i int) string { return fmt.Sprintf("j%04d", i) }
