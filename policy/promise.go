package policy

// This file has the promises. A promise reserves a place for one job, and has the time when the complete place is free.
// A moving promise (a planned start) is planned again in every pass. A firm promise (a start guarantee) is kept until
// its job starts: its nodes stay the same, and no started job delays its bound. It changes only for an earlier place,
// or if a node can no longer provide its part.

import (
	"slices"

	"github.com/yi-json/synapse/topology"
)

// promise is a reserved place.
type promise struct {
	e     *entry
	b     *burst
	pool  string
	keep  topology.KeepID
	place topology.Placement
	at    int64 // time when it is expected to be free
	bound int64 // latest such time; topology.Never if a job without a limit uses it
	// limits is the latest time by the current limits. It is later than the bound if a limit was raised.
	limits int64
	firm   bool
	made   int64 // time of its creation
	stops  []stop
	firmly
}

// promise reserves nodes for a job if its class has a promise left.
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

// keep creates a promise.
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

// keepRoom reserves the promised place from its expected start on. Capacity that certainly becomes free before that
// need not be free now.
func (j *Judgement) keepRoom(p *promise) {
	from := int64(0)
	if p.at < topology.Never && !p.blind {
		from = min(p.at, p.bound)
	}
	j.view.KeepFrom(p.keep, p.place, from)
}

// holdTurn marks a promise as the turn of its pool. A promise with victims takes no turn.
func (j *Judgement) holdTurn(p *promise) {
	if !p.isStopping() {
		j.poolNamed(p.pool).firm = p
	}
}

// drop removes a promise.
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

// serveFirm starts the jobs with firm promises that can start, and updates the promises of the others.
func (j *Judgement) serveFirm() {
	for _, p := range slices.Clone(j.firm) {
		switch {
		case !slices.Contains(j.firm, p): // it was dropped for an earlier one
		case p.isStopping():
			j.serveStopping(p)
		case j.isOver(p.b, p.e, &p.place):
			j.giveUp(p)
		case j.startPromised(p):
		case j.now >= j.keptUntil(p):
			p.e.given = j.ends.Endless(p.place)
			j.giveUp(p)
		case !j.preempt(p.b, p.e): // if true, it now has another promise
			j.review(p)
		}
	}
}

// startPromised starts a job with a firm promise: on capacity that is not reserved for others if possible, or else on
// its own place. A limit on nodes may forbid only one of the two places.
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

// review plans a firm promise again. It moves to an earlier place, or to another place if its own is lost. A limit may
// forbid the new place.
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

// moved records that a firm promise has a new place. It becomes the last one in the order, because the new place was
// planned around all others. In its old position it would treat the capacity of later promises as its own.
func (j *Judgement) moved(p *promise) {
	j.orders++
	p.order, p.unsaid = j.orders, true
	slices.SortFunc(j.firm, byOrder)
}

// limitedBy updates the time when the place is free by the current limits. The bound only moves earlier.
func (p *promise) limitedBy(limits int64) {
	p.unsaid = p.unsaid || p.bound == topology.Never && limits < topology.Never
	p.bound, p.limits = min(p.bound, limits), limits
}

// latest returns the published latest start of a firm promise. If a limit was raised, the bound does not hold. If a
// limit was removed, there is none. An attempt that has not reported its run time yet counts as having no limit.
func (p *promise) latest() int64 {
	if p.blind {
		return p.bound
	}
	return max(p.bound, p.limits)
}

func nothing(topology.NodeID) []topology.Resources { return nil }

// keptUntil returns the time until which a firm promise is kept in any case. A promise without a bound may wait for a
// job that never ends.
func (j *Judgement) keptUntil(p *promise) int64 {
	if p.latest() < topology.Never || p.isStopping() {
		return topology.Never
	}
	return p.made + int64(j.settings.KeepMost)
}

// surest returns the place for a firm promise. It prefers the place that is expected to be free first. If that place
// has no bound, it returns the first place with a bound, if there is one.
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

// Promised returns the promise of a job, and false if it has none.
func (j *Judgement) Promised(job topology.JobID) (Promise, bool) {
	if j.queue == nil || j.queue.jobs[job] == nil || j.queue.jobs[job].promised == nil {
		return Promise{}, false
	}
	return j.tellable(j.queue.jobs[job].promised), true
}
