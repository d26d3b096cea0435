package clock

import (
	"testing"
	"time"
)

// TestBootNs checks that the boot was in the past, and that the clock advances at the rate of the steady clock.
func TestBootNs(t *testing.T) {
	before := time.Now()
	began := BootNs()
	if began <= 0 {
		t.Fatalf("the machine booted %d ns ago", began)
	}
	after := time.Now()
	time.Sleep(20 * time.Millisecond)
	least := time.Since(after)
	took := time.Duration(BootNs() - began)
	if most := time.Since(before); took < least-time.Millisecond || took > most+time.Millisecond {
		t.Errorf("it counts %v, where between %v and %v passed", took, least, most)
	}
}
