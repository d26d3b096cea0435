package replay

import (
	"testing"
	"time"

	"github.com/yi-json/synapse/sim/record"
)

// TestKnowsNoFuture lengthens a job. Under Synapse's own policies, every job that has started by the original end must
// start at the same time. Backfilling with an oracle must differ, because otherwise the test would show nothing.
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
			t.Errorf("%s: %d starts depend on the future", policy, moved)
		}
	}
}
