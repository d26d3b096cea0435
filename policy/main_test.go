package policy

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain raises the garbage collector's target. A plan allocates much and keeps little, and with the default target a
// sixth of the time is spent on collection.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
