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

// This file owns how what is wanted of a whole array reaches those of its elements that are jobs, and how it is known
// that it did. Whoever asked is answered when it is in the array's record and in theirs: had they only been told, a
// leader that dies would leave some of them as they were, and nobody would know. An errand is forgotten with its
// leader, and with it the answer that never came: the client asks the next one.

// errand is a wish for all elements, on its way to those that are jobs, or are becoming jobs.
type errand struct {
	hold   *messages.Hold   // one of these
	update *messages.Update // likewise
	left   map[int32]bool   // indices of those that have not said that they have it
	askers []arrayAsker     // to be answered when all have
	next   *errand          // of which this one has become a part
	tries  int
	late   bool // it was given up: somebody does not answer
}

// arrayAsker is a client that waits until a record is on disk, and until an errand is done.
type arrayAsker struct {
	protocol.Asker
	errand *errand // nil: there is none
}

const (
	// errandAgain is after how long an element that has not answered is told again: its actor may have broken.
	errandAgain = 2 * time.Second
	// errandTries is how often; then whoever asked is told that it is not done yet.
	errandTries = 5
)

// send begins an errand. One of its kind that is still under way is part of it from now on.
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

// merged is two changes as one, of which the later one counts.
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
	return m
}

// tell tells all that have not answered and are jobs.
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

// finish ends an errand, and answers those whose wish is on disk by now.
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

// answer answers a client whose wish is in the array's record, unless elements have yet to have it in theirs.
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

// onToldReply takes the word of an element that it has what it was told.
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

// answered notes that an element needs no more to be told, by errands of a kind; nil: by none.
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

// onErrandDue tells those again that have not answered, and gives up in the end.
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

// lookAgain has errands looked at before long, while there are any.
func (a *Array) lookAgain(ctx actor.Context) {
	if len(a.errands) > 0 && !a.looks {
		a.looks = true
		a.p.Clock.After(errandAgain, ctx.Self(), errandDue{})
	}
}

// outcome returns the result of a request for the whole array.
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

// tellLive tells the Jobs of all elements that are jobs, of those for which there is something to say.
func (a *Array) tellLive(ctx actor.Context, say func(job string) any) {
	for place, s := range a.stage {
		if s == elementWaits || s == elementRuns {
			a.tellElement(ctx, a.rec.Spec.Array.Index(place), say)
		}
	}
}

// tellElement has the answer come here.
func (a *Array) tellElement(ctx actor.Context, index int32, say func(job string) any) {
	id := messages.ElementID(string(a.id), index)
	if m := say(id); m != nil {
		ctx.Request(actors.At(ctx.Self(), actors.JobPath(topology.JobID(id))), m)
	}
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

// catchUp tells an element that has just become a job, or of which an actor has just heard, what was wanted of all of
// them meanwhile.
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

// onLook tells elements again that they are cancelled: their actors may have broken as they were told.
func (a *Array) onLook(ctx actor.Context) {
	if a.states.In(arrayOver) {
		return
	}
	if protocol.WhyCancelled(a.rec) != "" {
		a.tellLive(ctx, a.cancels())
	}
	a.p.Clock.After(arrayLook, ctx.Self(), lookDue{})
}
