package slurm

import (
	"errors"
	"strings"
	"testing"

	"github.com/yi-json/synapse/cmd/internal/sbatch"
	"github.com/yi-json/synapse/messages"
)

// This file tests the order of squeue, and its elements of arrays.

func TestSort(t *testing.T) {
	jobs := func() []*Entry {
		return []*Entry{
			{ID: "9", Name: "b", State: "RUNNING", Priority: 5, ElapsedMs: 600_000, LimitMs: 60_000, Nodes: 10},
			{ID: "10", Name: "a", State: "PENDING", Priority: 7, ElapsedMs: 65_000, Nodes: 9},
			{ID: "8_10", Name: "b", State: "PENDING", Element: "10", Priority: 5, LimitMs: 120_000, Nodes: 9},
			{ID: "8_9", Name: "c", State: "COMPLETING", Element: "9", Priority: -1, Nodes: 100},
		}
	}
	for keys, want := range map[string]string{
		"i": "8_9 8_10 9 10", "-i": "10 9 8_10 8_9", "t,-p": "10 8_10 9 8_9", "j,+M": "10 8_10 9 8_9", "D,p": "8_10 10 9 8_9",
		"-M": "9 10 8_10 8_9", "l,i": "9 8_10 8_9 10",
	} {
		all := jobs()
		if err := Sort(all, keys); err != nil {
			t.Errorf("%s: %v", keys, err)
		}
		var got []string
		for _, e := range all {
			got = append(got, e.ID)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("-S %s lists %v, and not %s", keys, got, want)
		}
	}
	for _, keys := range []string{"y", "", "i,", "jobid", "--i"} {
		if r := (*Refusal)(nil); !errors.As(Sort(nil, keys), &r) || r.Option != "--sort" {
			t.Errorf("-S %q is taken", keys)
		}
	}
}

// TestUnborn checks that elements that are neither finished nor jobs are listed, each with its own values.
func TestUnborn(t *testing.T) {
	r := &messages.JobRecord{Id: "jarray", State: messages.JobState_JOB_STATE_QUEUED,
		Spec: &messages.JobSpec{Name: "sweep", Priority: 3, Array: &messages.ArraySpec{Indices: []*messages.IndexRange{
			{First: 1, Last: 9, Step: 2}, {First: 20, Last: 22}}}},
		Array: &messages.ArrayRecord{
			Ended: []*messages.ElementsEnded{{Places: []*messages.IndexRange{{First: 0, Last: 1}}}},
			Held:  []*messages.IndexRange{{First: 6, Last: 6}},
			Changed: []*messages.ElementsChanged{{Places: []*messages.IndexRange{{First: 7, Last: 7}}, SetPriority: true,
				Priority: 8}},
		},
	}
	status := &messages.JobStatus{Record: r, Phase: messages.PhaseQueued, Counts: &messages.ArrayCounts{Waiting: 6}}
	var got []string
	for _, e := range Unborn(status, map[int32]bool{5: true, 20: true}, 0) {
		got = append(got, strings.TrimPrefix(e.ID, messages.NumericID("jarray"))+" "+e.State+" "+e.Reason+" "+
			sbatch.Decimal(int64(e.Priority)))
	}
	want := "_7 PENDING Resources 3|_9 PENDING Resources 3|_21 PENDING JobHeldUser 3|_22 PENDING Resources 8"
	if strings.Join(got, "|") != want {
		t.Errorf("it lists %q, and not %q", strings.Join(got, "|"), want)
	}
}
