package policy

// This file owns the guard: a part of each pool goes to the oldest job that waits, whatever the order says, so that
// nobody waits for ever. It must never pay for what would start anyway: then nothing is left for those that do not.

import (
	"cmp"
	"math"

	"github.com/yi-json/synapse/topology"
)

// A job waits for a moment before the guard looks at it, and longer where one of a higher priority waits too: whoever
// puts a job before others would see another one start first, though nobody has waited for long. Both are within the
// minute of the bound.
const (
	guardAfter  = 5 * second
	guardYields = 50 * second
)

// Credit holds the credit that the guard may spend in a pool.
type Credit struct {
	Pool   string
	Amount int64 // in milli-GPU-seconds; below zero: it has spent more
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

// Recall goes on from what an earlier leader had, before the first pass.
func (j *Judgement) Recall(all []Credit) {
	for _, c := range all {
		j.poolNamed(c.Pool).credit = c.Amount
	}
}

// guard gives the oldest jobs that were left waiting their turn, as long as it has credit. What one cannot get now is
// its firm promise, one in each pool.
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
				e.left = false // a limit stops it, and the next one has the turn
			}
		}
	}
}

// oldest is the burst in a pool whose first job waits for longest, of those that the guard helps; nil: there is none,
// or none has waited for long enough.
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

// older is the order in which jobs came.
func (e *entry) older(o *entry) int {
	return cmp.Or(cmp.Compare(e.Arrived, o.Arrived), cmp.Compare(e.Job, o.Job))
}

// isHelped reports whether the guard helps a job: an earlier pass has left it, it could run here, what was kept for it
// before was not in vain, and headroom does not stop it for which nobody knows an end.
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

// turn starts a job, or makes its promise firm; false where it can have neither.
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
