package preempt

// This file tests which jobs may be stopped for which.

import (
	"testing"

	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// TestWhatAStopCosts checks that a job with checkpoints loses at most one interval and at most its run time. If its
// gang acknowledged a checkpoint, the job loses at most the work after that checkpoint. Each job also loses the cost of
// a restart.
func TestWhatAStopCosts(t *testing.T) {
	for _, c := range []struct{ ran, saves, saved, again int64 }{
		{100, 0, 0, 100}, {100, 30, 0, 30}, {100, 99, 0, 99}, {100, 100, 0, 100}, {100, 500, 0, 100}, {0, 30, 0, 0},
		{100, 0, 95, 5}, {100, 30, 95, 5}, {100, 30, 20, 30}, {100, 0, 20, 80}, {100, 0, 130, 0},
	} {
		r := Running{
			Ran: c.ran * second, Checkpoint: c.saves * second, Saved: c.saved * second, Prepared: 7 * second,
		}
		if got, want := r.lost(2000), 2000*(c.again+60+7); got != want {
			t.Errorf("%+v: %d, want %d", c, got, want)
		}
	}
}

// TestWhoIsStopped checks the possible victims within a queue. Jobs with lower priority may be stopped. Jobs with equal
// priority may be stopped if they have checkpoints, run much longer and are not much larger. No job is stopped more
// than three times.
func TestWhoIsStopped(t *testing.T) {
	const now, limit = 10_000 * second, 0
	usual := Running{Ran: 40_000 * second, Checkpoint: 100 * second, Priority: 5}
	for _, c := range []struct {
		what       string
		byPriority bool
		shortest   bool
		edit       func(r *Running, size *int64)
		want       Rule
		later      int64
	}{
		{"lower", true, false, func(r *Running, _ *int64) { r.Priority = 4 }, ByPriority, 0},
		{"same", true, false, func(r *Running, _ *int64) {}, NoRule, 0},
		{"lower, by length", false, true, func(r *Running, _ *int64) { r.Priority = 4 }, Shortest, 0},
		{"higher, by length", true, true, func(r *Running, _ *int64) { r.Priority = 6 }, NoRule, 0},
		{"same, by length", false, true, func(r *Running, _ *int64) {}, Shortest, 0},
		{"twice stopped", true, false, func(r *Running, _ *int64) { r.Priority, r.Times = 4, 2 }, ByPriority, 0},
		{"thrice stopped", true, true, func(r *Running, _ *int64) { r.Priority, r.Times = 4, 3 }, NoRule, 0},
		{"saves nothing", false, true, func(r *Running, _ *int64) { r.Checkpoint = 0 }, NoRule, 0},
		{"saved on request", false, true, func(r *Running, _ *int64) { r.Checkpoint, r.Saved = 0, r.Ran-600*second },
			Shortest, 0},
		{"saved long ago", false, true, func(r *Running, _ *int64) { r.Checkpoint, r.Saved = 0, second }, NoRule,
			now + 4*(40_000-1+60)*second - 40_000*second},
		{"as large as may be", false, true, func(r *Running, size *int64) { *size = 4000 }, Shortest, 0},
		{"larger", false, true, func(r *Running, size *int64) { *size = 4001 }, NoRule, 0},
		{"goes on for as long", false, true, func(r *Running, _ *int64) { r.Ran = 7200 * second }, Shortest, 0},
		{"not yet", false, true, func(r *Running, _ *int64) { r.Ran = 7200*second - 1 }, NoRule, now + 1},
		{"its earlier attempts count", false, true, func(r *Running, _ *int64) {
			r.Ran, r.Had = 200*second, 7000*second
		}, Shortest, 0},
		{"not yet with those", false, true, func(r *Running, _ *int64) { r.Ran, r.Had = 200*second, 6990*second }, NoRule,
			now + 10*second},
		{"its limit lets it", false, true, func(r *Running, _ *int64) { r.Limit = r.Ran + 7200*second }, Shortest, 0},
		{"its limit ends it", false, true, func(r *Running, _ *int64) { r.Limit = r.Ran + 7200*second - 1 }, NoRule, 0},
		{"its stop is dear", false, true, func(r *Running, _ *int64) {
			r.Ran, r.Checkpoint, r.Prepared = 9000*second, 2000*second, 190*second
		}, Shortest, 0},
		{"too dear", false, true, func(r *Running, _ *int64) {
			r.Ran, r.Checkpoint, r.Prepared = 9000*second, 2000*second, 191*second
		}, NoRule, now + 4*second},
	} {
		r, size := usual, int64(1000)
		c.edit(&r, &size)
		l := &Look{
			Priority: 5, Size: 1000, Takes: 1800 * second, Later: topology.Never,
			Leaf: &share.Branch{Preempts: share.Preempts{ByPriority: c.byPriority, Shortest: c.shortest}},
		}
		got := l.inside(&r, &share.Hold{Size: size}, now)
		if later := l.Later; got != c.want || c.later > 0 && later != c.later || c.later == 0 && later != topology.Never {
			t.Errorf("%s: by %d, and %d later", c.what, got, later-now)
		}
	}
	if StillTakes(0) != 1800*second || StillTakes(800*second) != 1000*second || StillTakes(1000*second) != 1000*second {
		t.Error("what a job still takes is wrong")
	}
	if p := (share.Preempts{MinRun: 5}); leastRun(&p, Shortest) != 3600*second || leastRun(&p, ByPriority) != 5 {
		t.Error("the least time to run is wrong where nobody says one")
	}
	if p := (share.Preempts{MinRun: 5, SaysMinRun: true}); leastRun(&p, Shortest) != 5 || leastRun(&p, Reclaim) != 5 {
		t.Error("the least time to run is wrong where the queue says one")
	}
}

// TestGentleAllTogether checks that the victims of the rule Shortest are together not much larger than the job. Victims
// of other rules do not count.
func TestGentleAllTogether(t *testing.T) {
	for _, c := range []struct {
		longer, lower []int64 // sizes of the victims of each rule
		want          bool
	}{
		{[]int64{4000}, nil, true}, {[]int64{4001}, nil, false}, {[]int64{2000, 2000}, nil, true},
		{[]int64{2000, 2001}, nil, false}, {[]int64{3000}, []int64{9000}, true}, {nil, []int64{9000}, true}, {nil, nil, true},
	} {
		l := &Look{Size: 1000}
		add := func(rule Rule, sizes []int64) {
			for _, size := range sizes {
				l.chosen = append(l.chosen, len(l.all))
				l.all = append(l.all, Candidate{Victim: Victim{Rule: rule}, hold: &share.Hold{Size: size}})
			}
		}
		add(Shortest, c.longer)
		add(ByPriority, c.lower)
		l.all = append(l.all, Candidate{Victim: Victim{Job: "spared", Rule: Shortest}, hold: &share.Hold{Size: 99_000}})
		if l.IsGentle() != c.want {
			t.Errorf("%+v: gentle is %v", c, !c.want)
		}
	}
}
