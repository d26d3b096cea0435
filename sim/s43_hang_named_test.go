package sim

import "testing"

// TestHangNamed checks that small clusters have gangs that hang, that these gangs are ended, and that their ends name
// the rank.
func TestHangNamed(t *testing.T) {
	counters := map[string]int64{}
	for seed := uint64(1); seed <= 8; seed++ {
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

// TestHangsBesideGuarantees plays two worlds in which checkers of start guarantees were wrong. In seed 116, an ended
// attempt counted as a part of its node (S11b). In seed 218, a leader died after it had counted a node as lost (S11a).
func TestHangsBesideGuarantees(t *testing.T) {
	for _, seed := range []uint64{116, 218} {
		run(t, Options{Seed: seed, World: "small", Hangs: true})
	}
}
