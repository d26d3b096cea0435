package job

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// This file owns a Job that named a time to begin. It asks to be planned when that has come: a time of day, so the wall
// clock of whoever leads decides it.

// beginsIn is how long the job must not be planned yet, a minute at most. A begin that was moved to an earlier time
// holds only once it is on disk, and one that was moved to a later time at once.
func (j *Job) beginsIn() time.Duration {
	return protocol.UntilMs(max(j.rec.Spec.BeginUnixMs, j.wantedSpec().BeginUnixMs), j.p.Clock.WallMs())
}

// beginRefused says why another begin is not to be had; nil: it is.
func (j *Job) beginRefused(m *messages.Update) *messages.Outcome {
	if !m.SetBegin {
		return nil
	}
	if j.hasBegun() {
		return &messages.Outcome{
			Code: messages.Code_CODE_CONFLICT, Field: "begin_unix_ms", Text: "job has already started",
			Hint: "requeue it with --hold first",
		}
	}
	return protocol.TooFarAhead("begin_unix_ms", m.BeginUnixMs, j.p.Clock.WallMs())
}

// hasBegun reports whether an attempt goes on whose COMMIT is on disk, or on its way there.
func (j *Job) hasBegun() bool {
	return j.att != nil && j.att.End == nil || j.writing && j.next.committed
}

// postpone takes a job out of the queue that is to begin later, and gives up an attempt in the making; of one whose
// COMMIT is on its way to disk another begin was refused.
func (j *Job) postpone(ctx actor.Context) {
	if j.beginsIn() <= 0 {
		return
	}
	j.unpromise()
	if j.states.In(jobStopping) {
		return // what it has counts until it has left
	}
	ctx.Send(j.peers.Scheduler, protocol.Withdraws{Job: j.id})
	if j.states.In(jobReserving, jobDeciding) {
		j.withdraw(ctx)
	}
}

// What follows owns what a Job does with the end of another that it waits for.

// onForegone notes how a job has ended that this one waits for.
func (j *Job) onForegone(ctx actor.Context, m protocol.Foregone) {
	_, known := j.rec.KnownOf(m.Known.Job)
	if known || slices.ContainsFunc(j.foregone, func(k *messages.AfterKnown) bool { return k.Job == m.Known.Job }) {
		return
	}
	j.foregone = append(j.foregone, m.Known)
	j.advance(ctx)
}

// draftAfter puts into a write what has come in of the jobs that this one waits for.
func (j *Job) draftAfter(d *draft) {
	if len(j.foregone) > 0 && !d.rec.State.Terminal() {
		d.rec.AfterKnown = slices.Concat(d.rec.AfterKnown, j.foregone)
		d.foregone, d.dirty = len(j.foregone), true
	}
}

// What follows owns that the uid of a job is on disk before anything is done under it.

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
