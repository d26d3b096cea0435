package web

import (
	"testing"

	"github.com/yi-json/synapse/messages"
)

// TestListKeepsWhatIsMeasured checks that the list has the GPU use, that an event about another change of the job keeps
// it, and that the next attempt begins without it.
func TestListKeepsWhatIsMeasured(t *testing.T) {
	h := newHub()
	job := func(run int32, phase string, use *messages.Use) jobRow {
		h.note(&messages.Event{Job: &messages.JobStatus{
			Record: &messages.JobRecord{Id: "j", Runs: run}, Phase: phase, Use: use,
		}})
		return h.things[kindJob+"/j"].value.(jobRow)
	}
	if got := job(1, messages.PhaseRunning, nil).Use; got != "" {
		t.Errorf("before the first measurement, the GPU use is %q", got)
	}
	if got := job(1, messages.PhaseRunning, &messages.Use{Tasks: 1, Gpus: 2, GpuPercent: 174}).Use; got != "87%" {
		t.Errorf("the GPU use is %q", got)
	}
	if got := job(1, messages.PhaseRunning, nil).Use; got != "87%" {
		t.Errorf("after another change, the GPU use is %q", got)
	}
	if got := job(2, messages.PhaseRunning, nil).Use; got != "" {
		t.Errorf("the next attempt begins with %q", got)
	}
	if got := job(2, messages.PhaseQueued, nil).Use; got != "" {
		t.Errorf("a waiting job has %q", got)
	}
}

// TestUse checks what the page shows of a job's use. Unknown values are empty, and the page then says "not measured".
func TestUse(t *testing.T) {
	for _, none := range []*messages.Use{nil, {CpuMs: 3}} {
		if got := useOf(none); got != nil {
			t.Errorf("%v is %v", none, got)
		}
	}
	got := useOf(&messages.Use{Tasks: 2, MilliCpu: 3450, MemoryBytes: 7, PeakMemoryBytes: 9})
	if *got != (use{CPU: "3.4", Memory: 7, Peak: 9}) {
		t.Errorf("without GPUs it is %+v", got)
	}
	got = useOf(&messages.Use{Tasks: 1, Gpus: 2, GpuPercent: 0, GpuHourPercent: 31, IdleMs: 5000})
	if got.GPU != "0%" || got.Hour != "15%" || got.Idle != 5000 {
		t.Errorf("with idle GPUs it is %+v", got)
	}
}
