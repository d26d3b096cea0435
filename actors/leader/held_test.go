package leader

import (
	"slices"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// TestHeldIsNotAdmitted: a Hold and an admission may meet: the place that the job was given while its Hold was on the
// way is given back at once. It would be given back before COMMIT anyway, and until then nobody else could have it.
func TestHeldIsNotAdmitted(t *testing.T) {
	for _, held := range []bool{false, true} {
		rec := &messages.JobRecord{Id: "j1", Spec: oneGPU()}
		if held {
			rec.Hold = &messages.Deed{By: &messages.Principal{Name: "ann"}}
		}
		j := newJob(leaderPorts(), somePeers, 1, rec, nil).(*Job)
		var said []letter
		j.Receive(&overheard{message: &actor.Started{}, said: &said})
		said = nil
		j.onAdmit(&overheard{said: &said}, admit{Token: topology.Token{Epoch: 1, Counter: 7}})
		declines := slices.ContainsFunc(said, func(l letter) bool { _, is := l.message.(declined); return is })
		if declines != held || j.states.In(jobQueued) != held {
			t.Errorf("held %v: it says %v and is %q", held, said, j.states.At())
		}
	}
}
