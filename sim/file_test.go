package sim

import "testing"

// This file owns the test of worlds with a real file for their store.

// TestFile plays one: the power goes in the middle of writes, and of some the file
// has all, of others nothing. The same seed gives the same run in any folder.
func TestFile(t *testing.T) {
	o := Options{World: "small", Faults: []string{"store-power", "store-error", "leader-crash"}}
	for w, err := NewWorld(o); !w.draw.File; w, err = NewWorld(o) {
		if err != nil {
			t.Fatal(err)
		}
		o.Seed++
	}
	first := run(t, o)
	if again := run(t, o); again.Line() != first.Line() {
		t.Errorf("first:\n%s\nin another folder:\n%s", first.Line(), again.Line())
	}
	if c := first.Counters; c["store.torn"] == 0 || c["store.survived"] == 0 || c["store.survived"] >= c["store.torn"] {
		t.Errorf("of %d torn writes %d were whole", c["store.torn"], c["store.survived"])
	}
}
