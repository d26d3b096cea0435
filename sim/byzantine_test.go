package sim

import (
	"fmt"
	"testing"
)

// TestByzantine runs worlds in which one node sends arbitrary messages at full speed. It checks that only the tasks of
// that node are harmed (S35). In seed 12 the node names attempts of other nodes, which a leader that believed it would
// end. Seeds 123 and 170 broke S8 and S31 on an older tree, in a job that was cancelled together with the job it
// follows. Seed 265, which leans to no fault, broke S17.
func TestByzantine(t *testing.T) {
	for _, seed := range []uint64{12, 123, 170, 265} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			o := Options{Seed: seed, World: "small", Lean: []string{"byzantine"}}
			if seed == 265 {
				o.Lean = nil
			}
			run(t, o)
		})
	}
}
