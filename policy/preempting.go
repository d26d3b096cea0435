package policy

// This file owns who may be stopped for whom, and the promise of a job for which others are stopped. It is a firm
// promise on room that is about to come free: nobody is told to stop before it is on disk, nothing of what it keeps is
// lent, and it is not planned again for a better place, or what was stopped would have been stopped in vain. Its job
// starts on its place, or, as long as nobody was told to stop, wherever it fits sooner.
//
// All rules are strict, so that nothing is stopped in a circle. Inside a queue it is lower priority, or that the other
// is much longer (shortest.go). Between queues one that stays within its quota takes back what another has above its
// own; priority does not cross them.

import (
	"cmp"
	"slices"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/preempt"
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// Rule is by which right a job is stopped for another.
type Rule uint8

// The rules.
const (
	NoRule     Rule = iota
	ByPriority      // it has the lower priority, in the same queue
	Reclaim         // its queue has more than its quota, and the other's has not
	Shortest        // it is expected to go on for much longer, in the same queue
)

// Victim is an attempt that is stopped for a job.
type Victim struct {
	Job   topology.JobID
	Token topology.Token
	Rule  Rule
	Lost  int64 // work, in milli-GPU-seconds
}

// Running is what is known of an attempt that has room. Times are in ns.
type Running struct {
	Token      topology.Token
	Priority   int32
	Room       topology.Placement // on machines that can be reached
	Ran        int64              // since its barrier; 0: it has not passed that
	Had        int64              // for how long attempts of its job ran before
	Limit      int64              // 0: none
	Prepared   int64              // how long that took
	Checkpoint int64              // it saves its work so often; 0: nobody says so
	Grace      int64
	Fixed      bool  // it is not to be stopped
	Times      int   // that its job was stopped for another of its queue
	Rested     int64 // since the last of them; topology.Never: there was none
	Ends       bool  // its end is on disk
}

// Stopper is who knows what could be stopped, beside when it ends.
type Stopper interface {
	Ends
	// Running is what is known of a job's latest attempt; false: it has nothing on machines that can be reached.
	Running(job topology.JobID, nowNs int64) (Running, bool)
}

// Preempter is a planner that has others stopped.
type Preempter interface {
	Planner
	// Stopped says that an attempt was told to stop for a job. From then on that job waits for it.
	Stopped(job topology.JobID, t topology.Token)
}

const (
	// leftAlone is for how long a job is not stopped again for another of its queue, mostInside how often it is.
	leftAlone  = 3600 * second
	mostInside = 3
	// resuming is what it costs to begin again, beside the time to prepare.
	resuming = 60 * second
	// huntEvery is how often whom to stop is looked for for one burst, huntsInPass for how many in one pass.
	huntEvery   = 10 * second
	huntsInPass = 4
)

// stop is a victim of a promise.
type stop struct {
	Victim
	told bool // to stop, or its end is on disk
}

func (p *promise) isStopping() bool { return p != nil && len(p.stops) > 0 }

// victims are those of a promise.
func (p *promise) victims() (all []Victim) {
	for i := range p.stops {
		all = append(all, p.stops[i].Victim)
	}
	return all
}

// told are those that were told to stop for a job.
func (p *promise) told() (all []Victim) {
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
	stopper Stopper
	b       *burst
	e       *entry
	size    int64 // of the job
	takes   int64 // for how long it is expected to run
	leaf    *share.Branch
	upTo    map[*share.Branch]bool  // below these queues, those of the job stay within their quotas with it
	busy    map[topology.JobID]bool // they are being stopped
	coming  []*share.Hold           // what those will have to whom room is promised firmly
	through []*promise              // that are no obstacle to it
	all     []suspect
	later   int64 // when one more may be stopped
}

// suspect is who may be stopped.
type suspect struct {
	preempt.Candidate
	Victim
	grace int64
	hold  *share.Hold
	needs []int64
	loans []*share.Branch // that must have more than their quotas for it
}

// preempt has others stopped for a job if they may be and it then fits, and promises it their room.
func (j *Judgement) preempt(b *burst, e *entry) bool {
	h := j.hunting(b, e)
	if h == nil || h.leaf.Preempts.Shortest && !j.isNews(h) {
		return false
	}
	if j.hunts >= huntsInPass || j.now < b.hunted {
		j.wakeAt(max(b.hunted, j.now+second))
		return false
	}
	j.hunts++
	b.hunted = j.now + huntEvery
	stops, place, ok := j.huntThrough(h)
	if b.vain = (vain{j.changes, j.now, h.later}); !ok || len(stops) == 0 || !h.isGentle(stops) {
		j.wakeAt(h.later)
		return false
	}
	wait := j.longestGrace(h, stops)
	if at := j.without(b, e); at <= j.now+wait+resuming {
		b.vain.later = min(h.later, max(at, j.now)+second)
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

// hunting is what a look for victims goes by; nil: the job's queue has none stopped, or the job could not run anyway.
func (j *Judgement) hunting(b *burst, e *entry) *hunting {
	stopper, is := j.ends.(Stopper)
	if !is || j.shares == nil || j.heldBack(b) || !j.isPossible(e.group) {
		return nil
	}
	h := &hunting{stopper: stopper, b: b, e: e, leaf: j.shares.Leaf(e.Queue, e.Owner), later: topology.Never}
	if !h.leaf.Preempts.IsInside() && !h.leaf.Preempts.Reclaim {
		return nil
	}
	if h.size, h.takes = b.traits.Size, stillTakes(e.Had); e.Limit > 0 {
		h.takes = min(h.takes, e.Limit)
	}
	h.busy = map[topology.JobID]bool{}
	for _, p := range slices.Concat(j.firm, j.parked()) {
		if !p.isStopping() || p.e.Job == e.Job {
			continue
		}
		for _, s := range p.stops {
			h.busy[s.Job] = true
		}
	}
	h.coming = j.promisedFirmly(e, nil)
	return h
}

// foresee counts what there will be once all others have started to whom that is promised firmly, or counts that no
// more: else two would be given the same quota, and a queue would lose more than it has above its own.
func (j *Judgement) foresee(h *hunting, by int64) {
	j.shares.CountAll(h.coming, by)
	j.discount(h, by)
	if by > 0 {
		h.upTo = h.leaf.WithinUpTo(j.shares.Needs(h.b.traits.Pool, estimate.TotalOf(&h.e.Gang)))
	}
}

// discount counts no more what is being stopped for others, or counts that again.
func (j *Judgement) discount(h *hunting, by int64) {
	for job := range h.busy { //order: they are summed up
		if x := j.shares.Of(job); x != nil {
			j.shares.Count(x, -by)
		}
	}
}

// hunt finds whom to stop, beside those of an earlier plan that are stopping already, and where the job then goes.
func (j *Judgement) hunt(h *hunting, stopping []stop) ([]stop, topology.Placement, bool) {
	j.suspects(h)
	gang := h.e.group.wanted(j.view)
	if j.isStrict(h.b, h.e) {
		gang.Required = j.closest(h.e.group)
	}
	mark := j.view.Mark()
	for i := range stopping {
		if r, ok := h.stopper.Running(stopping[i].Job, j.now); ok && r.Token == stopping[i].Token {
			j.view.Give(r.Room)
		}
	}
	all := make([]preempt.Candidate, len(h.all))
	for i := range h.all {
		all[i] = h.all[i].Candidate
	}
	own := topology.KeepID(h.e.Job)
	lent := topology.Lent{Of: []topology.KeepID{own, own.Former()}}
	for _, p := range h.through {
		lent.Of = append(lent.Of, p.keep, p.keep.Former())
	}
	law := &statutes{s: j.shares, h: h, under: map[*share.Branch][]int{}, refused: map[*share.Branch]int{}}
	law.needs = j.shares.Needs(h.b.traits.Pool, estimate.TotalOf(&h.e.Gang))
	chosen, place, ok := preempt.Victims(j.view, &gang, lent, all, law)
	j.view.Rollback(mark)
	stops := slices.Clone(stopping)
	for _, i := range chosen {
		stops = append(stops, stop{Victim: h.all[i].Victim})
	}
	return stops, place, ok
}

func (j *Judgement) longestGrace(h *hunting, stops []stop) (grace int64) {
	for i := range h.all {
		if slices.ContainsFunc(stops, func(s stop) bool { return s.Job == h.all[i].Victim.Job }) {
			grace = max(grace, h.all[i].grace)
		}
	}
	return grace
}

// suspects finds who may be stopped.
func (j *Judgement) suspects(h *hunting) {
	for job, x := range j.shares.All() { //order: sorted below
		if h.busy[job] || job == h.e.Job {
			continue
		}
		rule, loans := h.rule(x.Leaf)
		if rule == NoRule {
			continue
		}
		r, ok := h.stopper.Running(job, j.now)
		if !ok || r.Ends || r.Fixed {
			continue
		}
		if rule != Reclaim {
			rule = h.inside(&r, x, j.now)
		}
		if rule == NoRule {
			continue
		}
		if ready := leastRun(&x.Leaf.Preempts, rule) - r.Ran; ready > 0 {
			h.later = min(h.later, j.now+ready)
			continue
		}
		if ready := leftAlone - r.Rested; rule != Reclaim && ready > 0 {
			h.later = min(h.later, j.now+ready)
			continue
		}
		lost := r.lost(x.Size)
		h.all = append(h.all, suspect{
			Candidate: preempt.Candidate{Job: job, Room: r.Room, Lost: lost},
			Victim:    Victim{Job: job, Token: r.Token, Rule: rule, Lost: lost},
			grace:     r.Grace, hold: x, loans: loans, needs: j.shares.Needs(x.Pool, x.Total),
		})
	}
	slices.SortFunc(h.all, func(a, b suspect) int { return cmp.Compare(a.Candidate.Job, b.Candidate.Job) })
}

// lost is what work it costs to stop an attempt of this size, in milli-GPU-seconds.
func (r *Running) lost(size int64) int64 {
	again := r.Ran
	if r.Checkpoint > 0 {
		again = min(again, r.Checkpoint)
	}
	return topology.Scaled(size, again+resuming+r.Prepared, second)
}

// rule is by which rule what a job of a queue has may be taken for another, and which queues must have more than their
// quotas for that. Inside a queue what its attempt is decides by which.
func (h *hunting) rule(leaf *share.Branch) (Rule, []*share.Branch) {
	if leaf.Name == h.leaf.Name {
		if h.leaf.Preempts.IsInside() {
			return ByPriority, nil
		}
		return NoRule, nil
	}
	if !h.leaf.Preempts.Reclaim {
		return NoRule, nil
	}
	var loans []*share.Branch
	for o := leaf; o.Parent != nil; o = o.Parent {
		if o.Assured {
			loans = append(loans, o)
		}
		if within, common := h.upTo[o.Parent]; common {
			if within {
				return Reclaim, loans
			}
			break
		}
	}
	return NoRule, nil
}

// statutes is the law that a hunt goes by: what is reclaimed is above the quotas that it counts in, for each victim
// though the others have gone, and the job exceeds no limit once all have.
type statutes struct {
	s       *share.Tree
	h       *hunting
	needs   []int64
	under   map[*share.Branch][]int // chosen, of each queue that must have more than its quota
	refused map[*share.Branch]int   // since somebody was chosen
}

// fewRefusals is after how many a queue is taken to have nothing left above its quota.
const fewRefusals = 64

// Add chooses a victim.
func (l *statutes) Add(i int) bool {
	c := &l.h.all[i]
	for _, h := range c.loans {
		if l.refused[h] >= fewRefusals {
			return false
		}
	}
	l.s.Count(c.hold, -1)
	for _, h := range c.loans {
		l.under[h] = append(l.under[h], i)
	}
	for _, h := range c.loans {
		if !l.isAbove(h) {
			l.refused[h]++
			l.Drop(i)
			return false
		}
	}
	return true
}

// Drop chooses one no more.
func (l *statutes) Drop(i int) {
	c := &l.h.all[i]
	l.s.Count(c.hold, 1)
	for _, h := range c.loans {
		l.under[h] = slices.DeleteFunc(l.under[h], func(o int) bool { return o == i })
		l.refused[h] = min(l.refused[h], fewRefusals-1)
	}
}

// isAbove reports whether a queue has more than its quota without each of those that are chosen, but for that one.
func (l *statutes) isAbove(h *share.Branch) bool {
	for _, i := range l.under[h] {
		if !h.Exceeds(l.h.all[i].needs) {
			return false
		}
	}
	return true
}

// Enough reports whether no limit is in the way of the job any more.
func (l *statutes) Enough(p topology.Placement) bool {
	if l.h.e.Fixed && l.s.Beyond(l.h.leaf, l.needs) != nil {
		return false
	}
	return l.s.Over(l.h.leaf, l.h.e.Owner, l.needs, p.Nodes()) == nil
}
