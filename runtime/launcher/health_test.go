package launcher_test

import (
	"testing"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/health"
	"github.com/yi-json/synapse/runtime/launcher"
)

// fixedHealth records the occasions for which checks are requested.
type fixedHealth struct{ runs chan health.Occasion }

func (h fixedHealth) Show(to func(*messages.MachineHealth)) { to(&messages.MachineHealth{}) }

func (h fixedHealth) Run(when health.Occasion, to func(*messages.MachineHealth)) {
	h.runs <- when
	to(&messages.MachineHealth{})
}

// TestOccasions checks which checks run for each occasion. A suspected node runs all of them.
func TestOccasions(t *testing.T) {
	h := fixedHealth{make(chan health.Occasion, 1)}
	r := newRig(t, room(t), func(o *launcher.Options) { o.Health = h })
	for _, c := range []struct {
		occasion messages.CheckOccasion
		want     health.Occasion
	}{
		{messages.CheckOccasion_CHECK_OCCASION_WORK, health.Prepare},
		{messages.CheckOccasion_CHECK_OCCASION_FAILURE, health.Failure},
		{messages.CheckOccasion_CHECK_OCCASION_SUSPECT, health.Join | health.Prepare | health.Failure},
	} {
		r.tell(&messages.CheckMachine{Occasion: c.occasion, Token: id(0).Token})
		if got := <-h.runs; got != c.want {
			t.Errorf("%v runs the checks %b, want %b", c.occasion, got, c.want)
		}
	}
}
