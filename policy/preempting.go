package policy

// This file decides when jobs are stopped for another job, and has the promise of that job. It is a firm promise on
// capacity that is about to become free. No job is stopped before the promise is on disk. Nothing of its capacity is
// lent. It is not planned again for a better place, because then jobs would have been stopped in vain. The job starts
// on its promised place. As long as no victim has been stopped, it may also start elsewhere.

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
	// Running returns the state of a job's latest attempt. It returns false if the attempt holds nothing on
	// reachable nodes.
	Running(job topology.JobID, nowNs int64) (preempt.Running, bool)
}

// Preempter is a planner that stops jobs for others.
type Preempter interface {
	Planner
	// Stopped reports that an attempt was stopped for a job. From then on, the job waits for it.
	Stopped(job topology.JobID, t topology.Token)
	// Saved reports that the gang of an attempt acknowledged a checkpoint. From then on, its stop costs less.
	Saved()
}

const (
	// huntEvery is the interval between searches for victims for one burst. huntsInPass limits the searches in one
	// pass.
	huntEvery   = 10 * second
	huntsInPass = 4
)

// stop is a victim of a promise.
type stop struct {
	preempt.Victim
	told bool // it was stopped, or its end is on disk
}

func (p *promise) isStopping() bool { return p != nil && len(p.stops) > 0 }

// victimsOf returns the victims of stops.
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

// hunting is one search for victims, with its parameters.
type hunting struct {
	preempt.Look
	stopper Stopper
	b       *burst
	e       *entry
	coming  []*share.Hold // future holdings of jobs with firm promises
	through []*promise    // promises that the search ignores
}

// preempt searches victims for a job. If the job then fits, it gets a promise of their capacity.
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
		// A published latest start remains valid: otherwise the job would start after the victims have gone.
		bound = p.bound
		j.leave(e.Job, p.place)
		j.drop(p)
	}
	j.keep(&promise{e: e, b: b, at: j.now + wait, bound: bound, place: place, firm: true, stops: stops})
	j.keepFormer(e.Job, place, nothing)
	return true
}

// Saved lets jobs search for victims again, because a victim has become cheaper.
func (j *Judgement) Saved() { j.changes++ }

// vain is a search for victims that found none.
type vain struct{ changes, at, later int64 }

// lookAgain is the time after which a search is repeated even if no change is known.
const lookAgain = 60 * second

// isNews reports whether another search for victims may succeed: a job has ended, started or saved after the last
// search, or a job has now run long enough. Without this check, a queue with the rule Shortest would search for every
// waiting job again and again. If only jobs of the same queue can be victims, isNews first counts them, which is cheap.
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

// without returns the expected start of a job if no job is stopped for it, or topology.Never if unknown.
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

// foresee adds the future holdings of jobs with firm promises to the usage of queues, or removes them if by is -1.
// Without them, two jobs would get the same quota, and a queue would lose more than it has above its own.
func (j *Judgement) foresee(h *hunting, by int64) {
	j.shares.Count(by, h.coming...)
	j.discount(h, by)
	if by > 0 {
		h.Foresee()
	}
}

// discount removes the jobs that are being stopped from the usage, or adds them again if by is -1.
func (j *Judgement) discount(h *hunting, by int64) {
	for job := range h.Busy { //order: they are summed up
		if x := j.shares.Of(job); x != nil {
			j.shares.Count(-by, x)
		}
	}
}

// hunt selects victims in addition to the ones that are already stopping, and returns the placement of the job.
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

// fitsWhereFailed reports whether a job would fit if it did not avoid the nodes on which it failed. If so, the job
// stops no other job: the failure may be its own fault, and it may soon use these nodes again.
func (j *Judgement) fitsWhereFailed(gang topology.Gang, lent topology.Lent) bool {
	if len(gang.Avoid) == 0 {
		return false
	}
	gang.Avoid = nil
	var refusal topology.Refusal
	_, fits := topology.PlaceLent(j.view, &gang, lent, &refusal)
	return fits
}
