package sim

import (
	"fmt"
	"testing"
)

// TestByzantine plays worlds in which a machine says anything, at full speed: nobody but what runs there is harmed
// (S35). In 12 it names attempts of other machines, which a leader that believed it would end; 123 and 170 broke S8 and
// S31 on an older tree, in a job that was cancelled with the one that it was to run after, and 265, which leans to
// nothing, S17.
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
