// Package protocol holds what the actors of a leader say to each other, and what they are given. None of their packages
// imports that of another: all of them import this one.
package protocol

import (
	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns what a process that leads gives its actors.

// Ports are all that a leading process gives its actors.
type Ports struct {
	actors.Ports
	Epoch     uint64
	ClusterID string
	Levels    []string // of the fabric, coarse to fine
	Store     actors.Store
	Peers     actors.Peers
	Calls     actors.Log // what machines and clients ask for
	Settings  policy.Settings
	Planner   policy.Planner // decides which gangs start, in place of the one that the settings ask for
	// AcceptLoss is the operator's word, after a restore from an old backup: what
	// leaders up to this epoch decided and the store does not know is given up.
	AcceptLoss uint64
	// UIDs are given to jobs that name no user, or root, each to one; none: they have what a machine takes for all of
	// them.
	UIDs topology.UIDRange
	// Owners are the limits of each owner.
	Owners OwnerLimits
	// NewJobID makes an id that was never used.
	NewJobID func() topology.JobID
	// Passed, if anybody follows attempts, is told of each phase that is over. It answers nothing and waits for nothing.
	Passed func(actors.Passage)
	// Unwritable, if any, is told why the store cannot be written now, and "" once it can be written again.
	Unwritable func(why string)

	// Since is when this leader came to be: no machine had spoken to it before. Assemble sets it.
	Since actors.Instant
}

// SayUnwritable tells whoever wants to know that the store cannot be written, or can be again.
func (p *Ports) SayUnwritable(why string) {
	if p.Unwritable != nil {
		p.Unwritable(why)
	}
}

// OwnerLimits limit what one owner may have in all, without anybody describing a queue. The zero of each is no limit.
type OwnerLimits struct {
	Waiting    int64 // jobs that wait; an array is one beside its elements that are jobs
	Bytes      int64 // of the records of those
	UIDPercent int64 // of the uids, that the jobs of one owner hold
}

// DefaultOwnerLimits are far above what a person needs, and far below what a scheduler can hold.
func DefaultOwnerLimits() OwnerLimits {
	return OwnerLimits{Waiting: 10_000, Bytes: 256 << 20, UIDPercent: 50}
}
