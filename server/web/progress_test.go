package web

import (
	"testing"

	"github.com/yi-json/synapse/messages"
)

// TestDone: the page shows progress in the words of the command line, and nothing of a job that reports none.
func TestDone(t *testing.T) {
	for _, none := range []*messages.JobProgress{nil, {Garbage: 3}} {
		if got := doneOf(none); got != nil {
			t.Errorf("%v is shown as %v", none, got)
		}
	}
	got := doneOf(&messages.JobProgress{
		Step: 9, Total: 20, Percent: 45, MilliRate: 500, LeftMs: 22_000, MostStep: 9, Ranks: 1, ChangedMsAgo: 1000,
		Slow: []*messages.SlowRank{{Rank: 3, Node: "n1", Percent: 140, Steps: 20}}, SlowRanks: 1,
		Metrics: []*messages.Metric{{Name: "loss", Value: "2.1"}, {Name: "lr", Value: "3e-4"}},
	})
	want := done{"45% 22s left", "9 of 20, 0.5 steps/s, last change 1s ago", "loss 2.1, lr 3e-4", 45,
		"rank 3 on n1 needs 1.40 times the median time of a step, for 20 steps"}
	if *got != want {
		t.Errorf("%+v", *got)
	}
	if got := messages.StepWords(&messages.JobProgress{Step: 9, MostStep: 9, Ranks: 1, MilliRate: 12_345_678}); got !=
		"9, 12345 steps/s, last change 0s ago" {
		t.Error(got)
	}
	if got := doneOf(&messages.JobProgress{Step: 9, Ranks: 1}); got.Percent != -1 || got.Words != "step 9" {
		t.Errorf("without a total: %+v", *got)
	}
}
