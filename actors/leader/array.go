package leader

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
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
// It tells: the Scheduler (sprout, concluded, settled, stale), its elements' Jobs (Cancel, Hold, Requeue, Update), the
// Mirror (JobShown). It asks: the Journal (Write → Written).
type Array struct {
	p      *Ports
	states actors.States[arrayState]
	id     topology.JobID
	peers  jobPeers
	life   uint64 // as of a Job
	writes uint32

	rec   *messages.JobRecord // on disk
	stage []elementStage      // of each element, by its place
	held  map[int]bool        // places that are not to become jobs
	next  int                 // all before it are jobs, or were, or are held
	count [elementOver + 1]int
	ended [endStates]int // by state

	cancel   *messages.Deed
	hold     *holdWish
	respec   *specWish
	changed  *messages.Update // all changes of its spec since this actor was made
	foregone []*messages.AfterKnown
	askers   []asker
	dirty    bool
	open     map[int32]bool // indices below the record's reach of which it is not known yet whether they were jobs
	told     bool           // of all elements that live
	flight   *arrayDraft    // that is on its way to the disk
	paused   bool           // what is not urgent waits for more
	pauses   uint64
}

// arrayDraft is a record on its way, with what is told once it is there.
type arrayDraft struct {
	rec      *messages.JobRecord
	askers   []asker
	hold     *holdWish
	respec   *specWish
	foregone int
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
	// arrayStep is by how much the reach of an array's record grows: that many elements may have been jobs that are over
	// and that the record does not know, when its leader dies.
	arrayStep = 128
	// arrayPause is how long what became of elements waits to be written with more of it.
	arrayPause = time.Second
	// arrayLook is how often a cancelled array looks after elements that have not heard of it.
	arrayLook = 10 * time.Second
)

type (
	// sprout: an element may become a job. Array → Scheduler, who answers with elementMoved.
	sprout struct {
		Array *messages.JobRecord
		Index int32
	}
	// elementMoved: an element is a job, and waits, runs or has ended. Scheduler → Array.
	elementMoved struct {
		Index int32
		Runs  bool
		Over  bool
		State messages.JobState // of its end
	}
	// probe: was this element ever a job? Array → Scheduler, who answers with elementMoved or elementNever.
	probe struct {
		Array topology.JobID
		Index int32
	}
	elementNever struct{ Index int32 }
	// elementsTold: those that live have all been told of. Scheduler → Array.
	elementsTold struct{ Fresh bool }
	arrayDue     struct{ Seq uint64 }
	lookDue      struct{}
)

func newArray(p *Ports, peers jobPeers, life uint64, rec *messages.JobRecord) actor.Actor {
	a := &Array{
		p: p, id: topology.JobID(rec.Id), peers: peers, life: life, rec: rec,
		states: actors.NewStates(&arrayTable, p.Host),
		stage:  make([]elementStage, rec.Spec.Array.Len()), held: map[int]bool{}, open: map[int32]bool{},
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
	return a
}

// Receive dispatches.
func (a *Array) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		a.states.Become("opened", arrayOpen)
		a.show(ctx)
		a.p.Clock.After(arrayLook, ctx.Self(), lookDue{})
	case elementMoved:
		a.onMoved(ctx, m)
	case elementNever:
		delete(a.open, m.Index)
		a.goOn(ctx)
	case elementsTold:
		a.onTold(ctx, m)
	case foregone:
		a.onForegone(ctx, m)
	case Written:
		a.onWritten(ctx, m)
	case arrayDue:
		if m.Seq == a.pauses {
			a.paused = false
			a.show(ctx)
			a.advance(ctx)
		}
	case lookDue:
		a.onLook(ctx)
	case *messages.Cancel:
		a.onCancel(ctx, m)
	case *messages.Hold:
		a.onHold(ctx, m)
	case *messages.Requeue:
		a.onRequeue(ctx, m)
	case *messages.Update:
		a.onUpdate(ctx, m)
	}
}

// at is the stage of an element without the state of its end.
func (s elementStage) at() elementStage { return min(s&^unborn, elementOver) }

// endState is how an element ended.
func (s elementStage) endState() messages.JobState { return messages.JobState(s&^unborn - elementOver) }

// move puts an element into a stage.
func (a *Array) move(place int, to elementStage) {
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
	a.ended[state]++
	a.dirty = true
}

// onTold begins once it is known which elements live. Of the others that the record may have missed the store is asked.
func (a *Array) onTold(ctx actor.Context, m elementsTold) {
	a.told = true
	for place := 0; !m.Fresh && place < int(a.rec.Array.GetReach()) && place < len(a.stage); place++ {
		if a.stage[place] == elementComing {
			index := a.rec.Spec.Array.Index(place)
			a.open[index] = true
			ctx.Send(a.peers.scheduler, probe{a.id, index})
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

// spawn asks for jobs while elements may be next: no more than the array allows at once, and few that wait.
func (a *Array) spawn(ctx actor.Context) {
	if !a.known() || a.closed() || a.wantedHold() != nil || len(a.rec.Awaits()) > 0 {
		return
	}
	most := int(a.rec.Spec.Array.Most)
	for place := a.next; place < len(a.stage); place++ {
		waiting := a.count[elementAsked] + a.count[elementWaits]
		if waiting >= maxElementsWaiting || most > 0 && waiting+a.count[elementRuns] >= most {
			return
		}
		if a.stage[place] == elementComing && !a.held[place] {
			if place >= int(a.rec.Array.GetReach()) {
				a.advance(ctx) // it comes when the record says that it may have
				return
			}
			a.move(place, elementAsked)
			ctx.Send(a.peers.scheduler, sprout{a.rec, a.rec.Spec.Array.Index(place)})
		}
		if place == a.next {
			a.next++
		}
	}
}

// closed reports whether no element becomes a job any more.
func (a *Array) closed() bool {
	return a.cancel != nil || whyCancelled(a.rec) != "" || a.states.In(arrayOver)
}

// onMoved takes what became of an element that is a job, and lets the next ones come.
func (a *Array) onMoved(ctx actor.Context, m elementMoved) {
	place := a.rec.Spec.Array.Place(m.Index)
	if place < 0 || a.stage[place].at() == elementOver {
		return
	}
	delete(a.open, m.Index)
	fresh := a.stage[place] <= elementAsked
	switch {
	case m.Over:
		a.end(place, m.State, false)
	case m.Runs:
		a.move(place, elementRuns)
	default:
		a.move(place, elementWaits)
	}
	if fresh && !m.Over { // it may have been asked for before all this was known
		a.catchUp(ctx, m.Index)
	}
	a.spawn(ctx)
	a.later(ctx)
}

// later has what changed written and shown before long.
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

// advance writes what is due, if no write is on its way.
func (a *Array) advance(ctx actor.Context) {
	if a.flight != nil || a.states.In(arrayOver) || !a.known() {
		return
	}
	if a.rec.State.Terminal() {
		a.states.Become("all over", arrayOver)
		ctx.Send(a.peers.scheduler, settled{a.id})
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
	ctx.Request(a.peers.journal, Write{
		Lane: LaneDecisions, Change: actors.Change{Job: d.rec}, Tag: d.rec.WrittenBy.Counter,
	})
}

// reach is up to where elements may become jobs before the record is written again.
func (a *Array) reach() int {
	if a.next < int(a.rec.Array.GetReach()) || a.next >= len(a.stage) {
		return 0
	}
	return a.next + arrayStep
}

// draft is the record as it is to be now.
func (a *Array) draft() *arrayDraft {
	d := &arrayDraft{
		rec: a.rec.Revise(), askers: a.askers, hold: a.hold, respec: a.respec, foregone: len(a.foregone),
	}
	a.askers, a.dirty = nil, false
	if d.rec.Cancel == nil {
		d.rec.Cancel = a.cancel
	}
	if a.respec != nil {
		d.rec.Spec, d.rec.Changed = a.respec.spec, a.respec.deed
	}
	d.rec.AfterKnown = append(d.rec.AfterKnown[:len(d.rec.AfterKnown):len(d.rec.AfterKnown)], a.foregone...)
	if whyCancelled(d.rec) != "" {
		for place, s := range a.stage {
			if s == elementComing {
				a.end(place, messages.JobState_JOB_STATE_CANCELLED, true)
			}
		}
	}
	d.rec.Array = &messages.ArrayRecord{Hold: a.wantedHold(), Ended: a.endedRanges(), Held: a.heldRanges(),
		Reach: int32(max(a.reach(), int(a.rec.Array.GetReach())))}
	if a.count[elementOver] == len(a.stage) {
		a.conclude(d.rec)
	}
	return d
}

// conclude says how the whole array ended.
func (a *Array) conclude(rec *messages.JobRecord) {
	state, code, outcome := messages.JobState_JOB_STATE_SUCCEEDED, int32(0), ""
	if a.ended[state] < len(a.stage) {
		state, code, outcome = messages.JobState_JOB_STATE_FAILED, 1, a.counts().Words()
	}
	if why := whyCancelled(rec); why != "" {
		state, code, outcome = messages.JobState_JOB_STATE_CANCELLED, 0, why
	}
	conclude(rec, state, code, outcome, a.p.Clock.WallMs())
}

func (a *Array) endedRanges() (all []*messages.ElementsEnded) {
	places := map[elementStage][]int{}
	for place, s := range a.stage {
		if s.at() == elementOver {
			places[s] = append(places[s], place)
		}
	}
	for s := elementOver; s != 0; s++ { // until it begins again
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

func (a *Array) onWritten(ctx actor.Context, m Written) {
	d := a.flight
	if d == nil || m.Tag != d.rec.WrittenBy.Counter {
		return
	}
	if m.Verdict != actors.Done {
		ctx.Send(a.peers.scheduler, stale{a.id})
		return
	}
	a.flight, a.rec = nil, d.rec
	a.foregone = a.foregone[d.foregone:]
	if a.rec.Cancel != nil {
		a.cancel = nil
	}
	forget(&a.hold, d.hold)
	forget(&a.respec, d.respec)
	if whyCancelled(a.rec) != "" {
		a.tellLive(ctx, a.cancels())
	}
	a.show(ctx)
	for _, asker := range d.askers {
		ctx.Send(asker.pid, asker.answer())
	}
	if a.rec.State.Terminal() {
		ctx.Send(a.peers.scheduler, concluded{a.id, a.rec.State})
	}
	a.spawn(ctx)
	a.advance(ctx)
}

// forget drops a wish that is on disk, if it is still the last one.
func forget[W any](wish **W, written *W) {
	if *wish == written {
		*wish = nil
	}
}

func (a *Array) onForegone(ctx actor.Context, m foregone) {
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
	switch {
	case rec.State.Terminal():
		status.Phase = messages.EndPhase(rec.State)
		if rec.Outcome != "" && rec.Outcome != status.Reason {
			status.Reason = rec.Outcome + "; " + status.Reason
		}
	case counts.Running > 0:
		status.Phase = messages.PhaseRunning
	case len(rec.Awaits()) > 0 && rec.Hold == nil:
		status.Reason = "" // it is said for which jobs it waits
	case rec.Hold != nil:
		status.Phase = messages.PhaseHeld
		status.Reason = fmt.Sprintf("held by %s%s: %s", rec.Hold.GetBy().GetName(),
			actors.Because(rec.Hold.GetReason()), status.Reason)
	}
	ctx.Send(a.peers.mirror, mirror.JobShown{Status: status})
}
