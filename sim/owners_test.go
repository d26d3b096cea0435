package sim

import (
	"fmt"
	"testing"
)

// TestOwnersKept runs small clusters with restricted queues. Some jobs must be rejected there, and others accepted.
func TestOwnersKept(t *testing.T) {
	counters := map[string]int64{}
	for _, seed := range []uint64{1, 2, 4} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := run(t, Options{Seed: seed, World: "small", Shares: true})
			for name, n := range r.Counters { //order: each is summed up
				counters[name] += n
			}
		})
	}
	for _, name := range []string{"owners.refused", "owners.admitted"} {
		if counters[name] == 0 {
			t.Errorf("counter %s is 0", name)
		}
	}
}
