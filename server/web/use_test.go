package web

import (
	"testing"

	"github.com/yi-json/synapse/messages"
)

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
