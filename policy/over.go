package policy

// This file applies limits in a pass: it finds the limit that keeps a job waiting, and describes quotas and limits.

import (
	"slices"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// isOver reports whether a job would exceed a limit, and records the limit. The placement may be nil if it is not known
// yet. Earlier firm promises count as if they had started. Otherwise a later job could take the last of a limit, and
// the victims of a promise would be stopped in vain.
func (j *Judgement) isOver(b *burst, e *entry, p *topology.Placement) bool {
	if j.shares == nil {
		return false
	}
	leaf, needs := j.leafOf(b), b.needs
	if b.asked = j.round; !e.Fixed && !leaf.IsLimited() {
		b.over = nil
		return false
	}
	var nodes []topology.NodeID
	if p != nil {
		nodes = p.Nodes()
	}
	own := e.promised
	if own != nil && (!own.firm || p != nil && len(besides(p.Slots, own.place.Slots)) > 0) {
		own = nil // at another place, it comes after all of them
	}
	before := j.promisedFirmly(e, own)
	j.shares.Count(1, before...)
	if b.over = j.shares.Over(leaf, e.Owner, needs, nodes); b.over == nil && e.Fixed {
		b.over = j.shares.Beyond(leaf, needs)
	}
	j.shares.Count(-1, before...)
	return b.over != nil
}

// mayStartOn reports whether a job respects all limits on a placement. If the placement uses more nodes than the limit
// of an owner allows, a placement on fewer nodes replaces it. Such a search examines every node, so it is rare.
func (j *Judgement) mayStartOn(b *burst, e *entry, p *topology.Placement, strict bool) bool {
	if !j.isOver(b, e, p) {
		return true
	}
	over := b.over
	if !over.IsOfNodes() {
		return false
	}
	if j.fewer >= fewerInPass || j.now < b.fewer {
		j.wakeAt(max(b.fewer, j.now+second))
		return false
	}
	j.fewer++
	gang := e.group.wanted(j.view)
	if strict {
		gang.Required = j.closest(e.group)
	}
	few, ok := topology.PlaceOnFew(j.view, &gang, topology.Lent{}, over.On, int(over.Most-over.Has))
	if ok && !j.isOver(b, e, &few) {
		*p, b.fewer = few, 0
		return true
	}
	b.over, b.fewer = over, j.now+huntEvery
	return false
}

// fewerInPass is the maximum number of searches for a placement on fewer nodes in one pass.
const fewerInPass = 4

// promisedFirmly returns the future holdings of other jobs that have a firm promise and have not started. If a job
// starts on its own promise, only earlier promises count. The arguments in but are left out.
func (j *Judgement) promisedFirmly(e *entry, own *promise, but ...*promise) (all []*share.Hold) {
	for _, p := range slices.Concat(j.firm, j.parked()) {
		isLater := own != nil && byOrder(own, p) < 0
		if p.e.Job == e.Job || isLater || j.shares.Of(p.e.Job) != nil || slices.Contains(but, p) {
			continue
		}
		x := &share.Hold{
			Queue: p.e.Queue, Owner: p.e.Owner, Pool: p.pool, Nodes: p.place.Nodes(), Fixed: p.e.Fixed,
			Leaf: j.shares.Leaf(p.e.Queue, p.e.Owner),
		}
		for i := range p.place.Slots { // the gang of an inherited promise may not be known yet
			x.Total = x.Total.Plus(p.place.Slots[i].Amount)
		}
		all = append(all, x)
	}
	return all
}

// Obey sets the configuration of queues, or nil for none. Running jobs are counted again, and past usage is kept by the
// names of queues.
func (j *Judgement) Obey(q *share.Queues) {
	was := j.shares
	if j.shares = nil; q == nil {
		return
	}
	j.shares, j.turns = share.New(q, j.settings.Order), map[*share.Branch]*turns{}
	if was != nil {
		j.shares.Follow(was, j.now)
	}
	for _, p := range j.firm {
		if onLoan := j.isOnLoan(p); onLoan != p.onLoan {
			p.onLoan, p.unsaid = onLoan, true
		}
	}
}

// settleShares removes the jobs that ended after the last pass.
func (j *Judgement) settleShares() {
	for _, x := range j.ended {
		if j.shares != nil {
			j.shares.Give(x.job, j.now, x.forgiven)
		}
	}
	j.ended = j.ended[:0]
}

// endedJob is a job that holds nothing any more. forgiven means that its usage does not count, because it never ran.
type endedJob struct {
	job      topology.JobID
	forgiven bool
}

// Over returns the limit that kept a waiting job from starting in the last pass, or nil.
func (j *Judgement) Over(job topology.JobID) *share.Over {
	if j.queue == nil {
		return nil // no pass yet
	}
	e := j.queue.jobs[job]
	if e == nil || e.burst == nil {
		return nil
	}
	return j.overOf(e.burst, e)
}

// overOf returns the limit that kept a burst from starting this job.
func (j *Judgement) overOf(b *burst, e *entry) *share.Over {
	if b.asked != j.round { // the pass ended before its turn
		j.isOver(b, e, nil)
	}
	return b.over
}

// Never returns a limit that a job would exceed even if nothing else ran, with the job's request. It returns nil if
// there is none.
func (j *Judgement) Never(g *topology.Gang, traits *estimate.Traits) *share.Over {
	if j.shares == nil {
		return nil
	}
	machines := int64(1)
	if g.Apart {
		machines = int64(g.Replicas)
	}
	return j.shares.Never(traits.Queue, traits.Owner, j.shares.Needs(traits.Pool, estimate.TotalOf(g)), machines)
}

// Share describes the usage of a job's queue relative to its quota, and names the sibling queues that exceed their
// quotas. It returns "" if the queue has no quota.
func (j *Judgement) Share(job topology.JobID) string {
	e := j.queue.jobs[job]
	if e == nil || e.burst == nil || j.shares == nil {
		return ""
	}
	return j.shares.Standing(j.shares.Leaf(e.Queue, e.Owner), e.burst.needs)
}
