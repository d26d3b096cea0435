package main

import (
	"testing"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// TestEfficiency checks that the classes of the requested days are added up, and that lost time is shown by cause.
func TestEfficiency(t *testing.T) {
	f := startFake(t)
	amount := func(class messages.GpuClass, cause messages.Cause, hours int64) *messages.GpuAmount {
		return &messages.GpuAmount{Class: class, Cause: cause, MilliGpuMs: hours * 3600 * 1e6}
	}
	day := func(n int64, name string, capacity int64, of ...*messages.GpuAmount) *messages.GpuTimeRow {
		return &messages.GpuTimeRow{Kind: 1, Day: n, Name: name, CapacityMilliGpuMs: capacity * 3600 * 1e6, Amounts: of}
	}
	productive, lost := messages.GpuClass_GPU_CLASS_PRODUCTIVE, messages.GpuClass_GPU_CLASS_LOST
	rows := []*messages.GpuTimeRow{
		day(20_000, "", 16, amount(productive, 0, 12), amount(lost, messages.Cause_CAUSE_MACHINE_LOST, 4)),
		day(20_001, "", 4, amount(productive, 0, 4)),
	}
	f.spent = &messages.GetEfficiencyReply{
		Time: &messages.GpuTime{SinceUnixMs: 1, UntilUnixMs: 2, Rows: rows},
		Now:  []*messages.GpuNow{{Class: productive, MilliGpu: 8000}}, CapacityMilliGpu: 8000,
	}
	r := cli(f.address, "efficiency", "--days", "2")
	r.wants(t, 0, "productive               16.00   80.0%         8", "")
	r.wants(t, 0, "lost: node lost           4.00   20.0%         -", "")
	r.wants(t, 0, "all                      20.00  100.0%         8", "")
	if asked := told[*messages.GetEfficiency](f); len(asked) != 1 || asked[0].Days != 2 || asked[0].Kind != 1 {
		t.Errorf("it asks for %v", asked)
	}
	cli(f.address, "efficiency", "--by", "day").wants(t, 0, "2024-10-05", "")
	cli(f.address, "efficiency", "--by", "queue", "-o", "json").wants(t, 0, `"node lost": 14400`, "")
	if asked := told[*messages.GetEfficiency](f); asked[len(asked)-1].Kind != messages.GpuTimeKind_GPU_TIME_KIND_QUEUE {
		t.Errorf("it asks for %v", asked)
	}
	cli(f.address, "efficiency", "--by", "user").wants(t, exit.Misuse, "", "--by user: unknown key")
	cli(f.address, "efficiency", "-o", "wide").wants(t, exit.Misuse, "", "-o wide: unknown format")
}
