package worker

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// fullRecord returns a record that uses every field. Its allocation is stopping, and one of its two ranks has exited.
func fullRecord() *messages.LedgerRecord {
	gpu := func(id string) []*messages.GpuShare {
		return []*messages.GpuShare{{GpuId: id, Milli: topology.WholeGPU}}
	}
	each := &messages.Resources{MilliCpu: 1000, MemoryBytes: 1 << 30, MilliGpu: topology.WholeGPU}
	return &messages.LedgerRecord{
		Epoch: 7, BootId: "boot-1", ClusterId: "c", WithdrawnGpus: []string{"gpu-1"},
		Slices: []*messages.SliceRecord{{
			Token: &messages.Token{Epoch: 7, Counter: 1}, Job: "j", State: messages.SliceState_SLICE_STATE_STOPPING,
			Grants: []*messages.Grant{{Rank: 3, Amount: each, Gpus: gpu("gpu-0")}, {Rank: 4, Amount: each, Gpus: gpu("gpu-2")}},
			Exits: []*messages.Exit{{
				Rank: 3, Kind: messages.ExitKind_EXIT_KIND_EXITED, Code: 137, Signal: 9, Oom: true, Disk: true, AtUnixMs: 5,
				Detail: "why", PeakMemoryBytes: 6, CpuMs: 7, ByItself: true, Fault: messages.Fault_FAULT_JOB, Unwell: true,
				Evidence: &messages.Evidence{DiskFull: true},
				Saved:    true,
			}},
			RendezvousPort: 30000, Cause: messages.Cause_CAUSE_CANCELLED, Uid: 200_001, Owner: "ann", OwnerProven: true,
			Spec:        &messages.JobSpec{Name: "train", Stop: &messages.StopSpec{Signal: 10, GraceMs: 9000}},
			GoneBeganNs: 8, ReservedNs: 9, DespiteUnwell: true,
			Inherited: &messages.Inherited{From: &messages.Token{Epoch: 6, Counter: 1}, Generation: 1, Cause: "why", Rank: 3},
		}, {
			Token: &messages.Token{Epoch: 7, Counter: 2}, Job: "k", State: messages.SliceState_SLICE_STATE_STOPPING,
			Spec:        &messages.JobSpec{Restart: &messages.RestartSpec{InPlace: true, Limit: 1}},
			Grants:      []*messages.Grant{{Amount: &messages.Resources{MilliCpu: 1000, MemoryBytes: 1 << 30}}},
			Exits:       []*messages.Exit{{Kind: messages.ExitKind_EXIT_KIND_EXITED, Code: 1}},
			HeldUntilNs: int64(time.Hour),
		}},
	}
}

// TestEveryFieldOfTheRecordIsKept checks that the next agent writes each field that it has read, so that no restart
// loses one. A new field fails this test until fullRecord uses it.
func TestEveryFieldOfTheRecordIsKept(t *testing.T) {
	was := fullRecord()
	slice := was.Slices[0]
	for _, m := range []proto.Message{was, slice, slice.Exits[0], slice.Grants[0]} {
		fields := m.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			f := fields.Get(i)
			if !m.ProtoReflect().Has(f) && (m != slice || !was.Slices[1].ProtoReflect().Has(f)) {
				t.Errorf("the record of this test does not use %s", f.FullName())
			}
		}
	}
	r := newNodeRig(t, 3)
	r.launcher.auto = false
	r.launcher.task(topology.TaskKey{Token: messages.FromToken(slice.Token), Rank: 4}).spawned = true
	r.disk.content = encodeRecord(was)
	for restart := range 3 {
		r.start()
		r.disk.content = slices.Clone(r.node.encodeBooks())
		is, err := decodeRecord(r.disk.content)
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(was, is) {
			t.Errorf("after restart %d\n%v is\n%v", restart, was, is)
		}
	}
}
