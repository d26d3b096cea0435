package web

import (
	"testing"

	"github.com/yi-json/synapse/messages"
)

// TestGPUTime checks the used and the lost GPU time of attempts: one that runs, one that failed after one task had
// ended, one without ranks that lost its node, and those that lose nothing.
func TestGPUTime(t *testing.T) {
	place := func(exit int64) *messages.Place {
		return &messages.Place{Grant: &messages.Grant{Amount: &messages.Resources{MilliGpu: 1000}},
			Exit: &messages.Exit{AtUnixMs: exit}}
	}
	spec := &messages.JobSpec{Gang: &messages.GangSpec{ReplicasMin: 2}, Each: &messages.Resources{MilliGpu: 1000}}
	ended := func(c messages.Cause) *messages.AttemptRecord {
		return &messages.AttemptRecord{CommittedUnixMs: 100, StartedUnixMs: 110,
			End: &messages.End{Cause: c, AtUnixMs: 160}}
	}
	failed, unstarted := ended(messages.Cause_CAUSE_MEMBER_FAILED), ended(messages.Cause_CAUSE_PREPARE_FAILED)
	failed.Places, unstarted.StartedUnixMs = []*messages.Place{place(0), place(150)}, 0
	for name, one := range map[string]struct {
		of         *messages.AttemptRecord
		used, lost int64
	}{
		"running": {&messages.AttemptRecord{CommittedUnixMs: 100, StartedUnixMs: 110,
			Places: []*messages.Place{place(0), place(150)}}, (200-100)*1000 + 50*1000, 0},
		"failed":        {failed, 60*1000 + 50*1000, 50*1000 + 40*1000},
		"lost":          {ended(messages.Cause_CAUSE_MACHINE_LOST), 2 * 60 * 1000, 2 * 50 * 1000},
		"never started": {unstarted, 2 * 60 * 1000, 0},
		"succeeded":     {ended(messages.Cause_CAUSE_SUCCEEDED), 2 * 60 * 1000, 0},
		"not committed": {&messages.AttemptRecord{}, 0, 0},
	} {
		if used, lost := gpuTime(spec, one.of, 200); used != one.used || lost != one.lost {
			t.Errorf("%s: %d used, %d lost, not %d and %d", name, used, lost, one.used, one.lost)
		}
	}
}
