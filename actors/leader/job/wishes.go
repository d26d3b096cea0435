package job

import (
	"fmt"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// This file owns what people want of a job that is there: cancel, hold, requeue.
// A wish goes with the next write, and is answered once that is on disk: how it
// went is known only then, since the job may have ended meanwhile.

// asks has the sender answered with the next write; at once where the job is
// over, and tells then that there is nothing left to do.
func (j *Job) asks(ctx actor.Context, answer func() any) (open bool) {
	if j.rec.State.Terminal() {
		ctx.Respond(answer())
		return false
	}
	j.askers = append(j.askers, protocol.Asker{PID: ctx.Sender(), Answer: answer})
	return true
}

func (j *Job) onCancel(ctx actor.Context, m *messages.Cancel) {
	answer := func() any {
		reply := &messages.CancelReply{Job: m.Job, Outcome: messages.OK()}
		if j.rec.State.Terminal() && j.rec.State != messages.JobState_JOB_STATE_CANCELLED {
			reply.Outcome = messages.AlreadyEnded(j.rec)
		}
		return reply
	}
	if j.rec.Cancel != nil {
		ctx.Respond(answer())
		return
	}
	if !j.asks(ctx, answer) {
		return
	}
	if j.cancel == nil {
		j.cancel = &messages.Deed{By: m.Principal, AtUnixMs: j.p.Clock.WallMs(), Reason: m.Reason}
	}
	j.finish(ctx, messages.Cause_CAUSE_CANCELLED, m.Reason, "")
	j.advance(ctx)
}

func (j *Job) onHold(ctx actor.Context, m *messages.Hold) {
	answer := func() any {
		reply := &messages.HoldReply{Job: m.Job, Outcome: messages.OK(), Release: m.Release}
		if j.rec.State.Terminal() {
			reply.Outcome = messages.AlreadyEnded(j.rec)
		}
		return reply
	}
	if !j.asks(ctx, answer) {
		return
	}
	if m.Release {
		j.wish = &protocol.HoldWish{}
	} else {
		j.keep(ctx, m.Principal, m.Reason)
	}
	j.advance(ctx)
}

// wantedHold is the hold as people want it: their last wish, which may not be on
// disk yet, else what is.
func (j *Job) wantedHold() *messages.Deed {
	if j.wish != nil {
		return j.wish.Hold
	}
	return j.rec.Hold
}

// kept reports whether the job must not be planned: it is to be held, or its
// release is not on disk yet.
func (j *Job) kept() bool { return j.rec.Hold != nil || j.wantedHold() != nil }

// keep has the job not planned until it is released, and gives up an attempt in
// the making; one whose COMMIT is on its way to disk was sooner, and runs on. Of
// a hold that is asked for twice, the first one's words stay.
func (j *Job) keep(ctx actor.Context, by *messages.Principal, reason string) {
	if j.wantedHold() != nil {
		return
	}
	j.wish = &protocol.HoldWish{Hold: &messages.Deed{By: by, AtUnixMs: j.p.Clock.WallMs(), Reason: reason}}
	if j.hasBegun() || j.states.In(jobStopping) { // what it has counts in its queue, and its array, until it has left
		return
	}
	ctx.Send(j.peers.Scheduler, protocol.Withdraws{Job: j.id})
	j.holdsBack(ctx)
	if j.states.In(jobReserving, jobDeciding) {
		j.withdraw(ctx)
	}
}

// onRequeue ends the attempt that was meant. The naive way, to end whichever
// runs, ends two where the answer to the first request was lost.
func (j *Job) onRequeue(ctx actor.Context, m *messages.Requeue) {
	run := m.Run
	if run == 0 {
		run = j.rec.Runs
	}
	answer := func() any { return j.requeueReply(m, run) }
	if run > j.rec.Runs || j.isLastRun(run) {
		ctx.Respond(answer()) // what is refused changes nothing, and holds nothing
		return
	}
	if !j.asks(ctx, answer) {
		return
	}
	if m.Hold {
		j.keep(ctx, m.Principal, m.Reason)
	}
	if j.att != nil && j.att.Run == run {
		why := strings.TrimSuffix("requeued by "+m.Principal.GetName()+": "+m.Reason, ": ")
		j.finish(ctx, messages.Cause_CAUSE_REQUEUED, why, "")
	}
	j.advance(ctx)
}

// isLastRun reports whether a run has not ended, and no other may follow it.
func (j *Job) isLastRun(run int32) bool {
	return j.rec.Spec.GetRestart().GetNever() && j.att != nil && j.att.Run == run && j.att.End == nil
}

// requeueReply tells what of the wish to end a run is on disk.
func (j *Job) requeueReply(m *messages.Requeue, run int32) *messages.RequeueReply {
	reply := &messages.RequeueReply{Job: m.Job, Outcome: messages.OK()}
	conflict := func(field, format string, args ...any) {
		reply.Outcome = &messages.Outcome{Code: messages.Code_CODE_CONFLICT, Field: field, Text: fmt.Sprintf(format, args...)}
	}
	switch {
	case j.rec.State.Terminal():
		reply.Outcome = messages.AlreadyEnded(j.rec)
	case run > j.rec.Runs:
		conflict("run", "job has no attempt %d: its latest is %d", run, j.rec.Runs)
	case j.att == nil || j.att.Run != run:
		// That one is over: there is nothing to stop.
	case j.att.End.GetCause() == messages.Cause_CAUSE_REQUEUED:
		reply.Run = run
	case j.isLastRun(run):
		conflict("restart.limit", "the job allows no second run: cancel it and submit it again")
	case m.Hold:
		// It ends without this wish, and the job is held: nothing is left of what was asked for.
	default:
		conflict("job", "attempt %d is already ending: %s", run, actors.WordOf(j.att.End.GetCause().String(), "CAUSE_"))
	}
	return reply
}

// answerTooLate tells clients whose wish met a job that had just ended.
func (j *Job) answerTooLate(ctx actor.Context) {
	if !j.rec.State.Terminal() {
		return
	}
	for _, a := range j.askers {
		ctx.Send(a.PID, a.Answer())
	}
	j.cancel, j.wish, j.respec, j.askers = nil, nil, nil, nil
}

// holdsBack tells the Scheduler of an element that waits for its release.
func (j *Job) holdsBack(ctx actor.Context) {
	if j.rec.Spec.Element != nil && j.cancel == nil && j.kept() {
		ctx.Send(j.peers.Scheduler, protocol.HeldBack{Job: j.id})
	}
}
