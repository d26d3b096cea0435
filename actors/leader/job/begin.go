package job

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

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
			Code: messages.Code_CODE_CONFLICT, Field: "begin_unix_ms", Text: "the job does not wait: it has begun",
			Hint: "requeue it with a hold first",
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
