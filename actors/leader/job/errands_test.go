package job

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns tests of repeated work of the leader, and of the sources that it accepts.

// TestNamesakeIsNoEvidence checks that reports of a node count only for the machine that a member started on. They do
// not count for another machine that now has the same name.
func TestNamesakeIsNoEvidence(t *testing.T) {
	token := topology.Token{Epoch: 1, Counter: 7}
	incarnation := &messages.Incarnation{BootId: "b"}
	for _, id := range []string{"m1", "m2"} {
		origin := &messages.Origin{
			Job: "j1", Token: messages.ToToken(token), Node: "n1", MachineId: id, Incarnation: incarnation,
		}
		exit := &messages.Exit{Kind: messages.ExitKind_EXIT_KIND_EXITED}
		slice := &messages.SliceReport{State: messages.SliceState_SLICE_STATE_OVER, Exits: []*messages.Exit{exit}}
		for name, do := range map[string]func(j *Job, ctx actor.Context){ //order: each by itself
			"Exited": func(j *Job, ctx actor.Context) {
				j.onFact(ctx, &messages.Exited{Origin: origin, Exits: []*messages.Exit{exit}})
			},
			"Ended": func(j *Job, ctx actor.Context) { j.onFact(ctx, &messages.Ended{Origin: origin}) },
			"a report": func(j *Job, ctx actor.Context) {
				j.onSighted(ctx, protocol.Sighted{
					Node: "n1", MachineID: id, Incarnation: incarnation, Token: token, Allocation: slice,
				})
			},
			"a removal": func(j *Job, ctx actor.Context) { j.onNodeGone(ctx, protocol.NodeGone{Node: "n1", MachineID: id}) },
		} {
			att := &messages.AttemptRecord{
				Job: "j1", Token: messages.ToToken(token), End: &messages.End{Cause: messages.Cause_CAUSE_CANCELLED},
				Places: []*messages.Place{{Node: "n1", MachineId: "m1"}},
			}
			rec := &messages.JobRecord{Id: "j1", Spec: leadertest.OneGPU(),
				State: messages.JobState_JOB_STATE_ACTIVE, Attempt: att.Token}
			p := leadertest.Ports()
			p.Peers = leadertest.Nodes{}
			j := New(p, leadertest.Peers, 1, rec, []*messages.AttemptRecord{att}, nil).(*Job)
			j.contacts["n1"].incarnation, j.writing = incarnation, true
			do(j, &leadertest.Context{Said: new([]leadertest.Letter)})
			if noted := j.exits[token][0].Exit != nil; noted != (id == "m1") {
				t.Errorf("%s of machine %s counts: %t", name, id, noted)
			}
		}
	}
}
