// Package protocol holds the messages between a leader's actors, and their ports. The packages of these actors import
// this package and not each other.
package protocol

import (
	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns the ports of a leading process.

// Ports holds the interfaces and settings that a leading process gives to its actors.
type Ports struct {
	actors.Ports
	Epoch     uint64
	ClusterID string
	Levels    []string // of the topology tree, coarse to fine
	Store     actors.Store
	Peers     actors.Peers
	Calls     actors.Log // requests of nodes and clients
	Settings  policy.Settings
	Planner   policy.Planner // if set, replaces the planner that the settings select
	// AcceptLoss is the operator's statement after a restore of an old backup. Decisions of leaders up to this epoch that
	// the store does not contain are given up.
	AcceptLoss uint64
	// UIDs is the range from which each job without a user, or with the user root, gets its own UID. If the range is
	// empty, such jobs use the node's default.
	UIDs topology.UIDRange
	// Owners holds the limits of each owner.
	Owners OwnerLimits
	// NewJobID returns an ID that was never used.
	NewJobID func() topology.JobID
	// Passed, if set, receives each completed phase of an attempt. It must return at once.
	Passed func(actors.Passage)
	// Unwritable, if set, receives why the store cannot be written now, and "" when it can be written again.
	Unwritable func(why string)

	// Since is when this leader started. No node had sent it a message before. Assemble sets it.
	Since actors.Instant
}

// SayUnwritable reports that the store cannot be written, or can be again.
func (p *Ports) SayUnwritable(why string) {
	if p.Unwritable != nil {
		p.Unwritable(why)
	}
}

// OwnerLimits limits the waiting jobs and the UIDs of one owner. The limits apply without configured queues. A zero
// means no limit.
type OwnerLimits struct {
	Waiting    int64 // waiting jobs; an array counts as one, in addition to its elements that are jobs
	Bytes      int64 // of the records of those
	UIDPercent int64 // percentage of the UIDs that the jobs of one owner may hold
}

// DefaultOwnerLimits returns limits far above the needs of a person, and far below the capacity of a scheduler.
func DefaultOwnerLimits() OwnerLimits {
	return OwnerLimits{Waiting: 10_000, Bytes: 256 << 20, UIDPercent: 50}
}
