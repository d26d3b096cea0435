package replay

import (
	"fmt"
	"testing"

	"github.com/yi-json/synapse/sim/record"
)

// TestNothingStaysKept checks that nodes of a moved or dropped start guarantee are free once the change is on disk,
// which takes no time in a replay. Otherwise a moved gang could leave too few nodes, and jobs would wait for ever.
func TestNothingStaysKept(t *testing.T) {
	for seed := range 3 {
		jobs := workload(uint64(seed), 200)
		for i := range jobs {
			jobs[i].User, jobs[i].Limit = fmt.Sprint("user ", i%5), 0
			if i%10 == 0 {
				jobs[i].GPUs = 40 + i%17
			} else if i%7 == 0 {
				jobs[i].Duration *= 200
			}
		}
		r, err := replayed(record.Order{Jobs: jobs, Cluster: room, Policy: record.Synapse}, Watch{})
		if err != nil {
			t.Fatal(err)
		}
		if f := r.result(); f.Unfinished > 0 {
			t.Errorf("seed %d: %d of %d jobs never end", seed, f.Unfinished, f.Jobs)
		}
		for id, i := range r.known { //order: each by itself
			if r.seen.Written(id) {
				t.Errorf("seed %d: nodes are still reserved for job %d at the end", seed, i)
			}
		}
	}
}
