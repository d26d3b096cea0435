package sim

import "testing"

// TestEveryKindBreaks makes an actor of each kind fail, and checks that the run continues.
func TestEveryKindBreaks(t *testing.T) {
	seen := map[string]int64{}
	missing := len(breakable)
	for seed := uint64(1); seed <= 60 && missing > 0; seed++ {
		r := run(t, Options{Seed: seed, World: "small", Faults: []string{"actor-break"}})
		missing = 0
		for _, kind := range breakable {
			seen[string(kind)] += r.Counters["broken."+string(kind)]
			if seen[string(kind)] == 0 {
				missing++
			}
		}
	}
	for _, kind := range breakable {
		if seen[string(kind)] == 0 {
			t.Errorf("no %s failed", kind)
		}
	}
}
