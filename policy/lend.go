package policy

// This file has the backfilling of reserved nodes. It decides which jobs may use capacity that is reserved for another
// job, and handles jobs that end late. A job with a hard end may always be backfilled in time. A job with only an
// estimated end may be backfilled until two overruns have happened.

import (
	"cmp"
	mathbits "math/bits"
	"slices"

	"github.com/yi-json/synapse/topology"
)

const (
	// settling is the longest time from the end of a job until its capacity is free. In this time, the stop is sent
	// repeatedly, reported, and written to disk.
	settling = 20 * second
	// readyIn is the minimum time that a backfilled job gets to become ready before its latest start.
	readyIn = 10 * second
	// maxSlips is the number of overruns after which nothing more is lent on estimates.
	maxSlips = 2
	// soonOf divides the expected run time of a job with a limit, to decide whether it may be backfilled. Most such
	// jobs end later than that. They never exceed their limit, and lending stops after two overruns. Idle capacity
	// would cost other jobs more.
	soonOf = 4
	// maxLenders is the maximum number of promises that lend to one burst in a pass.
	maxLenders = 64
)

// loan holds reserved capacity that was lent because of an estimate.
type loan struct {
	job   topology.JobID
	place topology.Placement
	due   int64
}

// hardAfter returns the latest end of a job that starts at a time.
func hardAfter(start, limit, grace int64) int64 {
	if limit <= 0 {
		return topology.Never
	}
	return start + limit + grace + settling
}

// mayBorrow reports whether the reserved capacity of a promise may be lent to a job. It also returns the job's latest
// start, or 0 for none.
func (j *Judgement) mayBorrow(p *promise, b *burst, e *entry) (startBy int64, ok bool) {
	hard := hardAfter(j.now, e.Limit, e.Grace)
	if p.isStopping() { // capacity for which jobs are stopped is not lent to a third job
		return 0, false
	}
	if p.blind { // the bound is not known exactly yet, and may be later than the published one
		return 0, false
	}
	if p.firm && p.bound < topology.Never {
		ready := max(readyIn, 2*e.Lent)
		if hard == topology.Never || hard > p.bound-ready {
			return 0, false
		}
		startBy = p.bound - (hard - j.now)
	}
	if hard <= p.at && hard < topology.Never { // what a promise waits for may have no known end, either
		return startBy, true
	}
	_, ok = p.dueBy(j.now, j.backBy(p, b))
	return startBy, ok
}

// backBy returns the time when a job must have returned capacity that is lent by a promise. For a job without a limit,
// this is its expected end. For a job with a limit, it is earlier: see soonOf. If no similar job has finished yet, the
// estimate is only a guess. Using it would leave capacity idle for every gang of a new cluster. If the promise has no
// bound anyway, such a job is assumed to end with another loan, or when the promise is expected to be free. Overruns
// count as usual, and end this lending. Capacity with a hard end is not lent in this way, because the job might never
// end.
func (j *Judgement) backBy(p *promise, b *burst) int64 {
	if b.key.limit > 0 && b.line.Knows() {
		return j.now + b.estimate/soonOf
	}
	back := j.now + b.estimate
	if back <= p.at || b.line.Knows() || !j.isUnbounded(p) {
		return back
	}
	back = 0
	for _, l := range p.e.loans {
		if l.due > j.now && l.due <= p.at {
			back = max(back, l.due)
		}
	}
	return cmp.Or(back, p.at)
}

// isUnbounded reports whether a promise waits for a job without a limit, as far as known.
func (j *Judgement) isUnbounded(p *promise) bool {
	return p.bound == topology.Never && (p.firm || j.ends.Endless(p.place) != "")
}

// dueBy returns the time when a loan is due that must be returned by back, and whether the loan is allowed. All loans
// that are late at the same time count as one overrun, so the number of different due times limits the possible
// overruns. A new loan therefore shares the due time of an earlier loan if possible. Otherwise it is due when the
// promise is expected to be free. That time moves whenever an expected end moves. With a separate due time per loan,
// two loans would stop all further lending until they end.
func (p *promise) dueBy(now, back int64) (due int64, ok bool) {
	if back > p.at || p.e.slips >= maxSlips {
		return 0, false
	}
	moments, due := make([]int64, 0, maxSlips), topology.Never
	for _, l := range p.e.loans {
		at := l.due
		if at <= now { // it may count as late at any time, together with all other late loans
			at = 0
		}
		if !slices.Contains(moments, at) {
			moments = append(moments, at)
		}
		if at >= back && at <= p.at {
			due = min(due, at)
		}
	}
	if due < topology.Never {
		return due, true
	}
	return p.at, p.e.slips+len(moments) < maxSlips
}

// borrow searches a place on reserved capacity that may be lent.
func (j *Judgement) borrow(b *burst, e *entry, strict bool) (topology.Placement, terms, bool) {
	var t terms
	r := j.refusedIn(e.group, strict)
	if r.all || j.settings.lacks.lending {
		return topology.Placement{}, t, false
	}
	bits := uint64(0)
	for n := range min(len(j.firm)+len(j.moving), maxLenders) {
		if p := j.lender(n); p.e != e {
			if _, ok := j.mayBorrow(p, b, e); ok {
				bits |= 1 << n
			}
		}
	}
	if bits == 0 || slices.ContainsFunc(r.lent, func(no uint64) bool { return bits&^no == 0 }) {
		return topology.Placement{}, t, false
	}
	if len(r.lent) == 0 { // often there is no capacity at all, which one search for all lenders shows
		if _, ok := j.place(e.group, strict, topology.Lent{All: true}); !ok {
			return topology.Placement{}, t, false
		}
	}
	var lent topology.Lent
	for left := bits; left != 0; left &= left - 1 {
		lent.Of = append(lent.Of, j.lender(mathbits.TrailingZeros64(left)).keep)
	}
	p, ok := j.place(e.group, strict, lent)
	if !ok {
		r.lent = append(r.lent, bits)
		return p, t, false
	}
	for left := bits; left != 0; left &= left - 1 {
		if l := j.lender(mathbits.TrailingZeros64(left)); overlaps(l.place, p) {
			t.lenders = append(t.lenders, l)
			if startBy, _ := j.mayBorrow(l, b, e); startBy > 0 && (t.startBy == 0 || startBy < t.startBy) {
				t.startBy = startBy
			}
		}
	}
	return p, t, true
}

// lender returns a promise by its number, firm ones first.
func (j *Judgement) lender(n int) *promise {
	if n < len(j.firm) {
		return j.firm[n]
	}
	return j.moving[n-len(j.firm)]
}

func overlaps(a, b topology.Placement) bool {
	return slices.ContainsFunc(a.Slots, func(s topology.Slot) bool {
		return slices.ContainsFunc(b.Slots, func(o topology.Slot) bool { return s.Node == o.Node })
	})
}

// lend records a loan that is based on an estimate.
func (j *Judgement) lend(p *promise, e *entry, b *burst, place topology.Placement) {
	if hardAfter(j.now, e.Limit, e.Grace) <= p.at {
		return
	}
	due, _ := p.dueBy(j.now, j.backBy(p, b))
	if len(p.e.loans) == 0 {
		j.debtors = append(j.debtors, p.e)
	}
	p.e.loans = append(p.e.loans, loan{e.Job, place, due})
	j.wakeAt(due)
}

// countSlips checks the loans that are based on estimates. An overrun is a late loan without which the lender would
// start now.
func (j *Judgement) countSlips() {
	slices.SortFunc(j.debtors, func(a, b *entry) int { return cmp.Compare(a.Job, b.Job) })
	j.debtors = slices.DeleteFunc(j.debtors, func(e *entry) bool {
		e.loans = slices.DeleteFunc(e.loans, func(l loan) bool { return !j.ends.Runs(l.job) })
		if e.gone || len(e.loans) == 0 { // for a job outside of the queue, they are counted when it returns
			return true
		}
		j.countLate(e)
		return len(e.loans) == 0
	})
}

func (j *Judgement) countLate(e *entry) {
	isLate := func(l loan) bool { return l.due <= j.now }
	if !slices.ContainsFunc(e.loans, isLate) {
		for _, l := range e.loans {
			j.wakeAt(l.due)
		}
		return
	}
	mark := j.view.Mark()
	for _, l := range e.loans {
		if isLate(l) {
			j.view.Give(l.place)
		}
	}
	gang, own := e.group.wanted(j.view), topology.Lent{Of: []topology.KeepID{topology.KeepID(e.Job)}}
	_, ok := topology.PlaceLent(j.view, &gang, own, &j.queue.unread)
	j.view.Rollback(mark)
	if ok {
		e.slips++
		j.record.Slips++
		e.loans = slices.DeleteFunc(e.loans, isLate)
	}
}
