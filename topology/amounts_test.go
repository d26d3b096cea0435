package topology

// This file tests the arithmetic of amounts.

import (
	"math"
	"slices"
	"testing"
)

// TestScaled checks that results are rounded up, that negative arguments count as 0, and that large results are cut.
func TestScaled(t *testing.T) {
	for _, c := range []struct{ a, b, c, want int64 }{
		{7, 3, 2, 11}, {6, 3, 2, 9}, {7, 3, 1, 21}, {0, 5, 3, 0}, {-7, 3, 2, 0}, {7, -3, 1, 0},
		{math.MaxInt64, 1000, 1000, math.MaxInt64}, {math.MaxInt64, 2, 1, math.MaxInt64},
		{math.MaxInt64, math.MaxInt64, 3, math.MaxInt64}, {math.MaxInt64, 3, math.MaxInt64, 3},
	} {
		if got := Scaled(c.a, c.b, c.c); got != c.want {
			t.Errorf("%d·%d/%d is %d, want %d", c.a, c.b, c.c, got, c.want)
		}
	}
}

// TestNodesOfAPlacement checks that a node with several slots is listed once.
func TestNodesOfAPlacement(t *testing.T) {
	p := Placement{Slots: []Slot{{Node: "a"}, {Node: "a"}, {Node: "b"}, {Node: "c"}, {Node: "c"}}}
	if got := p.Nodes(); !slices.Equal(got, []NodeID{"a", "b", "c"}) {
		t.Errorf("%v", got)
	}
}
