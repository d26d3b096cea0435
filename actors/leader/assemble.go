// Package leader holds the actors of the scheduler that leads: the Scheduler, a Job
// for each job that is not over, a Coordinator for each attempt on its way to the
// barrier, the Racks that hear the machines, and the Journal. It owns every decision
// about jobs and machines; of a machine it believes what that machine says, and tells
// it nothing but messages. It knows no code of the machine's side.
package leader

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns how a leader's actors come to be, and what the process gives them.

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

	since actors.Instant // when this leader came to be: no machine had spoken to it before
}

// unwritable tells whoever wants to know that the store cannot be written, or can be again.
func (p *Ports) unwritable(why string) {
	if p.Unwritable != nil {
		p.Unwritable(why)
	}
}

// Assemble builds the actor tree of a process that leads, and returns its root.
func Assemble(p Ports) *actor.PID {
	p.since = p.Clock.Now()
	return actors.Root(&p.Ports, func(ctx actor.Context) {
		// The Journal and the Mirror first: the Scheduler speaks to them when it starts.
		actors.Spawn(ctx, &p.Ports, actors.KindJournal, "journal", func() actor.Actor { return newJournal(&p) })
		actors.Spawn(ctx, &p.Ports, actors.KindMirror, "mirror", func() actor.Actor {
			return mirror.New(&p.Ports, p.Epoch, p.Levels)
		})
		actors.Spawn(ctx, &p.Ports, actors.KindScheduler, actors.SchedulerName, func() actor.Actor {
			return newScheduler(&p)
		})
	})
}
