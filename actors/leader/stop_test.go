package leader

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// here is where every machine is.
type here struct{ actors.Peers }

func (here) Node(id topology.NodeID) *actor.PID { return actor.NewPID("here", string(id)) }

// TestStopSaysSignalAndGrace: a Stop says by which signal the job is to be stopped, and what grace it has: an agent of
// an earlier version looks nowhere else, though one of this version finds both with the slice.
func TestStopSaysSignalAndGrace(t *testing.T) {
	spec := oneGPU()
	spec.Stop = &messages.StopSpec{Signal: 10, GraceMs: 7000}
	token := topology.Token{Epoch: 1, Counter: 7}
	att := &messages.AttemptRecord{
		Job: "j1", Token: messages.ToToken(token), End: &messages.End{Cause: messages.Cause_CAUSE_CANCELLED},
		Places: []*messages.Place{{Node: "n1", MachineId: "m1"}},
	}
	rec := &messages.JobRecord{Id: "j1", Spec: spec, State: messages.JobState_JOB_STATE_ACTIVE, Attempt: att.Token}
	p := leaderPorts()
	p.Peers = here{}
	j := newJob(p, somePeers, 1, rec, []*messages.AttemptRecord{att}, nil).(*Job)
	j.contacts["n1"].incarnation = &messages.Incarnation{BootId: "b"}
	var said []letter
	if !j.stopAll(&overheard{message: &actor.Started{}, said: &said}) || len(said) != 1 {
		t.Fatalf("it says %v", said)
	}
	stop, is := said[0].message.(*messages.Stop)
	if !is || stop.Signal != 10 || stop.GraceMs != 7000 || stop.Cause != messages.Cause_CAUSE_CANCELLED {
		t.Errorf("it says %v", said[0].message)
	}
}

// TestFailureForTheDisk: whoever asks why a job failed is told that it was for the disk, with what the machine says of
// it.
func TestFailureForTheDisk(t *testing.T) {
	exit := &messages.Exit{Kind: messages.ExitKind_EXIT_KIND_EXITED, Code: 137, Signal: 9, Disk: true, Detail: "it kept 2"}
	words := failureWords(&messages.Place{Rank: 3, Node: "n1", Exit: exit})
	if words != "rank 3 on n1 was ended for the disk: it kept 2" {
		t.Error(words)
	}
}
