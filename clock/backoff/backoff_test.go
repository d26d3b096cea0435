package backoff

import (
	"slices"
	"testing"
	"time"
)

// TestPausesDouble checks that pauses double from the first to the limit, computed from the last pause or from the
// number of failures.
func TestPausesDouble(t *testing.T) {
	for _, c := range []struct{ first, limit, second, fourth time.Duration }{
		{1, 100, 2, 8},
		{3, 10, 6, 10},
		{5, 5, 5, 5},
		{9, 4, 4, 4}, // a first pause longer than the limit is used once
		{0, 4, 0, 0}, // a caller that asks for no wait gets none
	} {
		byCount := []time.Duration{After(0, c.first, c.limit)}
		byLast := []time.Duration{Next(0, c.first, c.limit)}
		for i := range 3 {
			byCount = append(byCount, After(i+2, c.first, c.limit))
			byLast = append(byLast, Next(byLast[i], c.first, c.limit))
		}
		if byLast[0] != c.first || byLast[1] != c.second || byLast[3] != c.fourth || !slices.Equal(byCount, byLast) {
			t.Errorf("%v up to %v: %v by count, %v each after the last", c.first, c.limit, byCount, byLast)
		}
	}
	if long := After(1<<30, time.Second, time.Hour); long != time.Hour || After(1, time.Second, time.Hour) != time.Second {
		t.Errorf("after a long time %v", long)
	}
}
