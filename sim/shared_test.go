package sim

import (
	"fmt"
	"testing"
)

// TestShared runs small clusters with drawn queues and preemption. It requires preemptions by both rules and on
// borrowed quota, because a tree in which nothing happens shows nothing.
func TestShared(t *testing.T) {
	seeds := []uint64{6000, 6002, 6004, 6005, 14, 2107, 2168, 2189, 73218}
	if testing.Short() {
		seeds = seeds[:1]
	}
	counters := map[string]int64{}
	t.Run("seeds", func(t *testing.T) {
		for _, seed := range seeds {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				r := run(t, Options{Seed: seed, World: "small", Shares: true})
				for name, n := range r.Counters { //order: each is summed up
					counters[name] += n
				}
			})
		}
	})
	for _, name := range []string{
		"shares.borrowed", "preemptions.priority", "preemptions.reclaim", "preemptions.started", "preemptions.tried",
	} {
		if counters[name] == 0 && !testing.Short() {
			t.Errorf("counter %s is 0", name)
		}
	}
}
