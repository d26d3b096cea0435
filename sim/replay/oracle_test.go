package replay

import (
	"testing"
	"time"

	"github.com/yi-json/synapse/sim/record"
)

// TestKnowsNoFuture: under a policy of ours, what has started by the time at which a job ends would have started just
// so, had that job gone on for longer. Backfilling that knows the future is not like that, or this would be no test.
func TestKnowsNoFuture(t *testing.T) {
	jobs := changed(func(_ int, j *record.Job) { j.Limit = 2 * time.Hour })
	for _, policy := range []string{record.Synapse, record.InOrder, "easy"} {
		starts := func(jobs []record.Job, oracle bool) []life {
			r, err := replayed(record.Order{Jobs: jobs, Cluster: room, Policy: policy, Oracle: oracle}, Watch{})
			if err != nil {
				t.Fatal(err)
			}
			return r.lives
		}
		was, moved := starts(jobs, true), 0
		for longer := range jobs {
			if longer%3 != 0 {
				continue
			}
			other := append([]record.Job(nil), jobs...)
			other[longer].Duration += 15 * time.Minute
			for i, l := range starts(other, policy == "easy") {
				if first := min(l.started, was[i].started); l.started != was[i].started && first < was[longer].ended {
					moved++
				}
			}
		}
		if moved > 0 == (policy != "easy") {
			t.Errorf("%s: %d starts depend on what is yet to come", policy, moved)
		}
	}
}
