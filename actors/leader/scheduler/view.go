package scheduler

import (
	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns what whoever checks a leader may see of its memory. Read only,
// and never from another actor: production asks the Mirror.

// View returns the leader's view of a node: free capacity to plan with, why the node gets no new work, and the number
// of attempts that are or may be on it.
func (s *nodeTable) View(id topology.NodeID) (free topology.Capacity, closed string, tenants int) {
	m := s.machines[id]
	if m == nil {
		return topology.Capacity{}, "unknown", 0
	}
	free, _ = s.view.Fabric().Free(id)
	return free, m.closed(), len(m.room.Tenants())
}

// Size returns the total capacity of a node in the leader's view, without devices that are out of service. The planner
// never uses more, whatever is free.
func (s *nodeTable) Size(id topology.NodeID) topology.Resources {
	m, _ := s.view.Fabric().Machine(id)
	return m.Total
}

// Withdrawn counts the devices that a machine's books show to the leader as out of service.
func (s *nodeTable) Withdrawn(id topology.NodeID) int {
	if m := s.machines[id]; m != nil {
		return len(m.ledger.GetWithdrawnGpus())
	}
	return 0
}

// KeptForOthers returns the capacity of a node that is reserved for jobs other than this one.
func (s *nodeTable) KeptForOthers(id topology.NodeID, job topology.JobID) (kept topology.Resources) {
	s.view.Fabric().EachKept(id, func(keep topology.KeepID, amount topology.Resources) {
		if keep != topology.KeepID(job) {
			kept = kept.Plus(amount)
		}
	})
	return kept
}

// EachKept visits what is kept on a machine: for whom, how much, and whether by a firm promise. The place that a job
// was promised before is left out.
func (s *planning) EachKept(id topology.NodeID, visit func(job topology.JobID, kept topology.Resources, firm bool)) {
	promises, is := s.planner.(*policy.Judgement)
	if !is {
		return
	}
	s.view.Fabric().EachKept(id, func(keep topology.KeepID, amount topology.Resources) {
		if job := keep.Job(); keep == topology.KeepID(job) {
			p, ok := promises.Promised(job)
			visit(job, amount, ok && p.Firm)
		}
	})
}

// Bound visits the firm promises that keep room on a machine and have a bound: for whom, how much of it is there, and
// by when it is free.
func (s *planning) Bound(
	id topology.NodeID, visit func(job topology.JobID, kept topology.Resources, by actors.Instant),
) {
	promises, is := s.planner.(*policy.Judgement)
	if !is {
		return
	}
	s.view.Fabric().EachKept(id, func(keep topology.KeepID, amount topology.Resources) {
		if p, ok := promises.Promised(topology.JobID(keep)); ok && p.Firm && p.Bound < topology.Never {
			visit(topology.JobID(keep), amount, actors.Instant(p.Bound))
		}
	})
}

// Slips counts how often what was lent of a firm promise has come back late, as far as this leader knows; what its
// job's record says may be one more. false: the job does not wait with one.
func (s *planning) Slips(job topology.JobID) (int, bool) {
	promises, is := s.planner.(*policy.Judgement)
	if !is {
		return 0, false
	}
	p, ok := promises.Promised(job)
	return p.Slips, ok && p.Firm
}

// InUse returns the usage that the planner counts for a queue and its descendants; false: it does not plan by queues.
func (s *planning) InUse(queue string) (topology.Resources, bool) {
	if p, is := s.planner.(*policy.Judgement); is && s.states.In(schedulerLeading) {
		return p.InUse(queue)
	}
	return topology.Resources{}, false
}

// Chosen reports whether the planner has started a job, be its actor told of that or not.
func (s *planning) Chosen(job topology.JobID) bool {
	p, is := s.planner.(*policy.Judgement)
	return is && p.Chosen(job)
}

// Leaves reports whether the last pass counted a job as started, and the next one will not.
func (s *planning) Leaves(job topology.JobID) bool {
	p, is := s.planner.(*policy.Judgement)
	return is && p.Leaves(job)
}

// Stopping are the jobs that are stopped for others, or are to be, and were chosen before the promise of this order.
func (s *planning) Stopping(before uint64) []topology.JobID {
	if p, is := s.planner.(*policy.Judgement); is {
		return p.Stopping(before)
	}
	return nil
}

// ChosenNow reports whether the last pass chose the victims of a job, and made no firm promise after that.
func (s *planning) ChosenNow(job topology.JobID) bool {
	p, is := s.planner.(*policy.Judgement)
	return is && p.ChosenNow(job)
}

// Starting is the attempt of a job that this leader was the one to start, as long as it has room; else the zero token.
func (s *lookahead) Starting(job topology.JobID) topology.Token {
	if e := s.jobs[job]; e != nil && e.run != nil && e.run.token == e.offered && (ends{s}).Runs(job) {
		return e.offered
	}
	return topology.Token{}
}

// HasGrown reports whether there is more room than in the last pass.
func (s *planning) HasGrown() bool { return s.queue.HasGrown(s.view.Fabric()) }

// QueuesRevision is that of the queues that the leader goes by; 0: by none.
func (s *shares) QueuesRevision() uint64 { return s.queues.record.GetRevision() }

// Overdue counts the claims on a machine that can be heard which should have gone with its newest ledger.
func (s *nodeTable) Overdue(id topology.NodeID) int {
	if m := s.machines[id]; m != nil && m.up {
		return m.room.Overdue()
	}
	return 0
}

// HoldsUID reports whether a uid will not be given to the next job.
func (s *uidPool) HoldsUID(uid uint32) bool { return s.uids.Holds(uid) }

// LacksUID reports whether a job is kept out of the queue because no uid is free for it.
func (s *jobTable) LacksUID(job topology.JobID) bool {
	e := s.jobs[job]
	return e != nil && e.parked
}

// Requests counts the requests that the leader remembers.
func (s *jobTable) Requests() int { return len(s.requests) }

// Living counts the jobs that have an actor or are about to have one, and those
// of them that wait.
func (s *planning) Living() (jobs, waiting int) { return len(s.jobs), s.queue.Len() }
