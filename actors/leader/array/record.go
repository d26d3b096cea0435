package array

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
)

// This file owns an array's record: when it is written, its content, and the actions after it is on disk.

// arrayDraft is a record on its way to disk, with the answers that follow.
type arrayDraft struct {
	rec      *messages.JobRecord
	askers   []arrayAsker
	hold     *protocol.HoldWish
	respec   *protocol.SpecWish
	foregone int
}

// advance starts the next write if one is due and none is in progress.
func (a *Array) advance(ctx actor.Context) {
	if a.flight != nil || a.states.In(arrayOver) || !a.known() {
		return
	}
	if a.rec.State.Terminal() {
		a.states.Become("all over", arrayOver)
		ctx.Send(a.peers.Scheduler, protocol.Settled{Job: a.id})
		return
	}
	over := a.count[elementOver] == len(a.stage)
	urgent := over || a.reach() > int(a.rec.Array.GetReach()) ||
		len(a.askers) > 0 || a.cancel != nil && a.rec.Cancel == nil || len(a.foregone) > 0
	if !urgent && (!a.dirty || a.paused) {
		return
	}
	d := a.draft()
	a.flight = d
	a.writes++
	d.rec.Revision++
	d.rec.WrittenBy = &messages.Token{Epoch: a.p.Epoch, Counter: a.life<<32 | uint64(a.writes)}
	ctx.Request(a.peers.Journal, protocol.Write{
		Lane: protocol.LaneDecisions, Change: actors.Change{Job: d.rec}, Tag: d.rec.WrittenBy.Counter,
	})
}

// reach returns the place up to which elements may become jobs before the next write of the record.
func (a *Array) reach() int {
	if a.next < int(a.rec.Array.GetReach()) || a.next >= len(a.stage) {
		return 0
	}
	return a.next + protocol.ArrayStep
}

// draft returns the record with all changes so far.
func (a *Array) draft() *arrayDraft {
	d := &arrayDraft{
		rec: a.rec.Revise(), askers: a.askers, hold: a.hold, respec: a.respec, foregone: len(a.foregone),
	}
	a.askers, a.dirty = nil, false
	if d.rec.Cancel == nil {
		d.rec.Cancel = a.cancel
	}
	if a.respec != nil {
		d.rec.LimitByDefault = d.rec.LimitByDefault && a.respec.Spec.TimeLimitMs == d.rec.Spec.TimeLimitMs
		d.rec.Spec, d.rec.Changed = a.respec.Spec, a.respec.Deed
	}
	d.rec.Learn(a.foregone)
	if protocol.WhyCancelled(d.rec) != "" {
		for place, s := range a.stage {
			if s == elementComing {
				a.end(place, messages.JobState_JOB_STATE_CANCELLED, true)
			}
		}
	}
	d.rec.Array = &messages.ArrayRecord{Hold: a.wantedHold(), Ended: a.endedRanges(), Held: a.heldRanges(),
		Reach: int32(max(a.reach(), int(a.rec.Array.GetReach()))), Changed: a.changedRanges()}
	d.rec.Array.ProtoReflect().SetUnknown(messages.Newer(a.rec.Array))
	if a.count[elementOver] == len(a.stage) {
		a.conclude(d.rec)
	}
	return d
}

// conclude sets the final state of the entire array.
func (a *Array) conclude(rec *messages.JobRecord) {
	state, code, outcome := messages.JobState_JOB_STATE_SUCCEEDED, int32(0), ""
	if a.ended[state] < len(a.stage) {
		state, code, outcome = messages.JobState_JOB_STATE_FAILED, 1, a.counts().Words()
	}
	if why := protocol.WhyCancelled(rec); why != "" {
		state, code, outcome = messages.JobState_JOB_STATE_CANCELLED, 0, why
	}
	protocol.Conclude(rec, state, code, outcome, a.p.Clock.WallMs())
}

func (a *Array) endedRanges() (all []*messages.ElementsEnded) {
	places := map[elementStage][]int{}
	for place, s := range a.stage {
		if s.at() == elementOver {
			places[s] = append(places[s], place)
		}
	}
	for s := elementOver; s != 0; s++ { // until the counter wraps around
		if p := places[s]; len(p) > 0 {
			all = append(all, &messages.ElementsEnded{
				State: s.endState(), Unborn: s&unborn != 0, Places: messages.Ranges(p),
			})
		}
	}
	return all
}

func (a *Array) heldRanges() []*messages.IndexRange {
	var places []int
	for place := range a.stage {
		if a.held[place] {
			places = append(places, place)
		}
	}
	return messages.Ranges(places)
}

func (a *Array) onWritten(ctx actor.Context, m protocol.Written) {
	d := a.flight
	if d == nil || m.Tag != d.rec.WrittenBy.Counter {
		return
	}
	if m.Verdict != actors.Done {
		ctx.Send(a.peers.Scheduler, protocol.Stale{Job: a.id})
		return
	}
	a.flight, a.rec = nil, d.rec
	a.allow(ctx)
	a.foregone = a.foregone[d.foregone:]
	if a.rec.Cancel != nil {
		a.cancel = nil
	}
	forget(&a.hold, d.hold)
	forget(&a.respec, d.respec)
	if protocol.WhyCancelled(a.rec) != "" {
		a.tellLive(ctx, a.cancels())
	}
	a.show(ctx)
	for _, asker := range d.askers {
		a.answer(ctx, asker)
	}
	if a.rec.State.Terminal() {
		ctx.Send(a.peers.Scheduler, protocol.Concluded{Job: a.id, State: a.rec.State, Since: a.rec.Since()})
	}
	a.spawn(ctx)
	a.advance(ctx)
}

// forget drops a request that is on disk, unless a later one has replaced it.
func forget[W any](wish **W, written *W) {
	if *wish == written {
		*wish = nil
	}
}
