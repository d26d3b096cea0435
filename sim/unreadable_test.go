package sim

import "testing"

// TestUnreadable runs worlds in which one record after another is unreadable. In seed 29 a job is given up while a task
// of it continues, and the leader must not count it on that node for ever.
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
