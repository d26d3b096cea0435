package messages

import (
	"strings"
	"testing"

	"github.com/yi-json/synapse/topology"
)

func TestConversionsReturn(t *testing.T) {
	token := topology.Token{Epoch: 4, Counter: 5}
	if FromToken(ToToken(token)) != token || ToToken(topology.Token{}) != nil || !FromToken(nil).IsZero() {
		t.Error("tokens do not return")
	}
	key := topology.TaskKey{Token: token, Rank: 6}
	// Directories have this name.
	if ToTaskID(key).Key() != key || (*TaskId)(nil).Key() != (topology.TaskKey{}) ||
		key.String() != "00000004.00000005-6" {
		t.Errorf("the key %v does not return", key)
	}
	amount := topology.Resources{MilliCPU: 1, MemoryBytes: 2, MilliGPU: 3}
	if FromResources(ToResources(amount)) != amount || !FromResources(nil).IsZero() ||
		ToResources(topology.Resources{}) == nil {
		t.Error("amounts do not return")
	}
	device := topology.GPU{ID: "a", Type: "h100", MemoryBytes: 80 << 30}
	if FromGPU(&Gpu{Id: "a", Type: "h100", MemoryBytes: 80 << 30}) != device {
		t.Error("a device is read as another")
	}
	if s := FromShares(ToShares([]topology.Share{{GPU: "a", Milli: 5}})); len(s) != 1 || s[0].GPU != "a" ||
		s[0].Milli != 5 || ToShares(nil) != nil {
		t.Error("shares do not return")
	}
	if l := FromLabels([]*Label{{Key: "a", Value: "b"}}); len(l) != 1 || l[0].Key != "a" || l[0].Value != "b" ||
		FromLabels(nil) != nil {
		t.Error("labels are read as others")
	}
	if SameIncarnation(nil, nil) || SameIncarnation(goodIncarnation, nil) ||
		!SameIncarnation(goodIncarnation, &Incarnation{BootId: "5f2c0b6e-8d6a", StartedNs: 7}) ||
		SameIncarnation(goodIncarnation, &Incarnation{BootId: "5f2c0b6e-8d6a", StartedNs: 8}) {
		t.Error("incarnations are confused")
	}
}

func TestGangOfASpec(t *testing.T) {
	g := GangOf(goodSpec())
	if g.Replicas != 8 || g.Each.MilliGPU != 8000 || g.GPUType != "h100" || g.Required != "zone" ||
		g.Preferred != "rack" || len(g.Selector) != 1 || g.Split != topology.SplitNone {
		t.Errorf("gang is %+v", g)
	}
	for _, c := range []struct {
		said Split
		gpu  int64
		want topology.Split
	}{
		{Split_SPLIT_WHOLE, 8000, topology.SplitWhole}, {Split_SPLIT_ANY, 8000, topology.SplitAny},
		{Split_SPLIT_WHOLE, 0, topology.SplitAny},
	} {
		s := goodSpec()
		total(c.said, 1, 1, c.gpu)(s)
		s.Each = &Resources{MilliCpu: 1}
		if g := GangOf(s); g.Split != c.want || g.Replicas != 0 || !g.Each.IsZero() || g.Total.MilliGPU != c.gpu {
			t.Errorf("%v of %d: gang is %+v", c.said, c.gpu, g)
		}
	}
}

func TestJobStatesAndEvidence(t *testing.T) {
	for state := range JobState_name {
		if got, want := JobState(state).Terminal(), state >= 3; got != want {
			t.Errorf("%v is terminal: %v", JobState(state), got)
		}
	}
	a := &AttemptRecord{Places: []*Place{{Exit: goodExit}, {Exit: goodExit}}}
	if a.Owes() || !(&AttemptRecord{Places: []*Place{{Exit: goodExit}, {}}}).Owes() {
		t.Error("evidence is misjudged")
	}
}

// TestSliceStates checks the numbers of the states. Nodes of every version have these numbers on disk and report them
// to the leader.
func TestSliceStates(t *testing.T) {
	pinned := map[topology.AllocationState]int32{
		topology.AllocationReserved: 1, topology.AllocationCommitted: 2, topology.AllocationPrepared: 3,
		topology.AllocationStarted: 4, topology.AllocationStopping: 5, topology.AllocationEnded: 6,
	}
	for s, number := range pinned {
		wire := ToAllocationState(s)
		if int32(wire) != number || FromAllocationState(wire) != s {
			t.Errorf("%v is %d on the wire, and read back as %v", s, wire, FromAllocationState(wire))
		}
		if want := "SLICE_STATE_" + strings.ToUpper(s.String()); wire.String() != want {
			t.Errorf("%v is %v on the wire", s, wire)
		}
	}
	if len(SliceState_name) != len(pinned)+1 {
		t.Errorf("the wire has %d states, of which %d are the ledger's", len(SliceState_name), len(pinned))
	}
	for _, unknown := range []SliceState{0, 7, -1} {
		if got := FromAllocationState(unknown); got != 0 {
			t.Errorf("%d is read as %v", unknown, got)
		}
	}
}

// TestVocabularyOfACheckpoint checks that a job that saves on request is placed only on agents that know requests, also
// if it has a script.
func TestVocabularyOfACheckpoint(t *testing.T) {
	spec := goodSpec()
	spec.Checkpoint, spec.Script = &CheckpointSpec{}, &Script{Name: "a"}
	if g := GangOf(spec); g.Vocabulary != VocabularyCheckpoint || VocabularyOf(spec) != VocabularyCheckpoint {
		t.Errorf("%d and %d", g.Vocabulary, VocabularyOf(spec))
	}
}
