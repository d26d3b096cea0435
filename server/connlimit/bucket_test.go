package connlimit

import (
	"testing"
	"time"
)

// TestBucket checks that unused units can be used at once up to the burst, that an empty bucket returns the time to
// wait, and that a refused request costs nothing.
func TestBucket(t *testing.T) {
	var p Bucket
	now := time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)
	for range 3 {
		if wait := p.Take(1, time.Second, 3, now); wait != 0 {
			t.Fatalf("the burst waits %s", wait)
		}
	}
	for range 3 {
		if wait := p.Take(1, time.Second, 3, now); wait != time.Second {
			t.Fatalf("the next waits %s", wait)
		}
	}
	if wait := p.Take(1, time.Second, 3, now.Add(400*time.Millisecond)); wait != 600*time.Millisecond {
		t.Errorf("a moment later it waits %s", wait)
	}
	if wait := p.Take(1, time.Second, 3, now.Add(time.Second)); wait != 0 {
		t.Errorf("after its second it waits %s", wait)
	}
	later := now.Add(time.Minute)
	if wait := p.Take(10, time.Second, 3, later); wait != 0 {
		t.Errorf("several wait %s where there is one", wait)
	}
	if wait := p.Take(1, time.Second, 3, later); wait != 8*time.Second {
		t.Errorf("behind several more than there were it waits %s", wait)
	}
}
