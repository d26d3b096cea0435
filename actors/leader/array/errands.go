package array

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns array requests: how a request for an entire array reaches the elements that are jobs. The client gets
// its answer when the change is in the array's record and in those of its elements. Without that rule, a leader that
// dies could leave some elements unchanged, and no later leader would know. An array request ends with its leader,
// without an answer, and the client repeats it at the next leader.

// errand is an array request on its way to the elements that are jobs or are becoming jobs.
type errand struct {
	hold   *messages.Hold   // either this …
	update *messages.Update // … or this is set
	left   map[int32]bool   // indices of elements that have not confirmed
	askers []arrayAsker     // clients that get an answer when all have confirmed
	next   *errand          // the later request that includes this one
	tries  int
	late   bool // given up: an element does not answer
}

// arrayAsker is a client that waits until a record is on disk and an array request is complete.
type arrayAsker struct {
	protocol.Asker
	errand *errand // nil: no request for elements
}

const (
	// errandAgain is the time after which a request to a silent element is repeated, because the element's actor may have
	// failed.
	errandAgain = 2 * time.Second
	// errandTries is the maximum number of attempts. After that, the client must repeat the request.
	errandTries = 5
)

// send starts an array request. An earlier request of the same kind becomes part of it.
func (a *Array) send(ctx actor.Context, e *errand) *errand {
	e.left = map[int32]bool{}
	for place, s := range a.stage {
		if s == elementAsked || s == elementWaits || s == elementRuns {
			e.left[a.rec.Spec.Array.Index(place)] = true
		}
	}
	for _, was := range a.errands {
		if (was.hold != nil) == (e.hold != nil) {
			e.update, e.askers, was.askers, was.next = merged(was.update, e.update), was.askers, nil, e
			a.finish(ctx, was)
			break
		}
	}
	a.errands = append(a.errands, e)
	a.tell(ctx, e)
	a.lookAgain(ctx)
	return e
}

// merged combines two changes. The later one takes precedence.
func merged(was, m *messages.Update) *messages.Update {
	if was == nil || m == nil {
		return m
	}
	m = actors.CopyOf(m)
	if !m.SetPriority {
		m.SetPriority, m.Priority = was.SetPriority, was.Priority
	}
	if !m.SetTimeLimit {
		m.SetTimeLimit, m.TimeLimitMs = was.SetTimeLimit, was.TimeLimitMs
	}
	if !m.SetBegin {
		m.SetBegin, m.BeginUnixMs = was.SetBegin, was.BeginUnixMs
	}
	if !m.SetDeadline {
		m.SetDeadline, m.DeadlineUnixMs = was.SetDeadline, was.DeadlineUnixMs
	}
	return m
}

// tell sends the request to all elements that are jobs and have not answered.
func (a *Array) tell(ctx actor.Context, e *errand) {
	a.tellLive(ctx, func(job string) any {
		if _, index, _ := messages.ArrayOf(job); e.left[index] {
			return e.said(job)
		}
		return nil
	})
	if len(e.left) == 0 {
		a.finish(ctx, e)
	}
}

// said returns the message for one element.
func (e *errand) said(job string) any {
	if e.hold != nil {
		return &messages.Hold{Principal: e.hold.Principal, Job: job, Reason: e.hold.Reason, Release: e.hold.Release}
	}
	each := actors.CopyOf(e.update)
	each.Job, each.SetArrayMost, each.ArrayMost = job, false, 0
	return each
}

// finish ends an array request, and answers the clients whose change is on disk.
func (a *Array) finish(ctx actor.Context, e *errand) {
	for i, o := range a.errands {
		if o == e {
			a.errands = append(a.errands[:i:i], a.errands[i+1:]...)
			break
		}
	}
	clear(e.left)
	for _, asker := range e.askers {
		ctx.Send(asker.PID, asker.Answer())
	}
	e.askers = nil
}

// answer answers a client whose change is in the array's record, unless records of elements still lack it.
func (a *Array) answer(ctx actor.Context, asker arrayAsker) {
	e := asker.errand
	for e != nil && e.next != nil {
		e = e.next
	}
	if e != nil && len(e.left) > 0 {
		e.askers = append(e.askers, asker)
		return
	}
	ctx.Send(asker.PID, asker.Answer())
}

// onToldReply handles an element's reply to an array request.
func (a *Array) onToldReply(ctx actor.Context, message any) {
	switch m := message.(type) {
	case *messages.HoldReply:
		_, index, _ := messages.ArrayOf(m.Job)
		a.answered(ctx, func(e *errand) bool { return e.hold != nil && e.hold.Release == m.Release }, index)
	case *messages.UpdateReply:
		_, index, _ := messages.ArrayOf(m.Job)
		a.answered(ctx, func(e *errand) bool { return e.update != nil }, index)
	}
}

// answered records that an element needs no more messages of one kind of request. If kind is nil, this applies to all
// kinds.
func (a *Array) answered(ctx actor.Context, kind func(*errand) bool, index int32) {
	for i := len(a.errands) - 1; i >= 0; i-- {
		e := a.errands[i]
		if kind != nil && !kind(e) || !e.left[index] {
			continue
		}
		if delete(e.left, index); len(e.left) == 0 {
			a.finish(ctx, e)
		}
	}
}

// onErrandDue repeats requests to silent elements, and finally gives up.
func (a *Array) onErrandDue(ctx actor.Context) {
	a.looks = false
	for i := len(a.errands) - 1; i >= 0; i-- {
		e := a.errands[i]
		if e.tries++; e.tries > errandTries {
			e.late = true
			a.finish(ctx, e)
			continue
		}
		a.tell(ctx, e)
	}
	a.lookAgain(ctx)
}

// lookAgain schedules the next check of open requests, if there are any.
func (a *Array) lookAgain(ctx actor.Context) {
	if len(a.errands) > 0 && !a.looks {
		a.looks = true
		a.p.Clock.After(errandAgain, ctx.Self(), errandDue{})
	}
}

// outcome returns the result of a request for the entire array.
func (e *errand) outcome() *messages.Outcome {
	if e.late {
		return &messages.Outcome{
			Code: messages.Code_CODE_UNAVAILABLE,
			Text: "some elements did not answer: the change may not apply to them yet",
			Hint: "try again in a few seconds",
		}
	}
	return messages.OK()
}

// tellLive sends a message to the Job of each element that is a job. The function say returns nil for elements that
// need no message.
func (a *Array) tellLive(ctx actor.Context, say func(job string) any) {
	for place, s := range a.stage {
		if s == elementWaits || s == elementRuns {
			a.tellElement(ctx, a.rec.Spec.Array.Index(place), say)
		}
	}
}

// tellElement sends a message to the Job of one element. The reply comes to the Array.
func (a *Array) tellElement(ctx actor.Context, index int32, say func(job string) any) {
	id := messages.ElementID(string(a.id), index)
	if m := say(id); m != nil {
		ctx.Request(actors.At(ctx.Self(), actors.JobPath(topology.JobID(id))), m)
	}
}

// cancels returns the Cancel for the elements of an array that must not run.
func (a *Array) cancels() func(job string) any {
	by, reason := &messages.Principal{Name: messages.Anonymous}, ""
	if c := a.rec.Cancel; c != nil {
		by, reason = c.By, c.Reason
	}
	return func(job string) any {
		return &messages.Cancel{Principal: by, Job: job, Reason: fmt.Sprintf("with its array: %s", reason)}
	}
}

// catchUp sends an element the requests that it missed before it became a job or got a new actor.
func (a *Array) catchUp(ctx actor.Context, index int32) {
	if protocol.WhyCancelled(a.rec) != "" {
		a.tellElement(ctx, index, a.cancels())
	}
	if hold := a.wantedHold(); hold != nil {
		a.tellElement(ctx, index, func(job string) any {
			return &messages.Hold{Principal: hold.By, Job: job, Reason: hold.Reason}
		})
	}
	for _, e := range a.errands {
		if e.left[index] {
			a.tellElement(ctx, index, e.said)
		}
	}
}

// onLook repeats the Cancel to the elements, because their actors may have failed during the first one.
func (a *Array) onLook(ctx actor.Context) {
	if a.states.In(arrayOver) {
		return
	}
	if protocol.WhyCancelled(a.rec) != "" {
		a.tellLive(ctx, a.cancels())
	}
	a.p.Clock.After(arrayLook, ctx.Self(), lookDue{})
}
