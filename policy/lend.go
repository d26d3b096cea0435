package policy

// This file owns lending: who may start on what is kept for another, and what it costs the lender when it is not back
// in time. A hard end is believed; an estimate only until it was wrong twice.

import (
	"cmp"
	mathbits "math/bits"
	"slices"

	"github.com/yi-json/synapse/topology"
)

const (
	// settling is what passes at most between the end of a job's time and the moment its room is free: its end is sent
	// again, told, and written down.
	settling = 20 * second
	// readyIn is how long what is lent has at the least to get ready before it must start.
	readyIn = 10 * second
	// maxSlips is how often what was lent on an estimate may be late before nothing more is.
	maxSlips = 2
	// soonOf is for which part of what is expected of a job with a limit room is lent to it. Most are back late then,
	// but by no more than a limit, and after two slips nothing more is lent; that room idles costs others more.
	soonOf = 4
	// maxLenders is how many promises lend to one burst in a pass.
	maxLenders = 64
)

// loan holds reserved capacity that was lent because of an estimate.
type loan struct {
	job   topology.JobID
	place topology.Placement
	due   int64
}

// hardAfter is by when a job has surely ended that starts at an instant.
func hardAfter(start, limit, grace int64) int64 {
	if limit <= 0 {
		return topology.Never
	}
	return start + limit + grace + settling
}

// mayBorrow reports whether what a promise keeps may be lent to a job, and by when it must then start; 0: whenever.
func (j *Judgement) mayBorrow(p *promise, b *burst, e *entry) (startBy int64, ok bool) {
	hard := hardAfter(j.now, e.Limit, e.Grace)
	if p.isStopping() { // nobody is stopped for a third
		return 0, false
	}
	if p.blind { // until then its bound may be later than what was told
		return 0, false
	}
	if p.firm && p.bound < topology.Never {
		ready := max(readyIn, 2*e.Lent)
		if hard == topology.Never || hard > p.bound-ready {
			return 0, false
		}
		startBy = p.bound - (hard - j.now)
	}
	if hard <= p.at {
		return startBy, true
	}
	_, ok = p.dueBy(j.now, j.backBy(p, b))
	return startBy, ok
}

// backBy is by when a job must be back that a promise lends to. One without a limit, when it is expected, and one with
// a limit sooner: see soonOf. Where nothing has ended yet that could be like it, nobody knows, and to take the
// estimate's first guess for an answer would leave room idle behind every gang of a new cluster. If nothing bounds the
// promise anyway, such a job is taken to be back when something else is due, or else when the promise is expected to be
// free: being late counts as with all others, and stops that in the end. What surely comes free is not lent so: the job
// might have no end at all.
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

// isUnbounded reports whether a promise waits for something without a limit, as far as can be told.
func (j *Judgement) isUnbounded(p *promise) bool {
	return p.bound == topology.Never && (p.firm || j.ends.Endless(p.place) != "")
}

// dueBy is when a loan is due that is expected to be back by an instant; false where it may not be made. All that is
// late at one moment makes its lender slip once, so what a promise may still come to slip is bounded by at how many
// moments its loans are due: a loan is due with an earlier one where that will do, and else when the promise is
// expected to be free. That moment moves whenever an end is expected later than before: if every loan were due at a
// moment of its own, two of them would stop all lending until they are over.
func (p *promise) dueBy(now, back int64) (due int64, ok bool) {
	if back > p.at || p.e.slips >= maxSlips {
		return 0, false
	}
	moments, due := make([]int64, 0, maxSlips), topology.Never
	for _, l := range p.e.loans {
		at := l.due
		if at <= now { // that it is late may count at any moment, with all others that are late then
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

// borrow looks for a place on what is kept and may be lent.
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
	if len(r.lent) == 0 { // most often there is no room at all, which is known without asking for this very set
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

// lender is a promise by its number, the firm ones first.
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

// lend notes what is lent on an estimate.
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

// countSlips looks at what was lent on an estimate. A slip is what is still there when it should be gone, if the lender
// would have started without it.
func (j *Judgement) countSlips() {
	slices.SortFunc(j.debtors, func(a, b *entry) int { return cmp.Compare(a.Job, b.Job) })
	j.debtors = slices.DeleteFunc(j.debtors, func(e *entry) bool {
		e.loans = slices.DeleteFunc(e.loans, func(l loan) bool { return !j.ends.Runs(l.job) })
		if e.gone || len(e.loans) == 0 { // of one that is gone they are counted when it is back
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
