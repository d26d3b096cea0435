package job

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
)

// This file owns that the uid of a job is on disk before anything is done under it.

// numbering is an attempt that begins once the job's uid is on disk.
type numbering struct {
	uid  uint32
	turn uint64
	at   actors.Instant // when it was planned
	plan protocol.AttemptPlan
}

// planHolds is how long the uid may take to disk. After that the nodes of the plan may be promised to others by a time
// at which the job would still be there: the attempt is planned again, and finds the uid on disk.
const planHolds = time.Second

// draftUID writes the uid that came with the first admission.
func (j *Job) draftUID(d *draft) {
	if n := j.numbering; n != nil && d.rec.UidToCome {
		d.rec.Uid, d.rec.UidTurn, d.rec.UidToCome, d.dirty = n.uid, n.turn, false, true
	}
}

// afterUID begins the attempt: its uid is on disk.
func (j *Job) afterUID(ctx actor.Context) {
	n := j.numbering
	if n == nil || j.rec.UidToCome || !j.states.In(jobReserving) {
		return
	}
	if j.p.Clock.Now().Since(n.at) > planHolds {
		j.withdraw(ctx)
		return
	}
	j.numbering = nil
	n.plan.UID, n.plan.Spec = j.rec.Uid, j.rec.Spec
	j.coordinate(ctx, n.plan)
}

func (j *Job) onLacksUID(ctx actor.Context, m protocol.LacksUID) {
	if j.lacks != m.Why {
		j.lacks = m.Why
		j.show(ctx)
	}
}
