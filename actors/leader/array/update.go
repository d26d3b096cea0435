package array

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// This file owns changes of the priority, time limit, begin time and concurrency limit of an array, or of an element
// that is not a job yet. Changes of a single element are kept in the array's record until the element is a job. Then
// they are in the job's record.

// maxElementChanges limits the different changes of single elements in an array's record. Equal changes of several
// elements count once.
const maxElementChanges = 1024

// wantedSpec returns the array's spec with the last requested change, or the spec on disk if there is none.
func (a *Array) wantedSpec() *messages.JobSpec {
	if a.respec != nil {
		return a.respec.Spec
	}
	return a.rec.Spec
}

// sproutOf returns the request to make an element a job, with all changes so far.
func (a *Array) sproutOf(place int) protocol.Sprout {
	index := a.rec.Spec.Array.Index(place)
	spec := a.wantedSpec().ElementSpec(string(a.id), index)
	if own := a.changed[place]; own != nil {
		own.On(spec)
	}
	spec.BeginUnixMs = max(spec.BeginUnixMs, a.rec.DelayedUnixMs())
	return protocol.Sprout{Array: a.rec, Index: index, Spec: spec}
}

func (a *Array) onUpdate(ctx actor.Context, m *messages.Update) {
	place := a.placeOf(m.Job)
	if no := cmp.Or(a.notNow(place), a.updateRefused(m, place)); no != nil {
		ctx.Respond(&messages.UpdateReply{Job: m.Job, Outcome: no})
		return
	}
	if place >= 0 {
		a.change(m, place)
		a.asks(ctx, nil, func() any { return a.elementUpdated(m, place) })
		a.advance(ctx)
		return
	}
	spec := actors.CopyOf(a.wantedSpec())
	changeOf(m).On(spec)
	if m.SetArrayMost {
		spec.Array.Most = m.ArrayMost
	}
	a.respec = &protocol.SpecWish{
		Spec: spec, Deed: &messages.Deed{By: m.Principal, AtUnixMs: a.p.Clock.WallMs(), Reason: m.Reason},
	}
	a.unchange(m)
	e := &errand{update: m}
	if m.SetPriority || m.SetTimeLimit || m.SetBegin || m.SetDeadline {
		a.send(ctx, e)
	}
	a.asks(ctx, e, func() any {
		s := a.rec.Spec
		return &messages.UpdateReply{
			Job: m.Job, Outcome: e.outcome(), Priority: s.Priority, TimeLimitMs: s.TimeLimitMs, BeginUnixMs: s.BeginUnixMs,
			ArrayMost: s.Array.Most, DeadlineUnixMs: s.DeadlineUnixMs,
		}
	})
	a.spawn(ctx)
	a.advance(ctx)
}

// updateRefused returns why a change of an array or of a waiting element is refused. It returns nil if the change is
// allowed.
func (a *Array) updateRefused(m *messages.Update, place int) *messages.Outcome {
	switch {
	case m.GiveTo != "":
		return &messages.Outcome{
			Code: messages.Code_CODE_CONFLICT, Field: "give_to", Text: "the owner of an array cannot be changed",
			Hint: "change the owner of each element that is already a job, or submit the array again",
		}
	case place >= 0 && m.SetArrayMost:
		return protocol.NoArray()
	case m.SetBegin:
		if no := protocol.TooFarAhead("begin_unix_ms", m.BeginUnixMs, a.p.Clock.WallMs()); no != nil {
			return no
		}
	}
	if m.SetDeadline {
		was := a.wantedSpec()
		if place >= 0 {
			was = a.sproutOf(place).Spec
		}
		if no := was.DeadlineRefused(m, a.p.Clock.WallMs()); no != nil {
			return no
		}
	}
	if place >= 0 && len(a.changed) >= maxElementChanges && len(a.changedRanges()) >= maxElementChanges {
		return &messages.Outcome{
			Code: messages.Code_CODE_CONFLICT, Field: "job",
			Text: fmt.Sprintf("at most %d elements that are not jobs yet can have different changes",
				maxElementChanges),
			Hint: "change the array, or wait until the element is a job",
		}
	}
	return nil
}

// changeOf returns the part of a change that may apply to a single element.
func changeOf(m *messages.Update) *messages.ElementsChanged {
	return &messages.ElementsChanged{
		SetPriority: m.SetPriority, Priority: m.Priority, SetTimeLimit: m.SetTimeLimit, TimeLimitMs: m.TimeLimitMs,
		SetBegin: m.SetBegin, BeginUnixMs: m.BeginUnixMs, SetDeadline: m.SetDeadline, DeadlineUnixMs: m.DeadlineUnixMs,
	}
}

// change records a change of a single element.
func (a *Array) change(m *messages.Update, place int) {
	now, was := changeOf(m), a.changed[place]
	if !now.SetPriority {
		now.SetPriority, now.Priority = was.GetSetPriority(), was.GetPriority()
	}
	if !now.SetTimeLimit {
		now.SetTimeLimit, now.TimeLimitMs = was.GetSetTimeLimit(), was.GetTimeLimitMs()
	}
	if !now.SetBegin {
		now.SetBegin, now.BeginUnixMs = was.GetSetBegin(), was.GetBeginUnixMs()
	}
	if !now.SetDeadline {
		now.SetDeadline, now.DeadlineUnixMs = was.GetSetDeadline(), was.GetDeadlineUnixMs()
	}
	a.changed[place] = now
}

// unchange removes single changes that a change of the entire array replaces.
func (a *Array) unchange(m *messages.Update) {
	for place, was := range a.changed { //order: each by itself
		now := &messages.ElementsChanged{}
		if was.SetPriority && !m.SetPriority {
			now.SetPriority, now.Priority = true, was.Priority
		}
		if was.SetTimeLimit && !m.SetTimeLimit {
			now.SetTimeLimit, now.TimeLimitMs = true, was.TimeLimitMs
		}
		if was.SetBegin && !m.SetBegin {
			now.SetBegin, now.BeginUnixMs = true, was.BeginUnixMs
		}
		if was.SetDeadline && !m.SetDeadline {
			now.SetDeadline, now.DeadlineUnixMs = true, was.DeadlineUnixMs
		}
		if a.changed[place] = now; !now.SetPriority && !now.SetTimeLimit && !now.SetBegin && !now.SetDeadline {
			delete(a.changed, place)
		}
	}
}

// elementUpdated returns the reply to a change of an element, with the values on disk. A later change may still wait
// for the next write. If the element became a job or was cancelled during the write, the reply refers to that instead.
func (a *Array) elementUpdated(m *messages.Update, place int) *messages.UpdateReply {
	if no := a.outcomeOf(place); no.Code != messages.Code_CODE_OK {
		return &messages.UpdateReply{Job: m.Job, Outcome: no}
	}
	s := a.rec.Spec.ElementSpec(string(a.id), a.rec.Spec.Array.Index(place))
	a.rec.Array.ChangedAt(place).On(s)
	return &messages.UpdateReply{
		Job: m.Job, Outcome: messages.OK(), Priority: s.Priority, TimeLimitMs: s.TimeLimitMs, BeginUnixMs: s.BeginUnixMs,
		DeadlineUnixMs: s.DeadlineUnixMs,
	}
}

// changedRanges returns each different change once, in the order of its first element.
func (a *Array) changedRanges() (all []*messages.ElementsChanged) {
	type key struct {
		sets                   [4]bool
		priority               int32
		limit, begin, deadline int64
	}
	places, order := map[key][]int{}, []key{}
	for place := range a.stage {
		if len(a.changed) == 0 {
			return nil
		}
		c := a.changed[place]
		if c == nil {
			continue
		}
		k := key{[4]bool{c.SetPriority, c.SetTimeLimit, c.SetBegin, c.SetDeadline}, c.Priority, c.TimeLimitMs, c.BeginUnixMs,
			c.DeadlineUnixMs}
		if places[k] == nil {
			order = append(order, k)
		}
		places[k] = append(places[k], place)
	}
	for _, k := range order {
		all = append(all, &messages.ElementsChanged{
			Places: messages.Ranges(places[k]), SetPriority: k.sets[0], Priority: k.priority, SetTimeLimit: k.sets[1],
			TimeLimitMs: k.limit, SetBegin: k.sets[2], BeginUnixMs: k.begin, SetDeadline: k.sets[3],
			DeadlineUnixMs: k.deadline,
		})
	}
	return slices.Clip(all)
}

// allow sends the Scheduler a changed concurrency limit that is on disk.
func (a *Array) allow(ctx actor.Context) {
	if most := a.rec.Spec.Array.Most; most != a.allowed {
		a.allowed = most
		ctx.Send(a.peers.Scheduler, protocol.Allows{Array: a.id, Most: most})
	}
}
