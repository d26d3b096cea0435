package sim

import (
	"testing"
	"time"
)

// TestGaps checks that each second of an active job is counted once, as judged or under a reason.
func TestGaps(t *testing.T) {
	w, err := NewWorld(Options{Seed: 1, World: "small", Plain: true, Machines: 1, GPUs: []int{8}, Gaps: true})
	if err != nil {
		t.Fatal(err)
	}
	early := func(w *World, _ *jobPage) string {
		if w.Now() < time.Minute {
			return "early"
		}
		return ""
	}
	w.gaps = &gaps{
		clauses: []clause{{about: isActive, away: early}},
		found:   []*Gap{{Name: "runs", Unchecked: map[string]time.Duration{}}},
	}
	w.Submit(spec(1, 2*time.Minute))
	for _, v := range w.Finish() {
		t.Error(v)
	}
	sum := GapsOf([]Result{w.result(), w.result()})
	if len(sum) != 1 {
		t.Fatalf("%d gaps instead of one: %v", len(sum), sum)
	}
	lost, all := sum[0].Lost()/2, (sum[0].Judged+sum[0].Lost())/2
	if lost < 30*time.Second || lost >= time.Minute || all < 2*time.Minute || all > w.Now() {
		t.Errorf("a job that ran for two minutes is counted for %s, of which %s are early", all, lost)
	}
	if why := sum[0].Reasons(); len(why) != 1 || why[0] != "early" {
		t.Errorf("unexpected reasons: %q", why)
	}
}

// TestGapsOfAWorld checks that the clauses of the invariants are evaluated, and that a world with a restore shows gaps.
func TestGapsOfAWorld(t *testing.T) {
	r := run(t, Options{Seed: 1, World: "small", Faults: []string{"store-restored"}, Gaps: true})
	if len(r.Gaps) < 15 {
		t.Errorf("only %d clauses are counted", len(r.Gaps))
	}
	judged, lost := 0, 0
	for _, g := range r.Gaps {
		if g.Judged > 0 {
			judged++
		}
		if g.Lost() > 0 {
			lost++
		}
	}
	if judged < 5 || lost < 1 {
		t.Errorf("%d clauses judged a job, and %d skipped a job", judged, lost)
	}
}
