package policy

// This file keeps start guarantees across failed attempts and changes of the leader. The code calls a start guarantee a
// firm promise. It belongs to the waiting job from the pass that made it until the COMMIT of the job's attempt. It ends
// earlier after a hold, a cancel, or the loss of its nodes. While the job is not in the queue, its reserved nodes
// remain reserved.
//
// A guarantee that only delays other jobs is effective at once: its nodes are reserved, and backfilling respects it. If
// the leader dies before the guarantee is on disk, other jobs have waited for a moment without need, which is harmless.
// Any other effect must wait until the guarantee is on disk. Otherwise the next leader could publish another latest
// start, or jobs would have been stopped without need.

import (
	"cmp"
	"slices"

	"github.com/yi-json/synapse/policy/preempt"
	"github.com/yi-json/synapse/topology"
)

// firmly holds the additional data of a firm promise.
type firmly struct {
	order  uint64 // order among firm promises: it was planned around those with a lower number
	unsaid bool   // the record does not match it
	slips  int    // number of overruns in the record
	onLoan bool   // the job's queue borrows for it
	blind  bool   // from an earlier leader, and an attempt on its nodes has not reported its run time yet
}

// Firm is a firm promise in the form for the job's record.
type Firm struct {
	Job           topology.JobID
	Pool          string
	Order         uint64
	Where         topology.Placement // no slots: it is given up
	Left          int64              // time left until its bound; topology.Never: no bound
	Slips         int
	FirstEstimate Foretold         // first estimate; Made below 0: from an earlier leader
	Stops         []preempt.Victim // attempts that are stopped for it; none: it waits for running jobs to end
	OnLoan        bool             // its queue borrows for it

	// The following fields are used only by Inherit: the owner, the queue, and whether the job must not be stopped.
	Owner, Queue string
	Fixed        bool
}

// Foretold holds a job's first estimate: when it was made, the expected start, and the latest start.
type Foretold struct{ Made, At, Bound int64 }

// sayFirm adds each firm promise that differs from its record to the decisions. An earlier bound alone is not recorded,
// because the next leader computes it again. While reserved capacity is lent on an estimate, the recorded number of
// overruns is one higher. The next leader will not know whether the capacity was returned in time.
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
			FirstEstimate: p.e.told.known(), Stops: victimsOf(p.stops), OnLoan: p.onLoan,
		})
	}
}

// left returns the time until a point in time, which may be Never.
func left(at, now int64) int64 {
	if at == topology.Never {
		return topology.Never
	}
	return max(at-now, 1)
}

// giveUp drops a firm promise of a job that continues to wait.
func (j *Judgement) giveUp(p *promise) {
	j.leave(p.e.Job, p.place)
	j.drop(p)
	j.keepFormer(p.e.Job, topology.Placement{}, nothing)
	j.d.Firm = append(j.d.Firm, Firm{Job: p.e.Job})
}

// Inherit adopts a firm promise from a record. If the planner already has one for the job, that one remains and is
// recorded again.
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

// Committed reports that the COMMIT of a job's attempt is on disk. The job now holds its nodes, so its promise ends.
func (j *Judgement) Committed(job topology.JobID) {
	j.Written(job)
	j.release(job)
}

// release ends the firm promise of a job.
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

// unfirm ends the reservation of a promise whose job is not in the queue.
func (j *Judgement) unfirm(p *promise) {
	if j.view != nil {
		j.view.Unkeep(p.keep)
	}
	if pool := j.poolNamed(p.pool); pool.firm == p {
		pool.firm = nil
	}
}

// park sets a firm promise aside while its job is not in the queue, for example until an attempt is committed. No other
// job in its pool gets a firm promise before, because that would be planned on the capacity of this one.
func (j *Judgement) park(p *promise) {
	p.e.promised = nil
	j.firm = slices.DeleteFunc(j.firm, func(o *promise) bool { return o == p })
	j.away[p.e.Job] = p
}

// restore returns firm promises to jobs that are in the queue again after a failed start or an absence. It keeps the
// reservations of the other parked promises.
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

// unheld returns the part of a promise that no attempt of its job holds. If an attempt is given up, its returned
// capacity is therefore reserved again at once, before the job waits again.
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

// mayUse reports whether a job may still use all nodes of a placement. A node may now be among those that drain too
// early, or those where the job failed.
func (e *entry) mayUse(p topology.Placement) bool {
	return !slices.ContainsFunc(p.Slots, func(s topology.Slot) bool {
		return slices.Contains(e.Gang.Closing, s.Node) || slices.Contains(e.Gang.Avoid, s.Node)
	})
}

// rebind connects a promise with the new queue entry of its job.
func (j *Judgement) rebind(p *promise, e *entry) {
	e.slips, e.loans, e.told = p.e.slips, p.e.loans, p.e.told
	p.e, p.b, e.promised = e, e.burst, p
	if len(e.loans) > 0 {
		j.debtors = append(j.debtors, e)
	}
}
