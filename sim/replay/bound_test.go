package replay

import (
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/sim/record"
)

// stream returns jobs of one GPU that leave only a few GPUs free, and one job that needs the whole cluster.
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

// TestBound checks that no job waits longer than its bound. It also checks that without the anti-starvation share the
// job for the whole cluster misses its bound.
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
	if err := r.overBound(); err == nil || !strings.Contains(err.Error(), "its bound is") {
		t.Errorf("without start guarantees: %v", err)
	}
	o.Jobs[3].Limit = 0
	if r, err = replayed(o, Watch{}); err != nil || r.hasBound() {
		t.Errorf("a job has no time limit, but there is a bound: %v", err)
	}
}
