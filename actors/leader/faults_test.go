package leader

import (
	"fmt"
	"testing"

	"github.com/yi-json/synapse/actors"
)

// TestWhatConvictsAMachine: what closes a machine, where nobody knows whose fault its failures are: those of different
// jobs, and of different owners if there ever were several. That the others' jobs are over at the moment changes
// nothing.
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
		s, who := &Scheduler{p: &Ports{Ports: actors.Ports{Constants: actors.DefaultConstants()}}}, &machine{}
		for _, owner := range c.seen {
			s.owners.see(owner)
		}
		for i, owner := range c.failed {
			s.doubt(who, doubt{fmt.Sprint(i), owner})
		}
		if got := s.convicted(who); got != c.want {
			t.Errorf("jobs of %v seen, those of %v failed: convicted %v", c.seen, c.failed, got)
		}
	}
}
