package policy

// This file owns that a firm promise outlives what it stands on: an attempt that comes to nothing, and the leader. It
// is the waiting job's from the pass in which it was made until the COMMIT of its attempt, and ends before that with a
// hold, a cancel, or its machines. While its job is not in the queue, what it keeps is for nobody else.
//
// It counts at once for those whom it only holds back: nothing is lent what would break it, and room is kept. If the
// leader dies before the promise is on disk, they waited a moment in vain, and nothing else follows. Whoever acts
// elsewhere because of it must wait for the disk: people who are told of a latest time would be told another one by the
// next leader, and what is stopped for it would have been stopped for nobody.

import (
	"cmp"
	"slices"

	"github.com/yi-json/synapse/policy/preempt"
	"github.com/yi-json/synapse/topology"
)

// firmly holds the additional data of a firm promise.
type firmly struct {
	order  uint64 // among the firm ones: it was planned beside those with less
	unsaid bool   // it is not as it was said to be
	slips  int    // that were said
	onLoan bool   // its queue borrows for it
	blind  bool   // by an earlier leader, and somebody on its machines has yet to say for how long it has been there
}

// Firm is a firm promise as its job has it on disk.
type Firm struct {
	Job    topology.JobID
	Pool   string
	Order  uint64
	Where  topology.Placement // no slots: it is given up
	Left   int64              // until its bound; topology.Never: it has none
	Slips  int
	Told   Foretold         // first; Made below 0: by an earlier leader
	Stops  []preempt.Victim // for it; none: it waits for what ends by itself
	OnLoan bool             // its queue borrows for it

	// The rest need only be known of one that is inherited: whose the job is, where it counts, and whether it is not to be
	// stopped.
	Owner, Queue string
	Fixed        bool
}

// Foretold holds a job's first estimate: when it was made, the expected start, and the latest start.
type Foretold struct{ Made, At, Bound int64 }

// sayFirm tells of each firm promise that is not as it was said to be. A bound that moves earlier is not said: the next
// leader works it out again. Of slips one more is said while something is lent on an estimate, because nobody will know
// then whether that was back in time.
func (j *Judgement) sayFirm() {
	for _, p := range j.firm {
		slips := p.e.slips
		if len(p.e.loans) > 0 {
			slips = min(slips+1, maxSlips)
		}
		if slips <= p.slips && !p.unsaid {
			continue
		}
		p.slips, p.unsaid = max(slips, p.slips), false
		j.d.Firm = append(j.d.Firm, Firm{
			Job: p.e.Job, Pool: p.pool, Order: p.order, Where: p.place, Left: left(p.bound, j.now), Slips: p.slips,
			Told: p.e.told.known(), Stops: victimsOf(p.stops), OnLoan: p.onLoan,
		})
	}
}

// left is the time until an instant, which may never come.
func left(at, now int64) int64 {
	if at == topology.Never {
		return topology.Never
	}
	return max(at-now, 1)
}

// giveUp drops a firm promise of a job that goes on waiting.
func (j *Judgement) giveUp(p *promise) {
	j.leave(p.e.Job, p.place)
	j.drop(p)
	j.keepFormer(p.e.Job, topology.Placement{}, nothing)
	j.d.Firm = append(j.d.Firm, Firm{Job: p.e.Job})
}

// Inherit takes over a firm promise that is on disk. One that is known is better known here, and is said again.
func (j *Judgement) Inherit(f *Firm, now int64) bool {
	j.Written(f.Job)
	if p := j.firmOf(f.Job); p != nil {
		if len(besides(f.Where.Slots, p.place.Slots)) > 0 {
			j.leave(f.Job, f.Where)
		}
		p.unsaid = true
		return true
	}
	if len(f.Where.Slots) == 0 {
		return false
	}
	e := &entry{Waiting: Waiting{Job: f.Job, Owner: f.Owner, Queue: f.Queue, Fixed: f.Fixed}, gone: true}
	e.slips, e.told = f.Slips, &foretold{lost: true}
	p := &promise{
		e: e, pool: f.Pool, keep: topology.KeepID(f.Job), place: f.Where, at: topology.Never, bound: topology.Never,
		firm: true, made: now, firmly: firmly{order: f.Order, slips: f.Slips, onLoan: f.OnLoan, blind: true},
	}
	if f.Left < topology.Never {
		p.bound = now + f.Left
	}
	for _, v := range f.Stops {
		p.stops = append(p.stops, stop{Victim: v})
	}
	j.orders = max(j.orders, f.Order)
	j.away[f.Job] = p
	return true
}

// Committed says that the COMMIT of a job's attempt is on disk: what it was promised it has.
func (j *Judgement) Committed(job topology.JobID) {
	j.Written(job)
	j.release(job)
}

// release gives up the firm promise of a job that has it no longer.
func (j *Judgement) release(job topology.JobID) {
	if p := j.away[job]; p != nil {
		delete(j.away, job)
		j.unfirm(p)
	}
	for _, p := range j.firm {
		if p.e.Job == job {
			j.drop(p)
			return
		}
	}
}

// unfirm gives up what is kept for one that is away.
func (j *Judgement) unfirm(p *promise) {
	if j.view != nil {
		j.view.Unkeep(p.keep)
	}
	if pool := j.poolNamed(p.pool); pool.firm == p {
		pool.firm = nil
	}
}

// park sets a firm promise aside whose job is not in the queue, for an attempt that has yet to be committed, or for a
// moment. Nobody else in its pool is given one meanwhile: it would be planned on what is still this one's.
func (j *Judgement) park(p *promise) {
	p.e.promised = nil
	j.firm = slices.DeleteFunc(j.firm, func(o *promise) bool { return o == p })
	j.away[p.e.Job] = p
}

// restore gives their firm promises back to those that wait again though they had been started, or that left the
// queue and are in it again, and keeps the room of the others.
func (j *Judgement) restore() {
	for _, p := range slices.Clone(j.firm) {
		if p.e.gone {
			j.park(p)
		}
	}
	for _, p := range j.parked() {
		e := j.queue.jobs[p.e.Job]
		j.holdTurn(p)
		switch p.blind = p.blind && j.ends.Unheard(p.place); {
		case e == nil && j.now < j.keptUntil(p):
			j.view.Keep(p.keep, j.unheld(p))
			j.wakeAt(j.keptUntil(p))
		case e == nil || !e.mayUse(p.place):
			delete(j.away, p.e.Job)
			j.leave(p.e.Job, p.place)
			j.unfirm(p)
			j.d.Firm = append(j.d.Firm, Firm{Job: p.e.Job})
		default:
			delete(j.away, p.e.Job)
			j.rebind(p, e)
			j.firm = append(j.firm, p)
			j.keepRoom(p)
		}
	}
	slices.SortFunc(j.firm, byOrder)
	for _, p := range j.firm {
		p.blind = p.blind && j.ends.Unheard(p.place)
	}
	j.keepFormers()
}

func byOrder(a, b *promise) int {
	return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.keep, b.keep))
}

// parked returns the promises whose jobs are not in the queue, in order.
func (j *Judgement) parked() []*promise {
	if len(j.away) == 0 {
		return nil
	}
	all := make([]*promise, 0, len(j.away))
	for _, p := range j.away { //order: sorted below
		all = append(all, p)
	}
	slices.SortFunc(all, byOrder)
	return all
}

// unheld is the part of a promise that no attempt of its job has: what comes back of one that is given up is kept from
// that moment on, before its job waits again.
func (j *Judgement) unheld(p *promise) topology.Placement {
	return without(p.place, func(n topology.NodeID) []topology.Resources { return j.ends.Held(p.e.Job, n) })
}

// without returns the part of a placement that remains next to what the job already has on each node. The job may have
// started elsewhere in part, so the rest may be less than promised. A slot that it has only in part remains whole.
func without(p topology.Placement, held func(topology.NodeID) []topology.Resources) (rest topology.Placement) {
	var has topology.Resources
	for i, s := range p.Slots {
		if i == 0 || s.Node != p.Slots[i-1].Node {
			has = topology.Resources{}
			for _, amount := range held(s.Node) {
				has = has.Plus(amount)
			}
		}
		if s.Amount.Within(has) {
			has = has.Minus(s.Amount)
		} else {
			rest.Slots = append(rest.Slots, s)
		}
	}
	return rest
}

// mayUse reports whether a job may still have all machines of a place: they may close too early for it by now, or be
// those where it failed.
func (e *entry) mayUse(p topology.Placement) bool {
	return !slices.ContainsFunc(p.Slots, func(s topology.Slot) bool {
		return slices.Contains(e.Gang.Closing, s.Node) || slices.Contains(e.Gang.Avoid, s.Node)
	})
}

// rebind gives a promise to what its job is in the queue now.
func (j *Judgement) rebind(p *promise, e *entry) {
	e.slips, e.loans, e.told = p.e.slips, p.e.loans, p.e.told
	p.e, p.b, e.promised = e, e.burst, p
	if len(e.loans) > 0 {
		j.debtors = append(j.debtors, e)
	}
}
