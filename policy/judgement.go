package policy

// This file has the planner that looks ahead, and the phases of one of its passes. Short jobs run first, by estimates
// from finished jobs. Jobs that cannot start get reserved nodes, which are backfilled with jobs that end in time. The
// job that has waited longest gets its turn whatever the order is. A pass costs time per burst, and all jobs of a shape
// share one refusal. The planner must never start a gang twice, and never use the reservation of another job.

import (
	"cmp"
	"slices"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// Ends has the ends of all running jobs. A Judgement reads it in each pass. It also reports each start to it at once,
// because later decisions of the same pass depend on the start.
type Ends interface {
	// Horizon returns the known ends of all running jobs.
	Horizon(view *topology.Tree, nowNs int64) *topology.Horizon
	// Admitted adds a job that this pass has started.
	Admitted(a *Admission, nowNs int64)
	// Runs reports whether a job has an attempt that holds capacity.
	Runs(job topology.JobID) bool
	// Held returns the amounts that the latest attempt of a job holds on a node, one per rank. The caller only
	// reads them.
	Held(job topology.JobID, node topology.NodeID) []topology.Resources
	// Unheard reports whether one of the nodes has an attempt of an earlier leader that has not reported its run
	// time yet.
	Unheard(p topology.Placement) bool
	// Endless returns a job without a hard end on one of the nodes, or "".
	Endless(p topology.Placement) topology.JobID
}

// Judgement is a planner that looks ahead. It belongs to one queue and one view. With another queue or view it starts
// without any data.
type Judgement struct {
	settings Settings
	cells    *estimate.Cells
	ends     Ends

	view    *topology.Tree
	queue   *Queue
	horizon *topology.Horizon
	now     int64
	round   uint64 // number of passes; refusals of a group are valid for one pass
	hunts   int    // searches for victims in this pass
	fewer   int    // searches for placements on fewer nodes, in this pass
	changes int64  // counts jobs that were started or ended

	bursts bursts
	lineUp []*burst // of this pass: all bursts that waited after the guard, in order
	pools  pools
	firm   []*promise                  // in the order of their creation
	moving []*promise                  // of this pass, in the order of planning
	away   map[topology.JobID]*promise // firm promises of jobs that are not in the queue
	// unwritten has the earlier places of firm promises that may still be on disk.
	unwritten map[topology.JobID][]topology.Slot
	orders    uint64   // order of the newest firm promise
	debtors   []*entry // jobs with reserved capacity that is lent on an estimate
	work      map[topology.JobID]*work
	record    record
	shares    *share.Tree // nil: no queues are configured
	turns     map[*share.Branch]*turns
	ended     []endedJob // since the last pass

	closer topology.Gang // scratch: a gang with a required level chosen by the planner
	d      Decisions
	wake   int64 // time of the next pass if nothing changes; 0: none
	// forgetful disables the cache of the horizon and the early end of the pass over queues. Tests compare this
	// slow version with the fast one.
	forgetful bool
	found     topology.Findings // answers of the last pass
}

// NewJudgement returns a planner. It only reads the cells.
func NewJudgement(settings Settings, cells *estimate.Cells, ends Ends) *Judgement {
	return &Judgement{
		settings: settings, cells: cells, ends: ends,
		work: map[topology.JobID]*work{}, away: map[topology.JobID]*promise{},
		unwritten: map[topology.JobID][]topology.Slot{}, turns: map[*share.Branch]*turns{},
	}
}

// Plan runs a pass. The phases:
//  1. New jobs join their bursts. Moving promises are dropped, because each is planned again.
//  2. Lent capacity that is late is counted as an overrun of its lender.
//  3. Jobs with a firm promise start if they can.
//  4. If the guard has credit, the job that has waited longest gets the next turn.
//  5. All bursts get their turns, by priority and then by the least work. Each starts the jobs that fit, and then gets
//     a moving promise if its class has one left. The first job of an untried burst gets an earlier turn.
func (j *Judgement) Plan(view *topology.Tree, queue *Queue, nowNs int64) Decisions {
	j.begin(view, queue, nowNs)
	j.countSlips()
	j.serveFirm()
	j.guard()
	j.lineUp = j.bursts.ordered(j)
	if j.shares != nil {
		j.visitShares(j.lineUp)
		return j.finish()
	}
	j.visitAll(j.lineUp)
	return j.finish()
}

// begin updates all data that is kept between passes.
func (j *Judgement) begin(view *topology.Tree, queue *Queue, now int64) {
	if j.view != view || j.queue != queue {
		j.forget(view, queue)
	}
	j.now, j.d, j.wake, j.hunts, j.fewer = now, Decisions{}, 0, 0, 0
	j.round++
	j.found.Again()
	j.settleShares()
	queue.endPatience(now)
	j.horizon = j.ends.Horizon(view, now)
	j.pools.count(j)
	for _, p := range j.moving {
		view.Unkeep(p.keep)
		p.e.promised = nil
	}
	j.moving = j.moving[:0]
	j.bursts.take(j)
	j.restore()
}

// forget drops all data, because nothing is valid for another view.
func (j *Judgement) forget(view *topology.Tree, queue *Queue) {
	for _, p := range slices.Concat(j.firm, j.moving) {
		if j.view != nil {
			j.view.Unkeep(p.keep)
		}
	}
	was, first := *j, j.view == nil
	*j = *NewJudgement(j.settings, j.cells, j.ends)
	j.shares, j.ended, j.forgetful = was.shares, was.ended, was.forgetful
	// Data about attempts of earlier leaders is already here.
	if j.view, j.queue, j.record = view, queue, was.record; first {
		j.work, j.pools, j.away, j.orders, j.unwritten = was.work, was.pools, was.away, was.orders, was.unwritten
	}
	j.bursts = newBursts()
	for _, e := range queue.jobs { //order: each is entered independently, and came is sorted
		e.burst, e.standing = nil, standing{}
		j.bursts.came = append(j.bursts.came, e)
	}
}

// finish ends the pass.
func (j *Judgement) finish() Decisions {
	for i := range j.pools.all {
		j.pools.all[i].waits = false
	}
	for _, b := range j.bursts.list {
		for _, e := range b.jobs {
			if e.gone {
				continue
			}
			if e.left {
				break // all jobs after it are marked too
			}
			e.left = true
		}
		j.pool(b).waits = j.pool(b).waits || b.waits()
	}
	for _, g := range j.queue.list {
		if !g.looked {
			j.look(g)
		}
	}
	j.sayFirm()
	j.d.Joined = j.queue.Passed(j.view)
	if items := j.queue.patient.Items; len(items) > 0 {
		j.wakeAt(items[0].deadlineNs())
	}
	if j.wake > 0 {
		j.d.NextAt = max(j.wake, j.now+second)
	}
	return j.d
}

// look provides a refusal for a group that the pass did not place. If the gang has a place, the refusal is empty: the
// group waits only for its turn.
func (j *Judgement) look(g *group) {
	g.asked = g.wanted(j.view)
	if _, ok := topology.PlaceInto(j.view, &g.asked, &g.refusal); ok {
		g.refusal = topology.Refusal{}
	}
	g.looked, g.revision = true, j.view.Revision()
}

// wakeAt requests a pass at a time.
func (j *Judgement) wakeAt(at int64) {
	if at < topology.Never && (j.wake == 0 || at < j.wake) {
		j.wake = at
	}
}

// visit starts the jobs of a burst, as far as possible.
func (j *Judgement) visit(b *burst) {
	for _, e := range b.jobs {
		if e.awaitsTurn() && !j.tryStart(b, e) && !j.promise(b, e) {
			return
		}
	}
}

// awaitsTurn reports whether a job waits and has no firm promise.
func (e *entry) awaitsTurn() bool { return !e.gone && (e.promised == nil || !e.promised.firm) }

// tryStart starts a job on unreserved capacity, or else on reserved capacity that may be lent to it.
func (j *Judgement) tryStart(b *burst, e *entry) bool {
	if j.heldBack(b) {
		return false
	}
	strict := j.isStrict(b, e)
	if p, ok := j.place(e.group, strict, topology.Lent{}); ok {
		if !j.mayStartOn(b, e, &p, strict) {
			return false
		}
		j.admit(b, e, p, terms{})
		return true
	}
	if p, t, ok := j.borrow(b, e, strict); ok && !j.isOver(b, e, &p) {
		j.admit(b, e, p, t)
		return true
	}
	if strict {
		j.decline(b, e)
	}
	return false
}

// terms holds the conditions under which a job is started.
type terms struct {
	lenders []*promise // promises that lend capacity to it
	startBy int64      // 0: no latest start
	guarded bool       // started by the guard, which pays for it
}

// admit starts a job.
func (j *Judgement) admit(b *burst, e *entry, p topology.Placement, t terms) {
	for _, lender := range t.lenders {
		j.lend(lender, e, b, p)
	}
	b.tried = true
	j.record.started(e, j.now)
	stops := e.promised.told()
	promised := j.serve(e, p)
	a := j.queue.Admit(j.view, e.Job, p)
	a.FirstEstimate, a.Promised, a.Stops = e.told.known(), promised, stops
	a.Traits, a.Estimate, a.Grace, a.StartBy = b.traits, b.estimate, e.Grace, t.startBy
	j.ends.Admitted(&a, j.now)
	j.changes++
	j.charge(b, e, t.guarded)
	if j.shares != nil {
		j.shares.Take(e.Job, &share.Hold{
			Queue: e.Queue, Owner: e.Owner, Pool: b.traits.Pool, Total: estimate.TotalOf(&e.Gang), Size: b.traits.Size,
			Since: j.now, Nodes: p.Nodes(), Fixed: e.Fixed,
		})
	}
	j.d.Admit = append(j.d.Admit, a)
}

// serve ends the promise of a job that starts, and reports whether it was firm. The part of a firm promise that the job
// does not use stays reserved until its COMMIT.
func (j *Judgement) serve(e *entry, place topology.Placement) bool {
	p := e.promised
	if p == nil {
		return false
	}
	if !p.firm {
		j.drop(p)
		return false
	}
	j.park(p)
	takes := func(n topology.NodeID) (all []topology.Resources) {
		for _, s := range place.Slots {
			if s.Node == n {
				all = append(all, s.Amount)
			}
		}
		return all
	}
	j.view.Keep(p.keep, without(p.place, takes))
	j.keepFormer(e.Job, p.place, takes)
	return true
}

// outcome holds the result of looking at a group, as requested and as close together as possible. Capacity only shrinks
// in a pass, so a refused group stays refused.
type outcome struct {
	round   uint64
	refused [2]refused
}

// refused lists the capacity on which a group found no place: unreserved capacity, or reserved capacity that some
// promises lend. If both are set, all of it.
type refused struct {
	bare, all bool
	lent      []uint64 // sets of promises that lend, one bit each
}

// refusedIn returns the refusals of this group in this pass.
func (j *Judgement) refusedIn(g *group, strict bool) *refused {
	if g.outcome.round != j.round {
		g.outcome.round = j.round
		for i := range g.outcome.refused {
			r := &g.outcome.refused[i]
			r.bare, r.all, r.lent = false, false, r.lent[:0]
		}
	}
	if strict {
		return &g.outcome.refused[1]
	}
	return &g.outcome.refused[0]
}

// place searches a place for any gang of a group, on unreserved and lent capacity.
func (j *Judgement) place(g *group, strict bool, lent topology.Lent) (p topology.Placement, ok bool) {
	r := j.refusedIn(g, strict)
	bare := !lent.All && len(lent.Of) == 0
	if r.all || bare && r.bare {
		return p, false
	}
	j.d.Looked++
	if strict { // not recorded: users see the reason why the gang does not start at all
		j.closer = g.wanted(j.view)
		j.closer.Required = j.closest(g)
		p, ok = topology.PlaceWary(j.view, &j.closer, lent, &j.queue.unread)
		r.bare, r.all = r.bare || !ok && bare, r.all || !ok && lent.All
		return p, ok
	}
	g.asked = g.wanted(j.view)
	if p, ok = topology.PlaceWary(j.view, &g.asked, lent, &g.refusal); ok {
		return p, true
	}
	g.refusal.Patient = g.key.patient
	g.looked, g.revision = true, j.view.Revision()
	if bare && !r.bare {
		j.d.Refused++
	}
	r.bare, r.all = r.bare || bare, r.all || lent.All
	return p, false
}

// before orders bursts by their turns.
func (b *burst) before(o *burst) int {
	if order := cmp.Or(cmp.Compare(o.key.priority, b.key.priority), cmp.Compare(b.rank, o.rank)); order != 0 {
		return order
	}
	return entryOrder(b.head, o.head)
}
