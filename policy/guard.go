package policy

// This file has the anti-starvation rule, which the code calls the guard. A part of each pool goes to the job that has
// waited longest, whatever the order is, so that no job waits forever. The guard must not spend its credit on jobs that
// would start anyway, because then nothing remains for the others.

import (
	"cmp"
	"math"

	"github.com/yi-json/synapse/topology"
)

// The guard helps a job only after guardAfter. If a job with a higher priority waits too, it waits guardYields, so that
// a new job of high priority is not overtaken at once. Both are less than the guaranteed minute.
const (
	guardAfter  = 5 * second
	guardYields = 50 * second
)

// Credit holds the credit that the guard may spend in a pool.
type Credit struct {
	Pool   string
	Amount int64 // in milli-GPU-seconds; negative: overspent
}

// Credits returns the credits of all pools that have any, in the order of their names.
func (j *Judgement) Credits() (all []Credit) {
	for i := range j.pools.all {
		if p := &j.pools.all[i]; p.credit != 0 {
			all = append(all, Credit{p.Name, p.credit})
		}
	}
	return all
}

// Recall restores the credits of an earlier leader, before the first pass.
func (j *Judgement) Recall(all []Credit) {
	for _, c := range all {
		j.poolNamed(c.Pool).credit = c.Amount
	}
}

// guard gives turns to the jobs that have waited longest, as long as the pool has credit. If such a job cannot start
// now, it gets a firm promise, one per pool.
func (j *Judgement) guard() {
	if j.settings.GuardPercent == 0 {
		return
	}
	for i := range j.pools.all {
		name := j.pools.all[i].Name
		for p := &j.pools.all[i]; p.firm == nil && p.credit > 0 && p.Size > 0; {
			b := j.oldest(name)
			if b == nil {
				break
			}
			if e := b.head; !j.turn(b, e) {
				if b.over == nil {
					break
				}
				e.left = false // a limit stops it, so the next job gets the turn
			}
		}
	}
}

// oldest returns the burst of a pool whose first job has waited longest, among those that the guard helps. It returns
// nil if there is none, or if none has waited long enough.
func (j *Judgement) oldest(pool string) (best *burst) {
	highest := int32(math.MinInt32)
	for _, b := range j.bursts.list {
		if b.traits.Pool != pool || !b.waits() {
			continue
		}
		highest = max(highest, b.key.priority)
		if j.isHelped(b, b.head) && (best == nil || b.head.older(best.head) < 0) {
			best = b
		}
	}
	if best == nil {
		return nil
	}
	at := best.head.Since + guardAfter
	if highest > best.key.priority {
		at = best.head.Since + guardYields
	}
	if j.now < at {
		j.wakeAt(at)
		return nil
	}
	return best
}

// older orders jobs by arrival.
func (e *entry) older(o *entry) int {
	return cmp.Or(cmp.Compare(e.Arrived, o.Arrived), cmp.Compare(e.Job, o.Job))
}

// isHelped reports whether the guard helps a job. An earlier pass must have left the job, and the job could run on this
// cluster. Its last reservation must not have been released because of a job without a known end. A job without a time
// limit is not helped if the share for short jobs stops it.
func (j *Judgement) isHelped(b *burst, e *entry) bool {
	if e.promised.isStopping() {
		return false
	}
	if !e.left || !j.isPossible(e.group) || j.isOver(b, e, nil) {
		return false
	}
	if e.given = j.givenFor(e); e.given != "" {
		return false
	}
	return e.Limit > 0 || !j.heldBack(b)
}

// turn starts a job or gives it a firm promise. It returns false if neither is possible.
func (j *Judgement) turn(b *burst, e *entry) bool {
	if p, ok := j.placeUnkept(e); ok {
		if !j.mayStartOn(b, e, &p, false) {
			return false
		}
		j.admit(b, e, p, terms{guarded: true})
		return true
	}
	if p, t, ok := j.borrow(b, e, false); ok && !j.isOver(b, e, &p) {
		t.guarded = true
		j.admit(b, e, p, t)
		return true
	}
	if j.preempt(b, e) {
		return true
	}
	at, _, place, ok := j.surest(e)
	if ok = ok && !j.isOver(b, e, &place); ok {
		j.keep(&promise{e: e, b: b, at: at, bound: topology.Never, place: place, firm: true})
	}
	return ok
}
