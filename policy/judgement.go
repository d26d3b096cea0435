package policy

// This file owns the planner that looks ahead, and what one of its passes is. Short work goes first, as far as can be
// told from what ran before; whoever cannot start is promised when it will, and what is kept for it is lent to those
// that are gone by then; and the oldest job gets its turn whatever the order says. Work per pass is per burst, and a
// refusal is shared by all jobs of a shape. It must never start one gang in two places, nor touch what is kept for
// another.

import (
	"cmp"
	"slices"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// Ends says what will be free when. A Judgement asks for it in each pass, and tells of what it starts: nobody else can
// know before the pass is over, and what comes later in it depends on that.
type Ends interface {
	// Horizon is what is known now of the ends of all that runs.
	Horizon(view *topology.Fabric, nowNs int64) *topology.Horizon
	// Admitted notes what has been started, by this pass.
	Admitted(a *Admission, nowNs int64)
	// Runs reports whether a job has an attempt that holds room.
	Runs(job topology.JobID) bool
	// Held are the amounts that its latest attempt has on a machine, one for each rank. The caller only reads them.
	Held(job topology.JobID, node topology.NodeID) []topology.Resources
	// Unheard reports whether on one of these machines is an attempt of an earlier leader that has yet to say for how
	// long it has been there.
	Unheard(p topology.Placement) bool
	// Endless is a job without a hard end that is on one of these machines; "" where there is none.
	Endless(p topology.Placement) topology.JobID
}

// Judgement is a planner that looks ahead. It belongs to one queue and one view: with another it begins from nothing.
type Judgement struct {
	settings Settings
	cells    *estimate.Cells
	ends     Ends

	view    *topology.Fabric
	queue   *Queue
	horizon *topology.Horizon
	now     int64
	round   uint64 // of passes: what a group was refused holds for one
	hunts   int    // for whom to stop, in this pass
	fewer   int    // searches for placements on fewer nodes, in this pass
	changes int64  // jobs that were started, or hold nothing any more

	bursts bursts
	lineUp []*burst // of this pass: all that waited after the guard, in order
	pools  pools
	firm   []*promise                  // the first made first
	moving []*promise                  // of this pass, in the order in which they were planned
	away   map[topology.JobID]*promise // firm, of jobs that are not in the queue
	// unwritten are the places of firm promises that may be on disk still though the promises have others by now.
	unwritten map[topology.JobID][]topology.Slot
	orders    uint64   // of the firm promise that was made last
	debtors   []*entry // whose promises wait for what was lent on an estimate
	work      map[topology.JobID]*work
	record    record
	shares    *share.Tree // nil: there are no queues
	turns     map[*share.Branch]*turns
	ended     []endedJob // since the last pass

	closer topology.Gang // that is asked for, with a level of ours
	d      Decisions
	wake   int64 // when a pass is due though nothing changes; 0: never
	// forgetful asks the horizon each time as if for the first time, and gives every queue its turn: the slow way, by
	// which tests check the quick one.
	forgetful bool
	found     topology.Findings // in the last pass
}

// NewJudgement makes a planner. The cells are read only.
func NewJudgement(settings Settings, cells *estimate.Cells, ends Ends) *Judgement {
	return &Judgement{
		settings: settings, cells: cells, ends: ends,
		work: map[topology.JobID]*work{}, away: map[topology.JobID]*promise{},
		unwritten: map[topology.JobID][]topology.Slot{}, turns: map[*share.Branch]*turns{},
	}
}

// Plan runs a pass. The phases:
//  1. What came joins its burst; moving promises are dropped, for each is planned again.
//  2. What was lent on an estimate and is late is counted against its lender.
//  3. Who holds a firm promise starts if it can.
//  4. The guard, if it has credit: the oldest job that was left waiting goes first.
//  5. All bursts, the shortest work of the highest priority first: each starts what it can, is promised
//     what is left of the promises of its class, or is left. The first job of one that is untried goes before.
func (j *Judgement) Plan(view *topology.Fabric, queue *Queue, nowNs int64) Decisions {
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

// begin brings all that is kept between passes up to date.
func (j *Judgement) begin(view *topology.Fabric, queue *Queue, now int64) {
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

// forget begins from nothing: with another leader's view, nothing that was known holds.
func (j *Judgement) forget(view *topology.Fabric, queue *Queue) {
	for _, p := range slices.Concat(j.firm, j.moving) {
		if j.view != nil {
			j.view.Unkeep(p.keep)
		}
	}
	was, first := *j, j.view == nil
	*j = *NewJudgement(j.settings, j.cells, j.ends)
	j.shares, j.ended, j.forgetful = was.shares, was.ended, was.forgetful
	if j.view, j.queue, j.record = view, queue, was.record; first { // what earlier leaders started is known already
		j.work, j.pools, j.away, j.orders, j.unwritten = was.work, was.pools, was.away, was.orders, was.unwritten
	}
	j.bursts = newBursts()
	for _, e := range queue.jobs { //order: each is entered by itself, and those that came are sorted
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
				break // and so are those behind it
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

// look sees to it that something can be told of a group that the pass had no need to place: nothing is in its way
// where it has a place, but its turn.
func (j *Judgement) look(g *group) {
	g.asked = g.wanted(j.view)
	if _, ok := topology.PlaceInto(j.view, &g.asked, &g.refusal); ok {
		g.refusal = topology.Refusal{}
	}
	g.looked, g.revision = true, j.view.Revision()
}

// wakeAt asks for a pass at an instant.
func (j *Judgement) wakeAt(at int64) {
	if at < topology.Never && (j.wake == 0 || at < j.wake) {
		j.wake = at
	}
}

// visit starts what can be started of a burst.
func (j *Judgement) visit(b *burst) {
	for _, e := range b.jobs {
		if e.awaitsTurn() && !j.tryStart(b, e) && !j.promise(b, e) {
			return
		}
	}
}

// awaitsTurn reports whether a job waits, and holds no firm promise.
func (e *entry) awaitsTurn() bool { return !e.gone && (e.promised == nil || !e.promised.firm) }

// tryStart starts a job on what is not kept, or else on what is kept and lent to it.
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
	lenders []*promise // what it was lent, and by whom
	startBy int64      // 0: whenever it is ready
	guarded bool       // it has its turn, and is charged for
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
	a.Told, a.Promised, a.Stops = e.told.known(), promised, stops
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

// serve gives a job that starts what was promised to it, and reports whether that was firm: what it does not take of
// that is kept until its COMMIT.
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
	lent      []uint64 // by which promises, a bit for each
}

// refusedIn returns what this group was refused in this pass.
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

// place looks for a place, for any gang of a group, on what is not kept and on what is lent.
func (j *Judgement) place(g *group, strict bool, lent topology.Lent) (p topology.Placement, ok bool) {
	r := j.refusedIn(g, strict)
	bare := !lent.All && len(lent.Of) == 0
	if r.all || bare && r.bare {
		return p, false
	}
	j.d.Looked++
	if strict { // what people are told is why it does not start at all
		j.closer = g.wanted(j.view)
		j.closer.Required = j.closest(g)
		p, ok = topology.PlaceLent(j.view, &j.closer, lent, &j.queue.unread)
		r.bare, r.all = r.bare || !ok && bare, r.all || !ok && lent.All
		return p, ok
	}
	g.asked = g.wanted(j.view)
	if p, ok = topology.PlaceLent(j.view, &g.asked, lent, &g.refusal); ok {
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

// before is the order in which bursts have their turn.
func (b *burst) before(o *burst) int {
	if order := cmp.Or(cmp.Compare(o.key.priority, b.key.priority), cmp.Compare(b.rank, o.rank)); order != 0 {
		return order
	}
	return entryOrder(b.head, o.head)
}
