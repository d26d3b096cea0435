package array

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// This file owns client requests for an array, or for an element that is not a job yet. A request for the array applies
// to all elements. The Jobs of its elements get it too (errands.go).

// placeOf returns the place of the element that a request names. A negative place means the entire array.
func (a *Array) placeOf(job string) int {
	if _, index, is := messages.ArrayOf(job); is && job != string(a.id) {
		return a.rec.Spec.Array.Place(index)
	}
	return -1
}

// asks schedules an answer to the sender after the next write and after the array request is complete.
func (a *Array) asks(ctx actor.Context, e *errand, answer func() any) {
	if a.rec.State.Terminal() {
		ctx.Respond(answer())
		return
	}
	if ctx.Sender() != nil {
		a.askers = append(a.askers, arrayAsker{protocol.Asker{PID: ctx.Sender(), Answer: answer}, e})
	}
	a.dirty = true
}

// about returns the place of the element that a request names, or a negative place for the entire array. If the request
// has no effect, about sends the refusal.
func (a *Array) about(ctx actor.Context, job string, refuse func(*messages.Outcome) any) (place int, ok bool) {
	place = a.placeOf(job)
	if no := a.notNow(place); no != nil {
		ctx.Respond(refuse(no))
		return place, false
	}
	return place, true
}

// notNow returns why a request has no effect now or ever. It returns nil if the request has an effect.
func (a *Array) notNow(place int) *messages.Outcome {
	no := a.outcomeOf(place)
	switch {
	case no.Code != messages.Code_CODE_OK:
		return no
	case !a.known(): // the set of live elements is not known yet
		return &messages.Outcome{
			Code: messages.Code_CODE_UNAVAILABLE, Text: "this leader has not yet loaded the elements of the array",
			Hint: "try again in a few seconds",
		}
	}
	return nil
}

// outcomeOf returns the result of a request for an element without a job. An element with a job gets the request
// itself.
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
		Code: messages.Code_CODE_UNAVAILABLE, Text: "element is just becoming a job",
		Hint: "try again in a few seconds",
	}
}

func (a *Array) onCancel(ctx actor.Context, m *messages.Cancel) {
	place := a.placeOf(m.Job)
	no := a.outcomeOf(place)
	cancelled := place >= 0 && a.stage[place].at() == elementOver &&
		a.stage[place].endState() == messages.JobState_JOB_STATE_CANCELLED ||
		place < 0 && a.rec.State == messages.JobState_JOB_STATE_CANCELLED
	_, isOnDisk := a.rec.Array.EndedAt(place)
	switch {
	case cancelled && place >= 0 && a.stage[place]&unborn != 0 && !isOnDisk: // the answer follows when it is on disk
	case cancelled:
		ctx.Respond(&messages.CancelReply{Job: m.Job, Outcome: messages.OK()})
		return
	case no.Code != messages.Code_CODE_OK || place >= 0 && a.stage[place] != elementComing:
		ctx.Respond(&messages.CancelReply{Job: m.Job, Outcome: no})
		return
	}
	a.asks(ctx, nil, func() any { return &messages.CancelReply{Job: m.Job, Outcome: messages.OK()} })
	switch {
	case cancelled:
	case place >= 0:
		a.end(place, messages.JobState_JOB_STATE_CANCELLED, true)
	case a.cancel == nil && a.rec.Cancel == nil:
		a.cancel = &messages.Deed{By: m.Principal, AtUnixMs: a.p.Clock.WallMs(), Reason: m.Reason}
	}
	a.advance(ctx)
}

// wantedHold returns the array's hold after the last request, or the hold on disk if there is none.
func (a *Array) wantedHold() *messages.Deed {
	if a.hold != nil {
		return a.hold.Hold
	}
	return a.rec.Array.GetHold()
}

func (a *Array) onHold(ctx actor.Context, m *messages.Hold) {
	place, ok := a.about(ctx, m.Job, func(no *messages.Outcome) any {
		return &messages.HoldReply{Job: m.Job, Outcome: no, Release: m.Release}
	})
	if !ok {
		return
	}
	e := &errand{}
	switch {
	case place < 0:
		e = a.keep(ctx, m.Principal, m.Reason, m.Release)
	case m.Release:
		a.letGo(place)
		a.spawn(ctx)
	default:
		a.held[place] = true
	}
	a.asks(ctx, e, func() any { return &messages.HoldReply{Job: m.Job, Outcome: e.outcome(), Release: m.Release} })
	a.advance(ctx)
}

// letGo releases one element that is not a job yet. If the entire array is held, the other elements are held one by one
// from now on. The elements that are jobs are already held.
func (a *Array) letGo(place int) {
	if a.wantedHold() != nil {
		a.hold = &protocol.HoldWish{}
		for other, s := range a.stage {
			if s == elementComing {
				a.held[other] = true
			}
		}
	}
	delete(a.held, place)
	a.next = min(a.next, place)
}

// keep holds the array: no element starts before the release, including elements that are jobs. With release, it lets
// them start.
func (a *Array) keep(ctx actor.Context, by *messages.Principal, reason string, release bool) *errand {
	switch {
	case release:
		a.hold = &protocol.HoldWish{}
		clear(a.held)
		clear(a.away) // elements that are jobs return when they receive the release
		a.next = 0
	case a.wantedHold() == nil:
		a.hold = &protocol.HoldWish{Hold: &messages.Deed{By: by, AtUnixMs: a.p.Clock.WallMs(), Reason: reason}}
	}
	return a.send(ctx, &errand{hold: &messages.Hold{Principal: by, Reason: reason, Release: release}})
}

// onCheckpoint refuses a request to save, because an array and an element that is not a job run no tasks.
func (a *Array) onCheckpoint(ctx actor.Context, m *messages.Checkpoint) {
	refuse := func(no *messages.Outcome) any { return &messages.CheckpointReply{Job: m.Job, Outcome: no} }
	if _, ok := a.about(ctx, m.Job, refuse); ok {
		ctx.Respond(refuse(noCheckpoint()))
	}
}

func noCheckpoint() *messages.Outcome {
	return &messages.Outcome{
		Code: messages.Code_CODE_CONFLICT, Field: "job", Text: "only a running element can save a checkpoint",
		Hint: "name a running element, such as ID_0",
	}
}

// onRequeue stops all running elements, which then wait again. Elements that are not jobs yet have nothing to stop. A
// client that repeats the request must name the elements and their runs, or it would stop new runs.
func (a *Array) onRequeue(ctx actor.Context, m *messages.Requeue) {
	refuse := func(no *messages.Outcome) any { return &messages.RequeueReply{Job: m.Job, Outcome: no} }
	place, ok := a.about(ctx, m.Job, refuse)
	if !ok {
		return
	}
	if m.Checkpoint && place < 0 {
		ctx.Respond(refuse(noCheckpoint()))
		return
	}
	e := &errand{}
	if m.Hold && place < 0 {
		e = a.keep(ctx, m.Principal, m.Reason, false)
	} else if m.Hold {
		a.held[place] = true
	}
	if place < 0 {
		a.tellLive(ctx, func(job string) any {
			return &messages.Requeue{Principal: m.Principal, Job: job, Reason: m.Reason, Hold: m.Hold}
		})
	}
	a.asks(ctx, e, func() any { return &messages.RequeueReply{Job: m.Job, Outcome: e.outcome()} })
	a.advance(ctx)
}
