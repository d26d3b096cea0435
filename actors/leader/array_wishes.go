package leader

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what people want of an array, or of one of its elements that is no job yet. What is wanted of the
// array holds for all elements: the Jobs of those that have one are told, again where they may have missed it.

// placeOf is the element that a wish is about; below 0: the whole array.
func (a *Array) placeOf(job string) int {
	if _, index, is := messages.ArrayOf(job); is && job != string(a.id) {
		return a.rec.Spec.Array.Place(index)
	}
	return -1
}

// asks has the sender answered with the next write.
func (a *Array) asks(ctx actor.Context, answer func() any) {
	if a.rec.State.Terminal() {
		ctx.Respond(answer())
		return
	}
	if ctx.Sender() != nil {
		a.askers = append(a.askers, asker{ctx.Sender(), answer})
	}
	a.dirty = true
}

// outcomeOf is what becomes of a wish for an element that has no job: one that has is asked itself.
func (a *Array) outcomeOf(place int) *messages.Outcome {
	switch {
	case place >= 0 && !a.known():
	case place < 0 && a.rec.State.Terminal():
		return messages.AlreadyEnded(a.rec)
	case place < 0 || a.stage[place] == elementComing:
		return messages.OK()
	case a.stage[place].at() == elementOver:
		return messages.AlreadyEnded(&messages.JobRecord{State: a.stage[place].endState()})
	}
	return &messages.Outcome{
		Code: messages.Code_CODE_UNAVAILABLE, Text: "the element is about to become a job", Hint: "try again in a moment",
	}
}

func (a *Array) onCancel(ctx actor.Context, m *messages.Cancel) {
	place := a.placeOf(m.Job)
	no := a.outcomeOf(place)
	if place >= 0 && a.stage[place].at() == elementOver &&
		a.stage[place].endState() == messages.JobState_JOB_STATE_CANCELLED {
		no = messages.OK()
	}
	if no.Code != messages.Code_CODE_OK || place >= 0 && a.stage[place] != elementComing {
		if place < 0 && a.rec.State == messages.JobState_JOB_STATE_CANCELLED {
			no = messages.OK()
		}
		ctx.Respond(&messages.CancelReply{Job: m.Job, Outcome: no})
		return
	}
	a.asks(ctx, func() any { return &messages.CancelReply{Job: m.Job, Outcome: messages.OK()} })
	switch {
	case place >= 0:
		a.end(place, messages.JobState_JOB_STATE_CANCELLED, true)
	case a.cancel == nil && a.rec.Cancel == nil:
		a.cancel = &messages.Deed{By: m.Principal, AtUnixMs: a.p.Clock.WallMs(), Reason: m.Reason}
	}
	a.advance(ctx)
}

// wantedHold is the hold of the whole array as people want it.
func (a *Array) wantedHold() *messages.Deed {
	if a.hold != nil {
		return a.hold.hold
	}
	return a.rec.Array.GetHold()
}

func (a *Array) onHold(ctx actor.Context, m *messages.Hold) {
	place := a.placeOf(m.Job)
	if no := a.outcomeOf(place); no.Code != messages.Code_CODE_OK {
		ctx.Respond(&messages.HoldReply{Job: m.Job, Outcome: no})
		return
	}
	a.asks(ctx, func() any { return &messages.HoldReply{Job: m.Job, Outcome: messages.OK()} })
	switch {
	case place < 0:
		a.keep(ctx, m.Principal, m.Reason, m.Release)
	case m.Release:
		delete(a.held, place)
		a.next = min(a.next, place)
		a.spawn(ctx)
	default:
		a.held[place] = true
	}
	a.advance(ctx)
}

// keep has no element start before the array is released, those that are jobs too; or lets them go.
func (a *Array) keep(ctx actor.Context, by *messages.Principal, reason string, release bool) {
	switch {
	case release:
		a.hold = &holdWish{}
		clear(a.held)
		a.next = 0
	case a.wantedHold() == nil:
		a.hold = &holdWish{&messages.Deed{By: by, AtUnixMs: a.p.Clock.WallMs(), Reason: reason}}
	}
	a.tellLive(ctx, func(job string) any {
		return &messages.Hold{Principal: by, Job: job, Reason: reason, Release: release}
	})
}

func (a *Array) onRequeue(ctx actor.Context, m *messages.Requeue) {
	place := a.placeOf(m.Job)
	no := a.outcomeOf(place)
	if refused := no.Code != messages.Code_CODE_OK; refused {
		ctx.Respond(&messages.RequeueReply{Job: m.Job, Outcome: no})
		return
	}
	a.asks(ctx, func() any { return &messages.RequeueReply{Job: m.Job, Outcome: messages.OK()} })
	if m.Hold && place >= 0 {
		a.held[place] = true
	} else if m.Hold {
		a.keep(ctx, m.Principal, m.Reason, false)
	}
	if place < 0 {
		a.tellLive(ctx, func(job string) any {
			return &messages.Requeue{Principal: m.Principal, Job: job, Reason: m.Reason, Hold: m.Hold}
		})
	}
	a.advance(ctx)
}

// onUpdate changes what all elements ask for; one alone can be asked once it is a job.
func (a *Array) onUpdate(ctx actor.Context, m *messages.Update) {
	place := a.placeOf(m.Job)
	no := a.outcomeOf(place)
	if place >= 0 && no.Code == messages.Code_CODE_OK {
		no = &messages.Outcome{
			Code: messages.Code_CODE_CONFLICT, Field: "job", Text: "the element is no job yet, and asks for what its array does",
			Hint: "change the array, or wait until it is a job",
		}
	}
	if m.GiveTo != "" && no.Code == messages.Code_CODE_OK {
		no = &messages.Outcome{
			Code: messages.Code_CODE_CONFLICT, Field: "give_to", Text: "an array is given to nobody",
			Hint: "give its elements that are jobs, or submit it again",
		}
	}
	if no.Code != messages.Code_CODE_OK {
		ctx.Respond(&messages.UpdateReply{Job: m.Job, Outcome: no})
		return
	}
	a.asks(ctx, func() any {
		s := a.rec.Spec
		return &messages.UpdateReply{
			Job: m.Job, Outcome: messages.OK(), Priority: s.Priority, TimeLimitMs: s.TimeLimitMs, BeginUnixMs: s.BeginUnixMs,
		}
	})
	was := a.rec.Spec
	if a.respec != nil {
		was = a.respec.spec
	}
	spec := actors.CopyOf(was)
	if m.SetPriority {
		spec.Priority, spec.PriorityZero = m.Priority, m.Priority == 0
	}
	if m.SetTimeLimit {
		spec.TimeLimitMs = m.TimeLimitMs
	}
	if m.SetBegin {
		spec.BeginUnixMs = m.BeginUnixMs
	}
	a.respec = &specWish{
		spec: spec, deed: &messages.Deed{By: m.Principal, AtUnixMs: a.p.Clock.WallMs(), Reason: m.Reason},
	}
	a.changed = &messages.Update{
		Principal: m.Principal, Reason: m.Reason, Priority: spec.Priority, TimeLimitMs: spec.TimeLimitMs,
		BeginUnixMs: spec.BeginUnixMs, SetPriority: m.SetPriority || a.changed.GetSetPriority(),
		SetTimeLimit: m.SetTimeLimit || a.changed.GetSetTimeLimit(), SetBegin: m.SetBegin || a.changed.GetSetBegin(),
	}
	a.tellLive(ctx, func(job string) any { return forJob(m, job) })
	a.advance(ctx)
}

// forJob is the same change of another job.
func forJob(m *messages.Update, job string) *messages.Update {
	each := actors.CopyOf(m)
	each.Job = job
	return each
}

// tellLive tells the Jobs of all elements that are jobs.
func (a *Array) tellLive(ctx actor.Context, say func(job string) any) {
	for place, s := range a.stage {
		if s == elementWaits || s == elementRuns {
			a.tellElement(ctx, a.rec.Spec.Array.Index(place), say)
		}
	}
}

// tellElement has the answer come here, where nobody waits for it.
func (a *Array) tellElement(ctx actor.Context, index int32, say func(job string) any) {
	id := messages.ElementID(string(a.id), index)
	ctx.Request(actors.At(ctx.Self(), actors.JobPath(topology.JobID(id))), say(id))
}

// cancels is the cancel that an element hears where its array is not to run.
func (a *Array) cancels() func(job string) any {
	by, reason := &messages.Principal{Name: messages.Anonymous}, ""
	if c := a.rec.Cancel; c != nil {
		by, reason = c.By, c.Reason
	}
	return func(job string) any {
		return &messages.Cancel{Principal: by, Job: job, Reason: fmt.Sprintf("with its array: %s", reason)}
	}
}

// catchUp tells an element that has just become a job what was wanted of all of them meanwhile.
func (a *Array) catchUp(ctx actor.Context, index int32) {
	if whyCancelled(a.rec) != "" {
		a.tellElement(ctx, index, a.cancels())
	}
	if a.changed != nil {
		a.tellElement(ctx, index, func(job string) any { return forJob(a.changed, job) })
	}
	if hold := a.wantedHold(); hold != nil {
		a.tellElement(ctx, index, func(job string) any {
			return &messages.Hold{Principal: hold.By, Job: job, Reason: hold.Reason}
		})
	}
}

// onLook tells elements again that they are cancelled: their actors may have broken as they were told.
func (a *Array) onLook(ctx actor.Context) {
	if a.states.In(arrayOver) {
		return
	}
	if whyCancelled(a.rec) != "" {
		a.tellLive(ctx, a.cancels())
	}
	a.p.Clock.After(arrayLook, ctx.Self(), lookDue{})
}
