package policy

import (
	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// This file owns how a planner that did not start a job comes to count what it has: of an earlier leader, or from
// before anybody described queues.

// Holding is what a job has that runs.
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
	Never(g *topology.Gang, traits *estimate.Traits) *Over
	// Uses are what queues have used of late, for a next leader, without what runs; Recollect goes on from them, and
	// counts on what ran last, before that is counted.
	Uses(nowNs int64) []Use
	Recollect(uses []Use, nowNs int64)
	// Spent counts that an attempt ran for so long (ns) which is over.
	Spent(traits *estimate.Traits, ran, nowNs int64)
}

// Occupies counts a job, and what it has used since it was started.
func (j *Judgement) Occupies(h Holding, nowNs int64) {
	if j.shares == nil {
		return
	}
	j.now = max(j.now, nowNs)
	x := &hold{
		queue: h.Traits.Queue, owner: h.Traits.Owner, pool: h.Traits.Pool, total: estimate.TotalOf(&h.Gang),
		size: h.Traits.Size, since: nowNs, nodes: h.Nodes, fixed: h.Fixed,
	}
	j.shares.take(h.Job, x)
	if h.Since != 0 && h.Since < nowNs {
		x.since = h.Since
		j.shares.leaf(x.queue, x.owner).charge(spent(x.size, counting(nowNs-h.Since)), nowNs)
	}
}

// InUse returns what the jobs of a queue, and of the queues below it, hold or are about to be given, as the planner
// counts it against quotas and limits. It is false if nobody has described that queue and no job is in it.
func (j *Judgement) InUse(queue string) (topology.Resources, bool) {
	if j.shares == nil || j.shares.named[queue] == nil {
		return topology.Resources{}, false
	}
	has := j.shares.named[queue].has // the fixed amounts come first
	sum := topology.Resources{MilliGPU: has[0], MilliCPU: has[1], MemoryBytes: has[2]}
	for job := range j.leaving() { //order: they are summed up
		hold := j.shares.jobs[job]
		for h := hold.leaf; h != nil; h = h.parent {
			if h == j.shares.named[queue] {
				sum.MilliGPU -= hold.total.MilliGPU
				sum.MilliCPU -= hold.total.MilliCPU
				sum.MemoryBytes -= hold.total.MemoryBytes
			}
		}
	}
	return sum, true
}

// Chosen reports whether the planner counts a job as started.
func (j *Judgement) Chosen(job topology.JobID) bool {
	return j.shares != nil && j.shares.jobs[job] != nil && !j.leaving()[job]
}

// Leaves reports whether the last pass counted a job as started, and the next one will not.
func (j *Judgement) Leaves(job topology.JobID) bool { return j.shares != nil && j.leaving()[job] }

// leaving returns the jobs that the next pass counts no more.
func (j *Judgement) leaving() map[topology.JobID]bool {
	all := map[topology.JobID]bool{}
	for _, x := range j.ended {
		if j.shares.jobs[x.job] != nil {
			all[x.job] = true
		}
	}
	return all
}

// Of counts in the tree.
func (j *Judgement) Of(queue, owner string) int64 {
	if j.shares == nil || j.shares.named[queue] == nil || j.shares.named[queue].owned[owner] == nil {
		return 0
	}
	return j.shares.named[queue].owned[owner].running
}
