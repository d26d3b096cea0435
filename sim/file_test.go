package sim

import "testing"

// This file owns the test of worlds with a real file for their store.

// TestFile plays one: the power goes in the middle of writes, and of some the file
// has all, of others nothing. The same seed gives the same run in any folder.
func TestFile(t *testing.T) {
	c := played(t, "store-power", "store-error", "leader-crash").Counters
	if c["store.torn"] == 0 || c["store.survived"] == 0 || c["store.survived"] >= c["store.torn"] {
		t.Errorf("of %d torn writes %d were whole", c["store.torn"], c["store.survived"])
	}
}

// TestFileFails: its disk is full, or fails at one statement of a write, which is done
// or not; and an old backup is restored.
func TestFileFails(t *testing.T) {
	c := played(t, "store-full", "store-io", "store-restored", "leader-crash").Counters
	if c["store.unwritten"] == 0 || c["store.written"] == 0 || c["fault.store-restored"] == 0 {
		t.Errorf("%d writes failed, %d were told to have failed and had not, %d backups were restored",
			c["store.unwritten"], c["store.written"], c["fault.store-restored"])
	}
}

// played is the first world that has a file, with these faults, played twice.
func played(t *testing.T, faults ...string) Result {
	t.Helper()
	o := Options{World: "small", Faults: faults}
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
	return first
}
