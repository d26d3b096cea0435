package sim

import "testing"

// This file tests worlds whose store is a real file.

// TestFile cuts the power during writes. The file keeps some of these writes and loses others. The same seed gives the
// same run in any directory.
func TestFile(t *testing.T) {
	c := played(t, "store-power", "store-error", "leader-crash").Counters
	if c["store.torn"] == 0 || c["store.survived"] == 0 || c["store.survived"] >= c["store.torn"] {
		t.Errorf("of %d torn writes %d were complete", c["store.torn"], c["store.survived"])
	}
}

// TestFileFails runs on a full disk and on a disk that fails at one statement of a write, done or not. It also restores
// an old backup.
func TestFileFails(t *testing.T) {
	c := played(t, "store-full", "store-io", "store-restored", "leader-crash").Counters
	if c["store.unwritten"] == 0 || c["store.written"] == 0 || c["fault.store-restored"] == 0 {
		t.Errorf("%d writes failed, %d writes were reported as failed but were done, %d backups were restored",
			c["store.unwritten"], c["store.written"], c["fault.store-restored"])
	}
}

// played runs the first world that has a file, with these faults, twice.
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
		t.Errorf("first run:\n%s\nrun in another directory:\n%s", first.Line(), again.Line())
	}
	return first
}
