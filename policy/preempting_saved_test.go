package policy

import (
	"slices"
	"testing"

	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// This file tests that a job whose gang has just saved a checkpoint is the cheapest victim.

// TestCheapestHasSaved checks that of two equal jobs the one is stopped that acknowledged a checkpoint last.
func TestCheapestHasSaved(t *testing.T) {
	for name, c := range map[string]struct {
		saved [2]int64 // when each job acknowledged a checkpoint, 0: never
		want  int
	}{
		"only the first": {[2]int64{990, 0}, 0}, "only the second": {[2]int64{0, 990}, 1},
		"the first later": {[2]int64{900, 500}, 0}, "the second later": {[2]int64{500, 900}, 1},
	} {
		q := share.QueueSpec{Name: "q", Preemption: share.Preemption{ByPriority: yes()}}
		x := newTheatre(t, 2, &share.Queues{Default: "q", Queues: []share.QueueSpec{q}})
		x.enter(act{runs: 1e6, gang: wholes(1)}, act{runs: 1e6, gang: wholes(1)})
		x.saved = map[topology.JobID]int64{}
		for i, at := range c.saved {
			if at > 0 {
				x.saved[x.cast[i].id] = at * second
			}
		}
		x.enter(act{at: 1000, runs: 50, gang: wholes(1), priority: 1})
		x.run(1100)
		if want := []string{string(x.cast[c.want].id)}; !slices.Equal(x.victims(), want) {
			t.Errorf("%s: %v were stopped, want %v", name, x.victims(), want)
		}
	}
}

// TestSavedIsNews checks that a job searches for victims again soon after a possible victim has saved.
func TestSavedIsNews(t *testing.T) {
	x := newTheatre(t, 1, shortQueue(-1))
	x.saved = map[topology.JobID]int64{}
	long := x.enter(act{runs: 1e6, gang: wholes(1)})
	short := x.enter(act{at: 9000, runs: 50, gang: wholes(1)})
	x.looks = func() {
		if x.now == 9100*second && x.saved[long.id] == 0 {
			x.saved[long.id] = x.now
			x.j.Saved()
		}
	}
	x.run(9200)
	if at := short.began(); at < 9100 || at > 9120 {
		t.Errorf("it began at %d, and should have soon after 9100", at)
	}
}
