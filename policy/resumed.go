package policy

import (
	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// This file owns how a planner that did not start a job comes to count what it has: of an earlier leader, or from
// before anybody described queues.

// Holding holds the resources of a running job.
type Holding struct {
	Job    topology.JobID
	Gang   topology.Gang
	Traits estimate.Traits
	Nodes  []topology.NodeID // each once
	Fixed  bool              // as in Waiting
	// Since (ns) is from when it has it; 0: from now on, as far as is known.
	Since int64
}

// Sharer is a planner that goes by queues.
type Sharer interface {
	Planner
	// Obey has it go by these from the next pass on.
	Obey(q *share.Queues)
	// Occupies tells it of a job that it did not start, before that pass: else its queue would be given as much again.
	Occupies(h Holding, nowNs int64)
	// Of is what the jobs of one owner are that were started in a queue and below it, as of the last pass.
	Of(queue, owner string) (running int64)
	// Never is a limit that a job would exceed even if nothing else ran; nil: none.
	Never(g *topology.Gang, traits *estimate.Traits) *share.Over
	// Uses are what queues have used of late, for a next leader, without what runs; Recollect goes on from them, and
	// counts on what ran last, before that is counted.
	Uses(nowNs int64) []share.Use
	Recollect(uses []share.Use, nowNs int64)
	// Spent counts that an attempt ran for so long (ns) which is over.
	Spent(traits *estimate.Traits, ran, nowNs int64)
}

// Occupies counts a job, and what it has used since it was started.
func (j *Judgement) Occupies(h Holding, nowNs int64) {
	if j.shares == nil {
		return
	}
	j.now = max(j.now, nowNs)
	x := &share.Hold{
		Queue: h.Traits.Queue, Owner: h.Traits.Owner, Pool: h.Traits.Pool, Total: estimate.TotalOf(&h.Gang),
		Size: h.Traits.Size, Since: nowNs, Nodes: h.Nodes, Fixed: h.Fixed,
	}
	j.shares.Take(h.Job, x)
	if h.Since != 0 && h.Since < nowNs {
		x.Since = h.Since
		j.shares.Spend(x.Queue, x.Owner, x.Size, nowNs-h.Since, nowNs)
	}
}

// InUse returns what the jobs of a queue, and of the queues below it, hold or are about to be given, as the planner
// counts it against quotas and limits. It is false if nobody has described that queue and no job is in it.
func (j *Judgement) InUse(queue string) (topology.Resources, bool) {
	if j.shares == nil {
		return topology.Resources{}, false
	}
	return j.shares.InUse(queue, j.leaving())
}

// Chosen reports whether the planner counts a job as started.
func (j *Judgement) Chosen(job topology.JobID) bool {
	return j.shares != nil && j.shares.Of(job) != nil && !j.leaving()[job]
}

// Leaves reports whether the last pass counted a job as started, and the next one will not.
func (j *Judgement) Leaves(job topology.JobID) bool { return j.shares != nil && j.leaving()[job] }

// leaving returns the jobs that the next pass counts no more.
func (j *Judgement) leaving() map[topology.JobID]bool {
	all := map[topology.JobID]bool{}
	for _, x := range j.ended {
		if j.shares.Of(x.job) != nil {
			all[x.job] = true
		}
	}
	return all
}

// Of counts in the tree.
func (j *Judgement) Of(queue, owner string) int64 {
	if j.shares == nil {
		return 0
	}
	return j.shares.Running(queue, owner)
}

// Uses returns the usage of all queues, in the order of their names.
func (j *Judgement) Uses(nowNs int64) []share.Use {
	if j.shares == nil {
		return nil
	}
	j.now = max(j.now, nowNs)
	j.settleShares() // what has ended since the last pass is over
	return j.shares.Uses(j.now)
}

// Recollect goes on from what an earlier leader had.
func (j *Judgement) Recollect(uses []share.Use, nowNs int64) {
	for _, u := range uses {
		if j.shares != nil {
			j.shares.Charge(u.Queue, u.Owner, u.Amount, nowNs)
		}
	}
}

// Spent counts what an attempt used that is over, as if it had ended now.
func (j *Judgement) Spent(t *estimate.Traits, ran, nowNs int64) {
	if j.shares != nil {
		j.shares.Spend(t.Queue, t.Owner, t.Size, ran, nowNs)
	}
}
