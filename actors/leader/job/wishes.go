package job

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// This file owns client requests for a live job: cancel, hold, requeue. A request goes into the next write and is
// answered when that write is on disk. Only then is the result known, because the job may have ended meanwhile.

// asks schedules an answer to the sender after the next write. If the job has ended, it answers at once and returns
// false.
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

// wantedHold returns the hold after the last request, which may not be on disk yet. Without a request, it returns the
// hold on disk.
func (j *Job) wantedHold() *messages.Deed {
	if j.wish != nil {
		return j.wish.Hold
	}
	return j.rec.Hold
}

// kept reports whether the job must not be planned because it is held, will be held, or its release is not on disk yet.
func (j *Job) kept() bool { return j.rec.Hold != nil || j.wantedHold() != nil }

// keep holds the job until it is released, and gives up an attempt before COMMIT. An attempt whose COMMIT is on its way
// to disk continues. If a job is held twice, the first hold's reason stays.
func (j *Job) keep(ctx actor.Context, by *messages.Principal, reason string) {
	if j.wantedHold() != nil {
		return
	}
	j.wish = &protocol.HoldWish{Hold: &messages.Deed{By: by, AtUnixMs: j.p.Clock.WallMs(), Reason: reason}}
	if j.hasBegun() || j.states.In(jobStopping) { // its usage counts for its queue and its array until it has left
		return
	}
	ctx.Send(j.peers.Scheduler, protocol.Withdraws{Job: j.id})
	j.holdsBack(ctx)
	if j.states.In(jobReserving, jobDeciding) {
		j.withdraw(ctx)
	}
}

// onRequeue ends the attempt that the client means. Ending the present attempt instead would end two attempts if the
// answer to the first request was lost.
func (j *Job) onRequeue(ctx actor.Context, m *messages.Requeue) {
	run := m.Run
	if run == 0 {
		run = j.rec.Runs
	}
	answer := func() any { return j.requeueReply(m, run) }
	if m.Checkpoint && j.rec.Spec.GetCheckpoint() == nil && !j.rec.State.Terminal() {
		ctx.Respond(&messages.RequeueReply{Job: m.Job, Outcome: noRequests("checkpoint")})
		return
	}
	if run > j.rec.Runs || j.isLastRun(run) {
		ctx.Respond(answer()) // a refused request changes nothing and holds nothing
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
		if m.Checkpoint {
			j.finishSaved(ctx, messages.Cause_CAUSE_REQUEUED, why, m.Principal.GetName())
		} else {
			j.finish(ctx, messages.Cause_CAUSE_REQUEUED, why, "")
		}
	}
	j.advance(ctx)
}

// isLastRun reports whether a run is live and no other run may follow it.
func (j *Job) isLastRun(run int32) bool {
	return j.rec.Spec.GetRestart().GetNever() && j.att != nil && j.att.Run == run && j.att.End == nil
}

// requeueReply returns the result on disk of a request to end a run.
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
		// The run has already ended, so there is nothing to stop.
	case j.att.End.GetCause() == messages.Cause_CAUSE_REQUEUED, j.att.End == nil && j.att.Pending != nil:
		reply.Run = run
	case j.isLastRun(run):
		conflict("restart.limit", "the job allows no second run: cancel it and submit it again")
	case m.Hold:
		// The run ends for another reason and the job is held, so the request has no effect.
	default:
		end := cmp.Or(j.att.End, j.saving.then)
		conflict("job", "attempt %d is already ending: %s", run, actors.WordOf(end.GetCause().String(), "CAUSE_"))
	}
	return reply
}

// answerTooLate answers clients whose request met a job that had just ended.
func (j *Job) answerTooLate(ctx actor.Context) {
	if !j.rec.State.Terminal() {
		return
	}
	for _, a := range j.askers {
		ctx.Send(a.PID, a.Answer())
	}
	j.cancel, j.wish, j.respec, j.askers = nil, nil, nil, nil
}

// holdsBack reports an element that waits for its release to the Scheduler.
func (j *Job) holdsBack(ctx actor.Context) {
	if j.rec.Spec.Element != nil && j.cancel == nil && j.kept() {
		ctx.Send(j.peers.Scheduler, protocol.HeldBack{Job: j.id})
	}
}
