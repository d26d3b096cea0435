// Package array holds the Array, the actor of a job with many elements. It turns elements into jobs as the queue has
// room
// for them, knows how each ended, and carries to them what people want of all.
package array

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// Array owns one array: which of its elements are to become jobs, and how those ended that were. It is the sole writer
// of its record, which has the place of a job's; what an element is once it is a job, that job's record says alone. An
// element becomes a job when it may be next, so that a hundred thousand of them cost no more than one record.
//
// No element is lost and none is a job twice, because an element has an id of its own, and the store takes the first
// record of an id and no other, ever. So how many there are need not be written before they are made: whoever makes one
// that is there already learns what became of it. The record says which have ended, not later than a second after.
//
// It tells: the Scheduler (Sprout, Allows, Concluded, Settled, Stale), its elements' Jobs (Cancel, Hold, Requeue,
// Update), the Mirror (JobShown), clients. It asks: the Journal (Write → Written).
type Array struct {
	p      *protocol.Ports
	states actors.States[arrayState]
	id     topology.JobID
	peers  protocol.JobPeers
	life   uint64 // as of a Job
	writes uint32

	rec   *messages.JobRecord // on disk
	stage []elementStage      // of each element, by its place
	held  map[int]bool        // places that are not to become jobs
	away  map[int]bool        // places of those that are jobs, and are held: they have no part in what may be next
	next  int                 // all before it are jobs, or were, or are held
	count [elementOver + 1]int
	ended [endStates]int // by state

	cancel   *messages.Deed
	hold     *protocol.HoldWish
	respec   *protocol.SpecWish
	changed  map[int]*messages.ElementsChanged // by place: what elements that are no jobs yet ask for by themselves
	errands  []*errand
	looks    bool // a timer is set to look at them again
	foregone []*messages.AfterKnown
	askers   []arrayAsker
	dirty    bool
	allowed  int32          // how many may run at once, as the Scheduler knows it
	open     map[int32]bool // indices below the record's reach of which it is not known yet whether they were jobs
	told     bool           // of all elements that live
	flight   *arrayDraft    // that is on its way to the disk
	paused   bool           // what is not urgent waits for more
	pauses   uint64
}

// elementStage is where an element stands: no job yet, asked for, a job that waits or runs, or over; the state in which
// it ended is added to elementOver.
type elementStage uint8

const (
	elementComing elementStage = iota
	elementAsked
	elementWaits
	elementRuns
	elementOver
)

const (
	endStates = int(messages.JobState_JOB_STATE_TIMED_OUT) + 1
	unborn    = elementStage(128) // beside the state: it never was a job

	// maxElementsWaiting is how many elements are jobs that wait, at most: each costs what a job does.
	maxElementsWaiting = 64
)

const (
	// arrayPause is how long what became of elements waits to be written with more of it.
	arrayPause = time.Second
	// arrayLook is how often a cancelled array looks after elements that have not heard of it.
	arrayLook = 10 * time.Second
)

type (
	arrayDue  struct{ Seq uint64 }
	lookDue   struct{}
	errandDue struct{}
)

func New(p *protocol.Ports, peers protocol.JobPeers, life uint64, rec *messages.JobRecord) actor.Actor {
	a := &Array{
		p: p, id: topology.JobID(rec.Id), peers: peers, life: life, rec: rec,
		states: actors.NewStates(&Table, p.Host),
		stage:  make([]elementStage, rec.Spec.Array.Len()), held: map[int]bool{}, open: map[int32]bool{},
		changed: map[int]*messages.ElementsChanged{}, away: map[int]bool{}, allowed: rec.Spec.Array.Most,
	}
	a.count[elementComing] = len(a.stage)
	for _, e := range rec.Array.GetEnded() {
		for _, r := range e.Places {
			for place := int(r.First); place <= int(r.Last) && place < len(a.stage); place++ {
				a.end(place, e.State, e.Unborn)
			}
		}
	}
	for _, r := range rec.Array.GetHeld() {
		for place := int(r.First); place <= int(r.Last) && place < len(a.stage); place++ {
			a.held[place] = true
		}
	}
	for _, c := range rec.Array.GetChanged() {
		for _, r := range c.Places {
			for place := int(r.First); place <= int(r.Last) && place < len(a.stage); place++ {
				a.changed[place] = c
			}
		}
	}
	return a
}

// Receive dispatches.
func (a *Array) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.states.Become("opened", arrayOpen)
		a.show(ctx)
		a.p.Clock.After(arrayLook, ctx.Self(), lookDue{})
	case protocol.Acknowledge:
		m.Say(ctx)
	case protocol.ElementMoved:
		a.onMoved(ctx, m)
	case protocol.ElementNever:
		delete(a.open, m.Index)
		a.goOn(ctx)
	case protocol.ElementsTold:
		a.onTold(ctx, m)
	case protocol.Foregone:
		a.onForegone(ctx, m)
	case protocol.Written:
		a.onWritten(ctx, m)
	case arrayDue:
		if m.Seq == a.pauses {
			a.paused = false
			a.show(ctx)
			a.advance(ctx)
		}
	case lookDue:
		a.onLook(ctx)
	case errandDue:
		a.onErrandDue(ctx)
	case *messages.Cancel:
		a.onCancel(ctx, m)
	case *messages.Hold:
		a.onHold(ctx, m)
	case *messages.Requeue:
		a.onRequeue(ctx, m)
	case *messages.Update:
		a.onUpdate(ctx, m)
	default:
		a.onToldReply(ctx, m)
	}
}

// at is the stage of an element without the state of its end.
func (s elementStage) at() elementStage { return min(s&^unborn, elementOver) }

// endState is how an element ended.
func (s elementStage) endState() messages.JobState { return messages.JobState(s&^unborn - elementOver) }

// move puts an element into a stage.
func (a *Array) move(place int, to elementStage) {
	delete(a.away, place)
	a.count[a.stage[place].at()]--
	a.count[to.at()]++
	a.stage[place] = to
}

// end notes how an element ended.
func (a *Array) end(place int, state messages.JobState, never bool) {
	to := elementOver + elementStage(state)
	if never {
		to |= unborn
	}
	a.move(place, to)
	delete(a.changed, place)
	a.ended[state]++
	a.dirty = true
}

// onTold begins once it is known which elements live. Of the others that the record may have missed the store is asked.
func (a *Array) onTold(ctx actor.Context, m protocol.ElementsTold) {
	a.told = true
	for place := 0; !m.Fresh && place < int(a.rec.Array.GetReach()) && place < len(a.stage); place++ {
		if a.stage[place] == elementComing {
			index := a.rec.Spec.Array.Index(place)
			a.open[index] = true
			ctx.Send(a.peers.Scheduler, protocol.Probe{Array: a.id, Index: index})
		}
	}
	a.goOn(ctx)
}

// known reports whether it is known of all elements whether they are jobs, or were.
func (a *Array) known() bool { return a.told && len(a.open) == 0 }

func (a *Array) goOn(ctx actor.Context) {
	a.spawn(ctx)
	a.advance(ctx)
}

// spawn asks for jobs while elements may be next: no more than the array allows at once, and few that wait. Those that
// are held count among neither, or the others would wait for their release.
func (a *Array) spawn(ctx actor.Context) {
	if !a.known() || a.closed() || a.wantedHold() != nil || len(a.rec.Awaits()) > 0 {
		return
	}
	most := int(a.wantedSpec().Array.Most)
	for place := a.next; place < len(a.stage); place++ {
		waiting := a.count[elementAsked] + a.count[elementWaits] - len(a.away)
		if waiting >= maxElementsWaiting || most > 0 && waiting+a.count[elementRuns] >= most {
			return
		}
		if a.stage[place] == elementComing && !a.held[place] {
			if place >= int(a.rec.Array.GetReach()) {
				a.advance(ctx) // it comes when the record says that it may have
				return
			}
			a.move(place, elementAsked)
			ctx.Send(a.peers.Scheduler, a.sproutOf(place))
		}
		if place == a.next {
			a.next++
		}
	}
}

// closed reports whether no element becomes a job any more.
func (a *Array) closed() bool {
	return a.cancel != nil || protocol.WhyCancelled(a.rec) != "" || a.states.In(arrayOver)
}

// onMoved takes what became of an element that is a job, and lets the next ones come.
func (a *Array) onMoved(ctx actor.Context, m protocol.ElementMoved) {
	place := a.rec.Spec.Array.Place(m.Index)
	if place < 0 || a.stage[place].at() == elementOver {
		return
	}
	delete(a.open, m.Index)
	fresh := a.stage[place] <= elementAsked
	if a.changed[place] != nil { // its own record has it
		delete(a.changed, place)
		a.dirty = true
	}
	switch {
	case m.Over:
		a.end(place, m.State, false)
		a.answered(ctx, nil, m.Index)
	case m.Runs:
		a.move(place, elementRuns)
	default:
		a.move(place, elementWaits)
		if m.Held {
			a.away[place] = true
		}
	}
	if fresh && !m.Over { // it may have been asked for before all this was known
		a.catchUp(ctx, m.Index)
	}
	a.spawn(ctx)
	a.later(ctx)
}

// later schedules a write and an update of the Mirror for the changes so far.
func (a *Array) later(ctx actor.Context) {
	if !a.paused {
		a.paused = true
		a.pauses++
		a.p.Clock.After(arrayPause, ctx.Self(), arrayDue{a.pauses})
	}
	if a.count[elementOver] == len(a.stage) {
		a.advance(ctx)
	}
}

func (a *Array) onForegone(ctx actor.Context, m protocol.Foregone) {
	if _, known := a.rec.KnownOf(m.Known.Job); known {
		return
	}
	for _, k := range a.foregone {
		if k.Job == m.Known.Job {
			return
		}
	}
	a.foregone = append(a.foregone, m.Known)
	a.advance(ctx)
}

func (a *Array) counts() *messages.ArrayCounts {
	of := func(s messages.JobState) int32 { return int32(a.ended[s]) }
	return &messages.ArrayCounts{
		Waiting:   int32(a.count[elementComing] + a.count[elementAsked] + a.count[elementWaits]),
		Running:   int32(a.count[elementRuns]),
		Succeeded: of(messages.JobState_JOB_STATE_SUCCEEDED),
		Failed: of(messages.JobState_JOB_STATE_FAILED) + of(messages.JobState_JOB_STATE_TIMED_OUT) +
			of(messages.JobState_JOB_STATE_UNSPECIFIED),
		Cancelled: of(messages.JobState_JOB_STATE_CANCELLED),
	}
}

// show tells the Mirror what people may see: one line for all elements.
func (a *Array) show(ctx actor.Context) {
	counts := a.counts()
	rec := a.rec.Revise()
	rec.Hold, rec.Sealed = rec.Array.GetHold(), nil
	status := &messages.JobStatus{Record: rec, Counts: counts, Phase: messages.PhaseQueued, Reason: counts.Words()}
	most := rec.Spec.GetArray().GetMost()
	switch {
	case rec.State.Terminal():
		status.Phase = messages.EndPhase(rec.State)
		if rec.Outcome != "" && rec.Outcome != status.Reason {
			status.Reason = rec.Outcome + "; " + status.Reason
		}
	case counts.Running > 0:
		status.Phase = messages.PhaseRunning
		if most > 0 && counts.Running >= most && counts.Waiting > 0 {
			status.Because(messages.WaitArrayLimit.Because(counts.Words(), fmt.Sprintf("at most %d at once", most)))
		}
	case len(rec.Awaits()) > 0 && rec.Hold == nil:
		status.Reason = "" // it is said for which jobs it waits
	case rec.Hold != nil:
		status.Phase = messages.PhaseHeld
		status.Because(messages.HeldBy(rec.Hold.GetBy().GetName(), rec.Hold.GetReason()).With(counts.Words()))
	default:
		status.Because(messages.WaitArray.Because(counts.Words()))
	}
	ctx.Send(a.peers.Mirror, mirror.JobShown{Status: status})
}
