package sim

import "testing"

// TestHangNamed checks that small clusters have gangs that hang, that these gangs are ended, and that their ends name
// the rank.
func TestHangNamed(t *testing.T) {
	counters := map[string]int64{}
	for seed := uint64(1); seed <= 6; seed++ {
		r := run(t, Options{Seed: seed, World: "small", Hangs: true})
		for name, n := range r.Counters { //order: each is summed up
			counters[name] += n
		}
	}
	t.Logf("%d hangs were ended, %d of them by name", counters["hangs.ended"], counters["hangs.named"])
	for _, name := range []string{"hangs.ended", "hangs.named"} {
		if counters[name] == 0 {
			t.Errorf("counter %s is 0", name)
		}
	}
}
