package policy

// This file owns promises: a place, kept for one job, and when all of it will be free. Moving ones are planned again in
// every pass. A firm one is kept until its job starts: its machines stay, and no admission moves its bound. It
// changes for an earlier one, or when one of its machines can no longer give what it promised.

import (
	"slices"

	"github.com/yi-json/synapse/topology"
)

// promise is a place that is kept.
type promise struct {
	e     *entry
	b     *burst
	pool  string
	keep  topology.KeepID
	place topology.Placement
	at    int64 // when it is expected to be free
	bound int64 // by when it will be: topology.Never where it holds somebody without a limit
	// limits is by when it will be by the limits of now: later than its bound where one was raised since.
	limits int64
	firm   bool
	made   int64 // when it was
	stops  []stop
	firmly
}

// promise keeps room for a job, if its class has a promise left.
func (j *Judgement) promise(b *burst, e *entry) bool {
	pool, class, most := j.pool(b), b.class(), j.settings.PromisesOnes
	if b.gang {
		most = j.settings.PromisesGangs
	}
	if pool.moving[class] >= most || j.heldBack(b) || !j.isPossible(e.group) {
		return false
	}
	at, place, ok := j.soonest(b, e)
	if !ok {
		return false
	}
	pool.moving[class]++
	j.keep(&promise{e: e, b: b, at: at, place: place, bound: topology.Never})
	return true
}

// keep makes a promise.
func (j *Judgement) keep(p *promise) {
	p.keep, p.made, p.pool = topology.KeepID(p.e.Job), j.now, p.b.traits.Pool
	p.e.promised = p
	if p.firm {
		j.orders++
		p.order, p.unsaid, p.onLoan = j.orders, true, j.isOnLoan(p)
		j.firm = append(j.firm, p)
		j.holdTurn(p)
		p.bound = min(p.bound, j.clearedBy(p))
		j.wakeAt(j.keptUntil(p))
	} else {
		j.moving = append(j.moving, p)
	}
	j.keepRoom(p)
	j.record.tell(j, p)
}

// keepRoom keeps what is promised, from when it is expected to be free: what has left by then surely, and what must
// have left whatever is expected, need not be free now.
func (j *Judgement) keepRoom(p *promise) {
	from := int64(0)
	if p.at < topology.Never && !p.blind {
		from = min(p.at, p.bound)
	}
	j.view.KeepFrom(p.keep, p.place, from)
}

// holdTurn notes that a pool's turn is that of a promise, unless others are stopped for it: that takes no turn.
func (j *Judgement) holdTurn(p *promise) {
	if !p.isStopping() {
		j.poolNamed(p.pool).firm = p
	}
}

// drop gives up a promise.
func (j *Judgement) drop(p *promise) {
	j.view.Unkeep(p.keep)
	if p.e.promised == p {
		p.e.promised = nil
	}
	if p.firm {
		if pool := j.poolNamed(p.pool); pool.firm == p {
			pool.firm = nil
		}
		j.firm = slices.DeleteFunc(j.firm, func(o *promise) bool { return o == p })
	} else if at := slices.Index(j.moving, p); at >= 0 {
		j.moving = slices.Delete(j.moving, at, at+1)
	}
}

// own returns the reservations of a promise and of those planned later, because later ones were planned around it. The
// job starts on its place even if a later one could have a part of it sooner.
func (j *Judgement) own(p *promise) []topology.KeepID {
	ids := []topology.KeepID{p.keep, p.keep.Former()}
	for _, later := range j.firm[slices.Index(j.firm, p)+1:] {
		ids = append(ids, later.keep)
	}
	return ids
}

// serveFirm starts those that hold a firm promise and can, and looks after the promises of the others.
func (j *Judgement) serveFirm() {
	for _, p := range slices.Clone(j.firm) {
		switch {
		case !slices.Contains(j.firm, p): // it gave way to one before it
		case p.isStopping():
			j.serveStopping(p)
		case j.isOver(p.b, p.e, &p.place):
			j.giveUp(p)
		case j.startPromised(p):
		case j.now >= j.keptUntil(p):
			p.e.given = j.ends.Endless(p.place)
			j.giveUp(p)
		case !j.preempt(p.b, p.e): // else it has another promise now
			j.review(p)
		}
	}
}

// startPromised starts who holds a firm promise: where it has a place beside what is kept for others, or else on its
// own. A limit may be in the way of the one alone: that is of machines.
func (j *Judgement) startPromised(p *promise) bool {
	place, ok := j.placeOwn(p)
	ok = ok && !j.isOver(p.b, p.e, &place)
	if from := j.allowedFrom(p.e, p.place, p.bound); !ok && from > j.now {
		j.wakeAt(from)
	} else if !ok && j.horizon.When(p.place, topology.ByLimit, j.own(p)...) == 0 {
		place, ok = p.place, !j.isOver(p.b, p.e, &p.place)
	}
	if ok {
		j.admit(p.b, p.e, place, terms{guarded: true})
	}
	return ok
}

func (j *Judgement) placeOwn(p *promise) (topology.Placement, bool) {
	gang := p.e.group.wanted(j.view)
	return topology.PlaceLent(j.view, &gang, topology.Lent{Of: []topology.KeepID{p.keep, p.keep.Former()}},
		&p.e.group.refusal)
}

// review plans a firm promise again: for an earlier one it is changed, and where its place is lost. No limit may be in
// the way of the other place either.
func (j *Judgement) review(p *promise) {
	own := j.own(p)
	p.at = j.whenFree(p, topology.ByEstimate, own...)
	lost := p.at == topology.Never && j.horizon.Lost(p.place)
	p.limitedBy(j.whenFree(p, topology.ByLimit, own...))
	j.view.Unkeep(p.keep)
	j.view.Unkeep(p.keep.Former())
	at, bound, place, ok := j.surest(p.e)
	ok = ok && !j.isOver(p.b, p.e, &place)
	switch {
	case ok && (lost || at < p.at && bound <= p.bound):
		j.leave(p.e.Job, p.place)
		p.at, p.place = at, place
		j.moved(p)
		if p.bound, p.limits = bound, bound; lost {
			p.made, p.blind = j.now, false
		}
	case lost:
		j.giveUp(p)
		return
	}
	j.keepRoom(p)
	j.keepFormer(p.e.Job, p.place, nothing)
	j.wakeAt(j.keptUntil(p))
}

// moved notes that a firm promise has another place: it was planned beside all others there, and is the last of them.
// Were it still before those that were planned later, it would count their room as its own, and start on what is being
// freed for them.
func (j *Judgement) moved(p *promise) {
	j.orders++
	p.order, p.unsaid = j.orders, true
	slices.SortFunc(j.firm, byOrder)
}

// limitedBy notes by when the place of a firm promise is free by the limits of now. Its bound only moves earlier.
func (p *promise) limitedBy(limits int64) {
	p.unsaid = p.unsaid || p.bound == topology.Never && limits < topology.Never
	p.bound, p.limits = min(p.bound, limits), limits
}

// latest is by when a firm promise will be free, for people: where a limit was raised its bound cannot hold, and where
// one was taken away there is none. Whoever has yet to say for how long it has run has no limit for as long.
func (p *promise) latest() int64 {
	if p.blind {
		return p.bound
	}
	return max(p.bound, p.limits)
}

func nothing(topology.NodeID) []topology.Resources { return nil }

// keptUntil is until when a firm promise is kept whatever happens: one without a bound may wait for what never ends.
func (j *Judgement) keptUntil(p *promise) int64 {
	if p.latest() < topology.Never || p.isStopping() {
		return topology.Never
	}
	return p.made + int64(j.settings.KeepMost)
}

// surest is where a firm promise is kept: what is expected to be free first, if that has a bound, or else what will be.
func (j *Judgement) surest(e *entry) (at, bound int64, place topology.Placement, ok bool) {
	at, place, ok = j.firstOf(e, topology.ByEstimate)
	if !ok {
		return 0, 0, place, false
	}
	likely := promise{e: e, place: place, bound: topology.Never}
	if bound = j.whenFree(&likely, topology.ByLimit); bound < topology.Never {
		return at, bound, place, true
	}
	if _, where, limited := j.firstOf(e, topology.ByLimit); limited {
		sure := promise{e: e, place: where, bound: topology.Never}
		return j.whenFree(&sure, topology.ByEstimate), j.whenFree(&sure, topology.ByLimit), where, true
	}
	return at, topology.Never, place, true
}

// Promised is the promise of a job; false where it has none.
func (j *Judgement) Promised(job topology.JobID) (Promise, bool) {
	if j.queue == nil || j.queue.jobs[job] == nil || j.queue.jobs[job].promised == nil {
		return Promise{}, false
	}
	return j.tellable(j.queue.jobs[job].promised), true
}
