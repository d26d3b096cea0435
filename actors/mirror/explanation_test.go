package mirror

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/explain"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file tests the facts of `explain` as fields.

// fullCluster has nodes with 8 GPUs. One job uses the first node, one reserves the second, and the third is drained.
func fullCluster() *Mirror {
	m, _ := counting()
	all := topology.Resources{MilliGPU: 8000}
	rooms := RoomsShown{}
	for i := range 3 {
		id := topology.NodeID(fmt.Sprint("n", i+1))
		seen := topology.Seen{ID: id, Machine: &topology.Machine{ID: id, Place: []string{"r1"}, Total: all}}
		switch i {
		case 1:
			seen.Free.WholeGPUs = 8
		case 2:
			seen.Free.WholeGPUs, seen.Why = 8, "drained by ops: fan"
		}
		rooms.Machines, rooms.Holders = append(rooms.Machines, seen), append(rooms.Holders, nil)
	}
	rooms.Holders[0] = []topology.Holder{
		{Job: "limited", Amount: topology.Resources{MilliGPU: 6000}, EndsBy: 30 * minute},
		{Job: "endless", Amount: topology.Resources{MilliGPU: 2000}},
		{Job: "cpus", Amount: topology.Resources{MilliCPU: 2000}},
	}
	rooms.Kept = []topology.Kept{{ID: "big", Slots: []topology.Slot{{Node: "n2", Amount: all}}}}
	ask(m, rooms)
	ask(m, NodeShown{Status: &messages.NodeStatus{Phase: "up", Record: &messages.NodeRecord{
		Id: "n3", Drained: &messages.Deed{By: &messages.Principal{Name: "ops"}, Reason: "fan"},
	}}})
	for _, id := range []string{"limited", "endless", "big"} {
		ask(m, JobShown{statusOf(id, "ann", "running", func(s *messages.JobStatus) {
			if s.Record.Spec.Name = id + "-job"; id == "limited" {
				s.Record.Spec.TimeLimitMs = 1
			}
		})})
	}
	return m
}

// TestExplanationHasEveryFact checks the fields of the explanation of a job that waits for all kinds of causes.
func TestExplanationHasEveryFact(t *testing.T) {
	m := fullCluster()
	shown := waitsFor(1, "needs 16 GPUs", "waiting")
	shown.Groups[0].Asked.Gang = topology.Gang{Replicas: 2, Each: topology.Resources{MilliGPU: 8000}}
	ask(m, JobShown{statusOf("waiting", "bob", "queued")})
	ask(m, shown)
	e := ask(m, &messages.ExplainJob{Job: "waiting"}).(*messages.ExplainJobReply).Explanation
	gpus := func(n int64) *messages.Resources { return &messages.Resources{MilliGpu: n * 1000} }
	name := func(id string) *messages.JobName {
		return &messages.JobName{Id: id, ShortId: messages.ShortID(id), Name: id + "-job", Owner: "ann"}
	}
	want := &messages.Explanation{
		Job:   &messages.JobName{Id: "waiting", ShortId: "waitin", Owner: "bob"},
		Phase: "queued", Reason: "Resources: needs 16 GPUs", ReasonCode: "Resources", AtUnixMs: noon{}.WallMs(),
		Needs: &messages.Demand{Total: gpus(16), Each: gpus(8), Tasks: 2},
		Space: &messages.Space{
			Free: gpus(0), Total: gpus(24), Usable: gpus(0), Nearest: "n1", NearestAsked: gpus(8), NearestHas: gpus(0),
			Nodes: 3, NodesUnavailable: 1, NodesWithoutGpus: 2,
		},
		InUse: []*messages.Holding{
			{Job: name("limited"), Amount: gpus(6), Nodes: 1, EndsUnixMs: noon{}.WallMs() + 30*60_000, Ends: explain.ByLimit},
			{Job: name("endless"), Amount: gpus(2), Nodes: 1, Ends: explain.NoLimit},
		},
		Unavailable: []*messages.UnavailableNode{{Node: "n3", Reason: "drained by ops: fan", By: "ops", Note: "fan"}},
		Reserved:    []*messages.Holding{{Job: name("big"), Amount: gpus(8)}},
		Conflict:    []*messages.Constraint{{Kind: "reserved"}, {Kind: "others"}},
		InTheWay:    []*messages.Constraint{{Kind: "others"}}, AtOnce: 1, Waiting: 1,
	}
	if !proto.Equal(e, want) {
		t.Errorf("the facts are\n%v\nwant\n%v", e, want)
	}
}

// TestExplanationIsBounded checks that an answer about a large cluster names some of its jobs and nodes, and counts the
// others.
func TestExplanationIsBounded(t *testing.T) {
	m, _ := counting()
	const nodes = listedMost + 5
	all, rooms := topology.Resources{MilliGPU: 8000}, RoomsShown{}
	for i := range 2 * nodes {
		id := topology.NodeID(fmt.Sprintf("n%04d", i))
		seen := topology.Seen{ID: id, Machine: &topology.Machine{ID: id, Place: []string{"r1"}, Total: all}}
		if i < nodes {
			seen.Why = "dead"
		}
		rooms.Machines = append(rooms.Machines, seen)
		rooms.Holders = append(rooms.Holders, []topology.Holder{{Job: topology.JobID(fmt.Sprint("j-", i)), Amount: all}})
		keep := topology.KeepID(fmt.Sprint("k-", i))
		rooms.Kept = append(rooms.Kept, topology.Kept{ID: keep, Slots: []topology.Slot{{Node: id, Amount: all}}})
	}
	ask(m, rooms)
	e := &messages.Explanation{}
	asked := policy.Question{Gang: topology.Gang{Replicas: 1, Each: all}}
	answer := asked.Explain(m.picture.tree, "", m.picture.holders)
	m.fill(e, &answer, &asked)
	if len(e.Unavailable) != listedMost || e.MoreUnavailable != 5 || len(e.InUse) != listedMost ||
		e.MoreInUse != 2*nodes-listedMost || len(e.Reserved) != listedMost || e.MoreReserved != 2*nodes-listedMost {
		t.Errorf("%d and %d nodes, %d and %d jobs, %d and %d reservations are told", len(e.Unavailable), e.MoreUnavailable,
			len(e.InUse), e.MoreInUse, len(e.Reserved), e.MoreReserved)
	}
}

// TestPreferredLevelIsFeasible checks that a job which only prefers a level is never called infeasible: it starts
// elsewhere after its patience.
func TestPreferredLevelIsFeasible(t *testing.T) {
	m := fullCluster()
	for _, patient := range []bool{false, true} {
		shown := waitsFor(1, "needs 16 GPUs", "waiting")
		shown.Groups[0].Asked = policy.Question{
			Gang:    topology.Gang{Replicas: 2, Each: topology.Resources{MilliGPU: 8000}, Required: topology.NodeLevel},
			Patient: patient,
		}
		ask(m, WaitsNoMore{"waiting"})
		ask(m, JobShown{statusOf("waiting", "bob", "queued")})
		ask(m, shown)
		got := ask(m, &messages.GetJob{Job: "waiting"}).(*messages.GetJobReply).Job
		e := ask(m, &messages.ExplainJob{Job: "waiting"}).(*messages.ExplainJobReply).Explanation
		never := got.ReasonCode == "Infeasible"
		if never == patient || e.Never == patient || (e.ReasonCode == "Infeasible") == patient {
			t.Errorf("patient %v: it waits for %q, and is told %v", patient, got.Reason, e)
		}
	}
}
