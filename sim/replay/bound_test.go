package replay

import (
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/sim/record"
)

// stream are jobs of one GPU that never leave more than a few free, and one that wants the whole room beside them.
func stream() []record.Job {
	var all []record.Job
	for i := range 4000 {
		one := record.Job{
			Submit: time.Duration(i) * 10 * time.Second, Duration: 10 * time.Minute, Limit: 11 * time.Minute, GPUs: 1,
		}
		if all = append(all, one); i == 6 {
			one.GPUs = room.Sum()
			all = append(all, one)
		}
	}
	return all
}

// TestBound: no job waits for longer than its bound, and where nobody sees to that the whole room is had by nobody
// within it.
func TestBound(t *testing.T) {
	o := record.Order{Jobs: stream(), Cluster: room, Policy: record.Synapse}
	r, err := replayed(o, Watch{})
	if err != nil || !r.hasBound() {
		t.Fatal(err)
	}
	if err := r.overBound(); err != nil {
		t.Error(err)
	}
	o.Policy = record.InOrder
	if r, err = replayed(o, Watch{}); err != nil {
		t.Fatal(err)
	}
	if err := r.overBound(); err == nil || !strings.Contains(err.Error(), "its bound was") {
		t.Errorf("by order of arrival, without a promise: %v", err)
	}
	o.Jobs[3].Limit = 0
	if r, err = replayed(o, Watch{}); err != nil || r.hasBound() {
		t.Errorf("one has no limit, and there is a bound: %v", err)
	}
}
