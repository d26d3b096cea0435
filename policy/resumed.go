package policy

import "github.com/yi-json/synapse/topology"

// This file owns how a planner that did not start a job comes to count what it has: of an earlier leader, or from
// before anybody described queues.

// Holding is what a job has that runs.
type Holding struct {
	Job    topology.JobID
	Gang   topology.Gang
	Traits Traits
	Nodes  []topology.NodeID // each once
}

// Sharer is a planner that goes by queues.
type Sharer interface {
	Planner
	// Obey has it go by these from the next pass on.
	Obey(q *Queues)
	// Occupies tells it of a job that it did not start, before that pass: else its queue would be given as much again.
	Occupies(h Holding, nowNs int64)
	// Of is what the jobs of one owner are that were started in a queue and below it, as of the last pass.
	Of(queue, owner string) (running int64)
}

// Occupies counts a job as one that was started now.
func (j *Judgement) Occupies(h Holding, nowNs int64) {
	if j.shares == nil {
		return
	}
	j.now = max(j.now, nowNs)
	j.shares.take(h.Job, &hold{
		queue: h.Traits.Queue, owner: h.Traits.Owner, pool: h.Traits.Pool, total: totalOf(&h.Gang), size: h.Traits.Size,
		since: nowNs, nodes: h.Nodes,
	})
}

// Of counts in the tree.
func (j *Judgement) Of(queue, owner string) int64 {
	if j.shares == nil || j.shares.named[queue] == nil || j.shares.named[queue].owned[owner] == nil {
		return 0
	}
	return j.shares.named[queue].owned[owner].running
}
