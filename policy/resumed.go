package policy

import (
	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// This file counts running jobs that the planner did not start itself: those of an earlier leader, or from before
// queues were configured.

// Holding holds the resources of a running job.
type Holding struct {
	Job    topology.JobID
	Gang   topology.Gang
	Traits estimate.Traits
	Nodes  []topology.NodeID // each once
	Fixed  bool              // as in Waiting
	// Since (ns) is the start of the holding; 0: now.
	Since int64
}

// Sharer is a planner that uses queues.
type Sharer interface {
	Planner
	// Obey sets the configuration of queues from the next pass on.
	Obey(q *share.Queues)
	// Occupies counts a job that the planner did not start. It must be called before the next pass, because
	// otherwise the job's queue would get the same amount again.
	Occupies(h Holding, nowNs int64)
	// Of returns the number of an owner's started jobs in a queue and its descendants, as of the last pass.
	Of(queue, owner string) (running int64)
	// Never returns a limit that a job would exceed even if nothing else ran, or nil.
	Never(g *topology.Gang, traits *estimate.Traits) *share.Over
	// Uses returns the recent usage of queues without running jobs, for the next leader. Recollect restores it. It
	// must be called before running jobs are counted.
	Uses(nowNs int64) []share.Use
	Recollect(uses []share.Use, nowNs int64)
	// Spent adds the usage of an ended attempt, which ran for this time (ns).
	Spent(traits *estimate.Traits, ran, nowNs int64)
}

// Occupies counts a job, and its usage since its start.
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

// InUse returns what the jobs of a queue and its descendants hold or are about to get, as counted against quotas and
// limits. It returns false if the queue is not configured and has no jobs.
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

// leaving returns the jobs that the next pass no longer counts.
func (j *Judgement) leaving() map[topology.JobID]bool {
	all := map[topology.JobID]bool{}
	for _, x := range j.ended {
		if j.shares.Of(x.job) != nil {
			all[x.job] = true
		}
	}
	return all
}

// Of returns the number of an owner's started jobs.
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
	j.settleShares() // also removes jobs that ended after the last pass
	return j.shares.Uses(j.now)
}

// Recollect restores the usage of an earlier leader.
func (j *Judgement) Recollect(uses []share.Use, nowNs int64) {
	for _, u := range uses {
		if j.shares != nil {
			j.shares.Charge(u.Queue, u.Owner, u.Amount, nowNs)
		}
	}
}

// Spent adds the usage of an ended attempt, as if it had ended now.
func (j *Judgement) Spent(t *estimate.Traits, ran, nowNs int64) {
	if j.shares != nil {
		j.shares.Spend(t.Queue, t.Owner, t.Size, ran, nowNs)
	}
}
