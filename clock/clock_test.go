package clock

import (
	"testing"
	"time"
)

// TestBootNs: the machine booted in the past, and the clock runs as fast as the steady one while nothing sleeps.
func TestBootNs(t *testing.T) {
	began, real := BootNs(), time.Now()
	if began <= 0 {
		t.Fatalf("the machine booted %d ns ago", began)
	}
	time.Sleep(20 * time.Millisecond)
	took, want := time.Duration(BootNs()-began), time.Since(real)
	if took < 20*time.Millisecond || took > want+time.Millisecond {
		t.Errorf("it counts %v, where %v passed", took, want)
	}
}
