package sim

import (
	"fmt"
	"testing"
)

// TestIdleNamed plays worlds without faults, in which people hold, cancel and change their minds: there L12 looks all
// the time at what is kept, and for whom.
func TestIdleNamed(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed+1), func(t *testing.T) {
			t.Parallel()
			run(t, Options{Seed: seed + 1, World: "small", Faults: []string{}})
		})
	}
}
