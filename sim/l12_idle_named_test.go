package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
)

// TestIdleNamed runs worlds without faults, in which clients hold, cancel and change jobs. L12 checks there at all
// times which capacity is reserved, and for which job.
func TestIdleNamed(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed+1), func(t *testing.T) {
			t.Parallel()
			run(t, Options{Seed: seed + 1, World: "small", Faults: []string{}})
		})
	}
}

// TestIdleHours checks that a gang starts at once on two idle nodes in different racks if both racks have lost their
// other node for good, however long the gang has waited by then. Otherwise L12 must report it.
func TestIdleHours(t *testing.T) {
	w, err := NewWorld(Options{
		Seed: 1, World: "small", Plain: true, Machines: 4, PerRack: 2, GPUs: []int{8}, Settings: expected(),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.RunFor(10 * time.Second)
	w.PowerLoss(2, 0)
	w.PowerLoss(4, 0)
	w.RunFor(2 * time.Minute)
	w.Submit(spec(2, 20*time.Minute))
	w.RunFor(time.Minute)
	second := w.Submit(spec(2, time.Minute))
	for _, v := range w.Finish() {
		t.Error(v)
	}
	if state := w.Stored(second).GetState(); state != messages.JobState_JOB_STATE_SUCCEEDED {
		t.Errorf("unexpected state of the second gang: %v", state)
	}
}
