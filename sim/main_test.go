package sim

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain lets garbage lie longer: a run makes much of it and keeps little, and the default has it collected so often
// that a seventh of the time goes there.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
