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

// This file owns how an array, or an element that is no job yet, is given another priority, time limit or begin, and
// how many elements may run at once. What one element alone is to have is kept in the array's record until it is a
// job: from then on it is in its own.

// maxElementChanges is how many different changes of elements that are no jobs yet an array's record has at most. Those
// that are alike are one, however many elements they are of.
const maxElementChanges = 1024

// wantedSpec is the spec of the array as people want it: their last wish, else what is on disk.
func (a *Array) wantedSpec() *messages.JobSpec {
	if a.respec != nil {
		return a.respec.Spec
	}
	return a.rec.Spec
}

// sproutOf asks for an element to become a job, as it is wanted by now.
func (a *Array) sproutOf(place int) protocol.Sprout {
	index := a.rec.Spec.Array.Index(place)
	spec := a.wantedSpec().ElementSpec(string(a.id), index)
	if own := a.changed[place]; own != nil {
		own.On(spec)
	}
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
	if m.SetPriority || m.SetTimeLimit || m.SetBegin {
		a.send(ctx, e)
	}
	a.asks(ctx, e, func() any {
		s := a.rec.Spec
		return &messages.UpdateReply{
			Job: m.Job, Outcome: e.outcome(), Priority: s.Priority, TimeLimitMs: s.TimeLimitMs, BeginUnixMs: s.BeginUnixMs,
			ArrayMost: s.Array.Most,
		}
	})
	a.spawn(ctx)
	a.advance(ctx)
}

// updateRefused says why an array, or an element that is no job yet, is not changed; nil: it may be.
func (a *Array) updateRefused(m *messages.Update, place int) *messages.Outcome {
	switch {
	case m.GiveTo != "":
		return &messages.Outcome{
			Code: messages.Code_CODE_CONFLICT, Field: "give_to", Text: "the owner of an array cannot be changed",
			Hint: "change the owner of its elements that are jobs, or submit the array again",
		}
	case place >= 0 && m.SetArrayMost:
		return protocol.NoArray()
	case m.SetBegin:
		if no := protocol.TooFarAhead("begin_unix_ms", m.BeginUnixMs, a.p.Clock.WallMs()); no != nil {
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

// changeOf is as much of a change as elements may have by themselves.
func changeOf(m *messages.Update) *messages.ElementsChanged {
	return &messages.ElementsChanged{
		SetPriority: m.SetPriority, Priority: m.Priority, SetTimeLimit: m.SetTimeLimit, TimeLimitMs: m.TimeLimitMs,
		SetBegin: m.SetBegin, BeginUnixMs: m.BeginUnixMs,
	}
}

// change notes what an element is to ask for by itself.
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
	a.changed[place] = now
}

// unchange forgets what elements were to have by themselves where all are given the same.
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
		if a.changed[place] = now; !now.SetPriority && !now.SetTimeLimit && !now.SetBegin {
			delete(a.changed, place)
		}
	}
}

// elementUpdated says what an element will ask for once it is a job, as that is on disk: a later change may wait for
// the next write. The element may have become a job, or have been cancelled, while the change went to the disk: then
// this record says nothing of it any more.
func (a *Array) elementUpdated(m *messages.Update, place int) *messages.UpdateReply {
	if no := a.outcomeOf(place); no.Code != messages.Code_CODE_OK {
		return &messages.UpdateReply{Job: m.Job, Outcome: no}
	}
	s := a.rec.Spec.ElementSpec(string(a.id), a.rec.Spec.Array.Index(place))
	a.rec.Array.ChangedAt(place).On(s)
	return &messages.UpdateReply{
		Job: m.Job, Outcome: messages.OK(), Priority: s.Priority, TimeLimitMs: s.TimeLimitMs, BeginUnixMs: s.BeginUnixMs,
	}
}

// changedRanges are the changes of elements, each once, in the order of the first element that has it.
func (a *Array) changedRanges() (all []*messages.ElementsChanged) {
	type key struct {
		sets         [3]bool
		priority     int32
		limit, begin int64
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
		k := key{[3]bool{c.SetPriority, c.SetTimeLimit, c.SetBegin}, c.Priority, c.TimeLimitMs, c.BeginUnixMs}
		if places[k] == nil {
			order = append(order, k)
		}
		places[k] = append(places[k], place)
	}
	for _, k := range order {
		all = append(all, &messages.ElementsChanged{
			Places: messages.Ranges(places[k]), SetPriority: k.sets[0], Priority: k.priority, SetTimeLimit: k.sets[1],
			TimeLimitMs: k.limit, SetBegin: k.sets[2], BeginUnixMs: k.begin,
		})
	}
	return slices.Clip(all)
}

// allow tells the Scheduler of another number that is on disk.
func (a *Array) allow(ctx actor.Context) {
	if most := a.rec.Spec.Array.Most; most != a.allowed {
		a.allowed = most
		ctx.Send(a.peers.Scheduler, protocol.Allows{Array: a.id, Most: most})
	}
}
