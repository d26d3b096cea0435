package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able/pace"
)

// TestIdleHeap checks that memory is returned if much is held and no collection has run, and not during work.
func TestIdleHeap(t *testing.T) {
	const mb = 1 << 20
	before := heap{held: 500 * mb, live: 30 * mb, collections: 7}
	for what, c := range map[string]struct {
		now  heap
		want bool
	}{
		"a crowd has gone": {heap{500 * mb, 140 * mb, 7}, true}, "it works": {heap{500 * mb, 30 * mb, 8}, false},
		"it is small": {heap{36 * mb, 10 * mb, 7}, false},
	} {
		if got := c.now.idle(before); got != c.want {
			t.Errorf("%s: given back: %v", what, got)
		}
	}
	if h := readHeap(); h.held == 0 || h.held < h.live {
		t.Errorf("read as %+v", h)
	}
}

// TestGrowth checks that a small heap, and one that has been large for a while, may grow to five times its live
// part. A large heap may only double, and a heap that has recently become large may grow by half.
func TestGrowth(t *testing.T) {
	const mb = 1 << 20
	for what, c := range map[string]struct {
		live, lasting uint64
		want          int
	}{
		"nothing": {0, 0, 400}, "small": {8 * mb, 0, 400}, "large for a while": {64 * mb, 64 * mb, 400},
		"larger for a while": {128 * mb, 128 * mb, 200}, "100,000 jobs for a while": {600 * mb, 600 * mb, 100},
		"large since a moment": {200 * mb, 10 * mb, 50}, "a crowd has come": {40 * mb, 10 * mb, 100},
		"less of one": {20 * mb, 2 * mb, 160},
	} {
		if got := growth(c.live, c.lasting); got != c.want {
			t.Errorf("%s: %d%%, want %d%%", what, got, c.want)
		}
	}
	for _, c := range []struct {
		before, live, want uint64
		since              time.Duration
	}{
		{100 * mb, 20 * mb, 20 * mb, 0}, {20 * mb, 120 * mb, 20 * mb, 0}, {20 * mb, 120 * mb, 70 * mb, lastingAfter / 2},
		{20 * mb, 120 * mb, 120 * mb, 2 * lastingAfter},
	} {
		if got := lasts(c.before, c.live, c.since); got != c.want {
			t.Errorf("of %d, where there were %d %s ago, %d last, want %d", c.live, c.before, c.since, got, c.want)
		}
	}
}

// TestBoundGrowth checks that the growth is set again after each collection.
func TestBoundGrowth(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	runtime.GC()
	boundGrowth(0, time.Now())
	hoard := make([]byte, 100<<20)
	for limit := pace.Until(time.Minute); ; {
		runtime.GC()
		samples := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(samples)
		if got := samples[0].Value.Uint64(); got < heapGrowth/2 {
			break
		} else if time.Now().After(limit) {
			t.Fatalf("with 100 MB that have just come it grows by %d%%", got)
		}
	}
	runtime.KeepAlive(hoard)
}
