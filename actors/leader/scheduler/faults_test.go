package scheduler

import (
	"fmt"
	"testing"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
)

// TestWhatConvictsAMachine checks which failures of unknown fault close a node: those of different jobs, and of
// different owners if there ever were several. It does not matter that the other owners' jobs have ended.
func TestWhatConvictsAMachine(t *testing.T) {
	for _, c := range []struct {
		seen, failed []string // owners
		want         bool
	}{
		{[]string{"ann"}, []string{"ann", "ann"}, false},
		{[]string{"ann"}, []string{"ann", "ann", "ann"}, true},
		{[]string{"bob", "ann", "ann", "ann"}, []string{"ann", "ann", "ann"}, false},
		{[]string{"bob", "ann"}, []string{"ann", "bob", "ann"}, true},
	} {
		b := &base{p: &protocol.Ports{Ports: actors.Ports{Constants: actors.DefaultConstants()}}}
		s, who := &jobTable{base: b}, &machine{}
		for _, owner := range c.seen {
			s.owners.see(owner)
		}
		for i, owner := range c.failed {
			(&nodeTable{base: b}).doubt(who, doubt{fmt.Sprint(i), owner})
		}
		if got := s.convicted(who); got != c.want {
			t.Errorf("jobs of %v seen, those of %v failed: convicted %v", c.seen, c.failed, got)
		}
	}
}

// TestFullDiskClosesNothing checks that a full disk never closes a node, however often it fails. Enough other failures
// close it.
func TestFullDiskClosesNothing(t *testing.T) {
	full := "rank 0 on n1 launch failed: mkdir /var/lib/synapse-node/scratch/1: no space left on device"
	for _, c := range []struct {
		failed []string
		want   bool
	}{
		{[]string{full, full, full, full}, false},
		{[]string{"a", full, "b", full}, false},
		{[]string{"a", full, "b", full, "c"}, true},
	} {
		who, closed := &machine{}, false
		for _, detail := range c.failed {
			closed = who.fails(detail, 3)
		}
		if closed != c.want {
			t.Errorf("after %q it is closed: %v", c.failed, closed)
		}
	}
}
