package replay

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain makes garbage collection rarer. A run creates much garbage and keeps little, and with the default a seventh
// of the time goes into the collection.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
