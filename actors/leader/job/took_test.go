package job

import (
	"testing"
	"time"
)

// TestWholeMs: a time of which something is known is at least one millisecond.
func TestWholeMs(t *testing.T) {
	if wholeMs(0) != 0 || wholeMs(time.Microsecond) != 1 || wholeMs(time.Second) != 1000 {
		t.Error("no time is something else than a short one")
	}
}
