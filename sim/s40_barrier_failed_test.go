package sim

import (
	"fmt"
	"testing"
)

// TestBarrierFailed runs worlds in which agents stop between COMMIT and the start of their ranks. In most of them some
// ranks of a gang run alone by then, and S40 bounds how long.
func TestBarrierFailed(t *testing.T) {
	judged := int64(0)
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed+1), func(t *testing.T) {
			judged += run(t, Options{Seed: seed + 1, World: "small", Faults: []string{"start-stop"}}).
				Counters["barrier.failed-judged"]
		})
	}
	if judged < 12 {
		t.Errorf("only %d ranks were judged", judged)
	}
}
