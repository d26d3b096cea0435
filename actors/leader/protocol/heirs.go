package protocol

import (
	"time"

	"github.com/yi-json/synapse/topology"
)

// This file owns the messages between a Job and the Scheduler about a restart in place. The nodes keep the resources of
// an ended attempt for its heir, which is the next attempt of the job on the same nodes.

type (
	// Inherit asks for the token of an heir. All nodes of the ended attempt keep its resources. Job → Scheduler.
	Inherit struct {
		Job     topology.JobID
		From    topology.Token // the ended attempt
		Targets []Target       // its nodes
	}
	// Heir allows an heir. Without a token it refuses one, because a node must not be used again. Scheduler → Job.
	Heir struct {
		From  topology.Token
		Token topology.Token
		Why   string // why there is none
	}
	// Heirless reports that an ended attempt whose resources were kept has no heir. The resources become free.
	// Job → Scheduler.
	Heirless struct {
		Job   topology.JobID
		Token topology.Token
		Ran   time.Duration // all attempts in its place together
	}
)
