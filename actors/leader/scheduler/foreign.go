package scheduler

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns machines of another cluster: one that was moved here with its
// data directory, one whose --join is wrong, or all of them where somebody made a
// cluster again, with an empty store, over the machines of an old one. Such a
// machine is not taken, and nothing is concluded from its epoch: over there they
// are counted by themselves, and believed here one machine would stop all
// admissions. It is the actors that refuse it and not the link, so that people
// read of it at both ends.

// foreign reports whether a machine says that it belongs to another cluster. An
// agent of an earlier version does not say.
func (s *Scheduler) foreign(h *messages.Hello) bool {
	return h.ClusterId != "" && h.ClusterId != s.p.ClusterID
}

// turnForeignAway refuses it as often as it says Hello, and tells people once for
// each link. It is asked again for as long as it is linked: the refusal may have
// been lost.
func (s *Scheduler) turnForeignAway(ctx actor.Context, h *messages.Hello) {
	s.p.Host.Count("scheduler.foreign", 1)
	text := fmt.Sprintf(
		"this is cluster %s, and the machine belongs to cluster %s: point its --join at its own scheduler; or, to have it "+
			"here for good, end its agent, move the file ledger of its --data-dir aside, and start it again, which stops what "+
			"it still runs for %s",
		s.p.ClusterID, h.ClusterId, h.ClusterId)
	if who := topology.NodeID(h.Origin.GetNode()); s.greetings.foreign[who] != h.ClusterId {
		s.greetings.foreign[who] = h.ClusterId
		s.p.Log.Error("Failed to register node %s: %s", h.Origin.GetNode(), text)
	}
	s.reject(ctx, h, messages.RejectReason_REJECT_REASON_ANOTHER_CLUSTER, text)
}
