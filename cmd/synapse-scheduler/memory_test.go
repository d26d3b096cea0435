package main

import "testing"

// TestIdleHeap: memory is given back where much is held and nothing was collected meanwhile, and not while there is
// work.
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
