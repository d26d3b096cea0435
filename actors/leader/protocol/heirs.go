package protocol

import (
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the messages between a Job and the Scheduler about a restart in place. The nodes keep the resources of
// an ended attempt for its heir, which is the next attempt of the job on the same nodes. In a swap, other nodes replace
// the nodes that are lost or must not be used again.

type (
	// Inherit asks for the token of an heir. Job → Scheduler, answered by Heir.
	Inherit struct {
		Job   topology.JobID
		From  topology.Token // the ended attempt
		Kept  []Target       // its nodes that keep its resources
		Gone  []Target       // its other nodes, which must be replaced
		Swaps bool           // nodes may be replaced
	}
	// Heir allows an heir. Without a token it refuses one, because a node must not be used again. If nodes are replaced,
	// it has all targets of the heir, and the new nodes are claimed. Scheduler → Job.
	Heir struct {
		From    topology.Token
		Token   topology.Token
		Targets []Target // none: the nodes of the attempt before
		// Spares is set if nodes are replaced. It has the nodes that can replace others later.
		Spares []*messages.Spare
		Why    string // why there is none
	}
	// Inherited reports that COMMIT of an heir is on disk: it takes over what the attempt before holds on these nodes.
	// Job → Scheduler.
	Inherited struct {
		Job     topology.JobID
		From    topology.Token
		Token   topology.Token
		Targets []Target
		Spares  []*messages.Spare
	}
	// Heirless reports that an ended attempt whose resources were kept has no heir. The resources become free.
	// Job → Scheduler.
	Heirless struct {
		Job   topology.JobID
		Token topology.Token
		Ran   time.Duration // all attempts in its place together
	}
)
