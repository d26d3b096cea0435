// Package array holds the Array, the actor of a job with many elements. The Array turns elements into jobs as the queue
// has capacity for them, and records how each ended. It passes requests for the entire array to its elements.
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

// Array owns one array: which of its elements become jobs next, and how the earlier ones ended. It is the only writer
// of the array's record, which is stored like a job's record. Once an element is a job, only the job's own record
// describes it. An element becomes a job only when it may be next, so a hundred thousand elements cost no more than one
// record.
//
// No element is lost, and none becomes a job twice. Each element has its own ID, and the store accepts only the first
// record of an ID. The number of created elements therefore need not be written in advance: an Array that creates an
// existing element learns the state of that element. The record lists the ended elements, with a delay of at most one
// second.
//
// The Array sends messages to the Scheduler (Sprout, Allows, Concluded, Settled, Stale), to its elements' Jobs (Cancel,
// Hold, Requeue, Update), to the Mirror (JobShown), and to clients. It sends requests to the Journal (Write → Written).
type Array struct {
	p      *protocol.Ports
	states actors.States[arrayState]
	id     topology.JobID
	peers  protocol.JobPeers
	life   uint64 // number of this actor, as for a Job
	writes uint32

	rec   *messages.JobRecord // on disk
	stage []elementStage      // of each element, by its place
	held  map[int]bool        // places that must not become jobs
	away  map[int]bool        // places of held elements that are jobs; they do not count as waiting
	next  int                 // all earlier places are jobs, were jobs, or are held
	count [elementOver + 1]int
	ended [endStates]int // by state

	cancel   *messages.Deed
	hold     *protocol.HoldWish
	respec   *protocol.SpecWish
	changed  map[int]*messages.ElementsChanged // by place: changes of elements that are not jobs yet
	errands  []*errand
	looks    bool // a timer for the next check is set
	foregone []*messages.AfterKnown
	askers   []arrayAsker
	dirty    bool
	allowed  int32          // concurrency limit that the Scheduler knows
	open     map[int32]bool // indices below the record's reach whose past is still unknown
	told     bool           // the Array knows all live elements
	flight   *arrayDraft    // on its way to disk
	paused   bool           // changes that are not urgent are being collected
	pauses   uint64
}

// elementStage is the stage of an element: not a job yet, requested, a waiting job, a running job, or ended. The final
// state of an ended element is added to elementOver.
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
	unborn    = elementStage(128) // flag in addition to the state: it never was a job

	// maxElementsWaiting limits the elements that are waiting jobs, because each costs as much as a job.
	maxElementsWaiting = 64
)

const (
	// arrayPause is how long the results of elements are collected before one write.
	arrayPause = time.Second
	// arrayLook is how often a cancelled array checks for elements that have not received the cancel.
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

// Receive dispatches a message.
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
	case *messages.Checkpoint:
		a.onCheckpoint(ctx, m)
	case *messages.Update:
		a.onUpdate(ctx, m)
	default:
		a.onToldReply(ctx, m)
	}
}

// at returns the stage of an element without its final state.
func (s elementStage) at() elementStage { return min(s&^unborn, elementOver) }

// endState returns the final state of an element.
func (s elementStage) endState() messages.JobState { return messages.JobState(s&^unborn - elementOver) }

// move puts an element into a stage.
func (a *Array) move(place int, to elementStage) {
	delete(a.away, place)
	a.count[a.stage[place].at()]--
	a.count[to.at()]++
	a.stage[place] = to
}

// end records the final state of an element.
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

// onTold starts the work after the Scheduler has reported all live elements. It asks the store about the other elements
// that the record may have missed.
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

// known reports whether the Array knows for every element whether it is or was a job.
func (a *Array) known() bool { return a.told && len(a.open) == 0 }

func (a *Array) goOn(ctx actor.Context) {
	a.spawn(ctx)
	a.advance(ctx)
}

// spawn requests jobs for the next elements. The array's concurrency limit and the limit on waiting elements apply.
// Held elements count for neither limit, because the others would otherwise wait for their release.
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
				a.advance(ctx) // spawn continues when the record reserves more elements
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

// closed reports whether no further element becomes a job.
func (a *Array) closed() bool {
	return a.cancel != nil || protocol.WhyCancelled(a.rec) != "" || a.states.In(arrayOver)
}

// onMoved records the progress of an element that is a job, and requests the next elements.
func (a *Array) onMoved(ctx actor.Context, m protocol.ElementMoved) {
	place := a.rec.Spec.Array.Place(m.Index)
	if place < 0 || a.stage[place].at() == elementOver {
		return
	}
	delete(a.open, m.Index)
	fresh := a.stage[place] <= elementAsked
	if a.changed[place] != nil { // its own record has the change
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
	if fresh && !m.Over { // it may have been requested before a later change or hold
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
	if a.rec.Learns(m.Known, a.foregone) {
		a.foregone = append(a.foregone, m.Known)
		a.advance(ctx)
	}
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

// show sends the Mirror the status of the array: one entry for all elements.
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
		status.Reason = "" // the Mirror names the jobs that it waits for
	case rec.Hold != nil:
		status.Phase = messages.PhaseHeld
		status.Because(messages.HeldBy(rec.Hold.GetBy().GetName(), rec.Hold.GetReason()).With(counts.Words()))
	default:
		status.Because(messages.WaitArray.Because(counts.Words()))
	}
	ctx.Send(a.peers.Mirror, mirror.JobShown{Status: status})
}
