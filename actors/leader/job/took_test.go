package job

import (
	"testing"
	"time"
)

// TestWholeMs checks that a known duration is recorded as at least one millisecond.
func TestWholeMs(t *testing.T) {
	if wholeMs(0) != 0 || wholeMs(time.Microsecond) != 1 || wholeMs(time.Second) != 1000 {
		t.Error("a short duration counts as none")
	}
}
