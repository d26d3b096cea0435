package policy

// This file owns when others are stopped for a job, and the promise of a job for which they are. It is a firm
// promise on room that is about to come free: nobody is told to stop before it is on disk, nothing of what it keeps is
// lent, and it is not planned again for a better place, or what was stopped would have been stopped in vain. Its job
// starts on its place, or, as long as nobody was told to stop, wherever it fits sooner.

import (
	"slices"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/preempt"
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// Stopper knows the running jobs that could be stopped, in addition to their ends.
type Stopper interface {
	Ends
	// Running is what is known of a job's latest attempt; false: it has nothing on machines that can be reached.
	Running(job topology.JobID, nowNs int64) (preempt.Running, bool)
}

// Preempter is a planner that has others stopped.
type Preempter interface {
	Planner
	// Stopped says that an attempt was told to stop for a job. From then on that job waits for it.
	Stopped(job topology.JobID, t topology.Token)
}

const (
	// huntEvery is how often whom to stop is looked for for one burst, huntsInPass for how many in one pass.
	huntEvery   = 10 * second
	huntsInPass = 4
)

// stop is a victim of a promise.
type stop struct {
	preempt.Victim
	told bool // to stop, or its end is on disk
}

func (p *promise) isStopping() bool { return p != nil && len(p.stops) > 0 }

// victimsOf lists whom stops name.
func victimsOf(stops []stop) (all []preempt.Victim) {
	for i := range stops {
		all = append(all, stops[i].Victim)
	}
	return all
}

// told returns the jobs that were ordered to stop for a job.
func (p *promise) told() (all []preempt.Victim) {
	if p == nil {
		return nil
	}
	for i := range p.stops {
		if p.stops[i].told {
			all = append(all, p.stops[i].Victim)
		}
	}
	return all
}

// hunting is one look for whom to stop, and what it goes by.
type hunting struct {
	preempt.Look
	stopper Stopper
	b       *burst
	e       *entry
	coming  []*share.Hold // what those will have to whom room is promised firmly
	through []*promise    // that are no obstacle to it
}

// preempt has others stopped for a job if they may be and it then fits, and promises it their room.
func (j *Judgement) preempt(b *burst, e *entry) bool {
	h := j.hunting(b, e)
	if h == nil || h.Leaf.Preempts.Shortest && !j.isNews(h) {
		return false
	}
	if j.hunts >= huntsInPass || j.now < b.hunted {
		j.wakeAt(max(b.hunted, j.now+second))
		return false
	}
	j.hunts++
	b.hunted = j.now + huntEvery
	stops, place, ok := j.huntThrough(h)
	if b.vain = (vain{j.changes, j.now, h.Later}); !ok || len(stops) == 0 || !h.IsGentle() {
		j.wakeAt(h.Later)
		return false
	}
	wait := h.Grace()
	if at := j.without(b, e); at <= j.now+wait+preempt.Resuming {
		b.vain.later = min(h.Later, max(at, j.now)+second)
		j.wakeAt(b.vain.later)
		return false
	}
	j.yield(h, place)
	b.hunted, b.over, b.vain = 0, nil, vain{}
	j.wakeAt(j.now + second)
	bound := int64(topology.Never)
	if p := e.promised; p != nil {
		bound = p.bound // what was said by when stands: without this it would start later than the victims are to be gone
		j.leave(e.Job, p.place)
		j.drop(p)
	}
	j.keep(&promise{e: e, b: b, at: j.now + wait, bound: bound, place: place, firm: true, stops: stops})
	j.keepFormer(e.Job, place, nothing)
	return true
}

// vain is a look for whom to stop that found nobody.
type vain struct{ changes, at, later int64 }

// lookAgain is after how long a burst is looked at again though nothing is known to have changed.
const lookAgain = 60 * second

// isNews reports whether to look again for whom to stop for a job: something has ended or was started since the last
// look, or somebody has run for long enough by now. In a queue where long jobs give way each one that waits would be
// looked at in turn for ever, though nothing but the time has changed. Where only jobs of the same queue may be
// stopped, those are counted first: that costs little.
func (j *Judgement) isNews(h *hunting) bool {
	v := &h.b.vain
	if v.at > 0 && v.changes == j.changes && j.now < min(v.later, v.at+lookAgain) {
		j.wakeAt(v.later)
		return false
	}
	if h.Leaf.Preempts.Reclaim || h.Gather(h.stopper.Running, j.now) > 0 {
		return true
	}
	*v = vain{j.changes, j.now, h.Later}
	j.wakeAt(h.Later)
	return false
}

// without is when a job is expected to start if nobody is stopped for it; topology.Never: nobody can say.
func (j *Judgement) without(b *burst, e *entry) int64 {
	if e.promised != nil {
		return e.promised.at
	}
	if b.over != nil {
		return topology.Never
	}
	if at, _, ok := j.soonest(b, e); ok {
		return at
	}
	return topology.Never
}

// hunting returns the parameters of a search for victims; nil: the job's queue stops no jobs, or the job could not run
// anyway.
func (j *Judgement) hunting(b *burst, e *entry) *hunting {
	stopper, is := j.ends.(Stopper)
	if !is || j.shares == nil || j.heldBack(b) || !j.isPossible(e.group) {
		return nil
	}
	h := &hunting{stopper: stopper, b: b, e: e, Look: preempt.Look{
		Tree: j.shares, Leaf: j.shares.Leaf(e.Queue, e.Owner), Job: e.Job, Owner: e.Owner, Priority: e.Priority,
		Fixed: e.Fixed, Size: b.traits.Size, Takes: preempt.StillTakes(e.Had), Later: topology.Never,
	}}
	if !h.Leaf.Preempts.IsInside() && !h.Leaf.Preempts.Reclaim {
		return nil
	}
	if e.Limit > 0 {
		h.Takes = min(h.Takes, e.Limit)
	}
	h.Needs, h.Busy = j.shares.Needs(b.traits.Pool, estimate.TotalOf(&e.Gang)), map[topology.JobID]bool{}
	for _, p := range slices.Concat(j.firm, j.parked()) {
		if !p.isStopping() || p.e.Job == e.Job {
			continue
		}
		for _, s := range p.stops {
			h.Busy[s.Job] = true
		}
	}
	h.coming = j.promisedFirmly(e, nil)
	return h
}

// foresee counts what there will be once all others have started to whom that is promised firmly, or counts that no
// more: else two would be given the same quota, and a queue would lose more than it has above its own.
func (j *Judgement) foresee(h *hunting, by int64) {
	j.shares.Count(by, h.coming...)
	j.discount(h, by)
	if by > 0 {
		h.Foresee()
	}
}

// discount counts no more what is being stopped for others, or counts that again.
func (j *Judgement) discount(h *hunting, by int64) {
	for job := range h.Busy { //order: they are summed up
		if x := j.shares.Of(job); x != nil {
			j.shares.Count(-by, x)
		}
	}
}

// hunt finds whom to stop, beside those of an earlier plan that are stopping already, and where the job then goes.
func (j *Judgement) hunt(h *hunting, stopping []stop) ([]stop, topology.Placement, bool) {
	h.Gather(h.stopper.Running, j.now)
	gang := h.e.group.wanted(j.view)
	if j.isStrict(h.b, h.e) {
		gang.Required = j.closest(h.e.group)
	}
	own := topology.KeepID(h.e.Job)
	lent := topology.Lent{Of: []topology.KeepID{own, own.Former()}}
	for _, p := range h.through {
		lent.Of = append(lent.Of, p.keep, p.keep.Former())
	}
	if len(stopping) == 0 && j.fitsWhereFailed(gang, lent) {
		return nil, topology.Placement{}, false
	}
	mark := j.view.Mark()
	for i := range stopping {
		if r, ok := h.stopper.Running(stopping[i].Job, j.now); ok && r.Token == stopping[i].Token {
			j.view.Give(r.Room)
		}
	}
	chosen, place, ok := h.Find(j.view, &gang, lent)
	j.view.Rollback(mark)
	stops := slices.Clone(stopping)
	for _, v := range chosen {
		stops = append(stops, stop{Victim: v})
	}
	return stops, place, ok
}

// fitsWhereFailed reports whether a job has room if it no longer avoids the nodes on which it failed. It stops no other
// job then: its own failure may be the reason, and it goes back to these nodes soon.
func (j *Judgement) fitsWhereFailed(gang topology.Gang, lent topology.Lent) bool {
	if len(gang.Avoid) == 0 {
		return false
	}
	gang.Avoid = nil
	var refusal topology.Refusal
	_, fits := topology.PlaceLent(j.view, &gang, lent, &refusal)
	return fits
}
