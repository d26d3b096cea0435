package sim

import "testing"

// TestUnreadable plays worlds in which nobody can read one record after another. In seed 29 a job is given up while a
// task of it goes on, and the leader must not count it on that node for ever.
func TestUnreadable(t *testing.T) {
	struck := int64(0)
	for _, o := range []Options{
		{Seed: 29, World: "arrays", Lean: []string{"unreadable"}},
		{Seed: 1, World: "arrays", Faults: []string{"unreadable", "agent-crash"}},
		{Seed: 1, World: "small", Faults: []string{"unreadable"}},
		{Seed: 2, World: "small", Faults: []string{"unreadable", "clone"}},
		{Seed: 3, World: "small", Faults: []string{"unreadable", "store-restored"}},
	} {
		struck += run(t, o).Counters["fault.unreadable"]
	}
	if struck < 5 {
		t.Errorf("a record was unreadable %d times", struck)
	}
}
