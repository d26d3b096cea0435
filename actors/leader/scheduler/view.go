package scheduler

import (
	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns read-only access to the leader's memory for checks. Other actors must not use it. Production queries
// the Mirror.

// View returns the leader's view of a node: its free capacity, why it gets no new work, and the number of attempts that
// may be on it.
func (s *nodeTable) View(id topology.NodeID) (free topology.Capacity, closed string, tenants int) {
	m := s.machines[id]
	if m == nil {
		return topology.Capacity{}, "unknown", 0
	}
	free, _ = s.view.Tree().Free(id)
	return free, m.closed(), len(m.room.Tenants())
}

// Resting reports whether a node gets no new work only because its failures count against it.
func (s *nodeTable) Resting(id topology.NodeID) bool {
	m := s.machines[id]
	return m != nil && m.onlyRests()
}

// Size returns the total capacity of a node in the leader's view, without devices that are out of service. The planner
// never uses more, whatever is free.
func (s *nodeTable) Size(id topology.NodeID) topology.Resources {
	m, _ := s.view.Tree().Machine(id)
	return m.Total
}

// Withdrawn counts the devices of a node's last ledger that are out of service.
func (s *nodeTable) Withdrawn(id topology.NodeID) int {
	if m := s.machines[id]; m != nil {
		return len(m.ledger.GetWithdrawnGpus())
	}
	return 0
}

// KeptForOthers returns the capacity of a node that is reserved for jobs other than this one.
func (s *nodeTable) KeptForOthers(id topology.NodeID, job topology.JobID) (kept topology.Resources) {
	s.view.Tree().EachKept(id, func(keep topology.KeepID, amount topology.Resources) {
		if keep != topology.KeepID(job) {
			kept = kept.Plus(amount)
		}
	})
	return kept
}

// EachKept visits the reservations on a node: the job, the amount, and whether the job has a start guarantee. It skips
// the nodes of an earlier guarantee that are still reserved.
func (s *planning) EachKept(id topology.NodeID, visit func(job topology.JobID, kept topology.Resources, firm bool)) {
	promises, is := s.planner.(*policy.Judgement)
	if !is {
		return
	}
	s.view.Tree().EachKept(id, func(keep topology.KeepID, amount topology.Resources) {
		if job := keep.Job(); keep == topology.KeepID(job) {
			p, ok := promises.Promised(job)
			visit(job, amount, ok && p.Firm)
		}
	})
}

// Bound visits the start guarantees with a latest start that reserve capacity on a node: the job, the amount, and when
// it must be free.
func (s *planning) Bound(
	id topology.NodeID, visit func(job topology.JobID, kept topology.Resources, by actors.Instant),
) {
	promises, is := s.planner.(*policy.Judgement)
	if !is {
		return
	}
	s.view.Tree().EachKept(id, func(keep topology.KeepID, amount topology.Resources) {
		if p, ok := promises.Promised(topology.JobID(keep)); ok && p.Firm && p.Bound < topology.Never {
			visit(topology.JobID(keep), amount, actors.Instant(p.Bound))
		}
	})
}

// Slips returns the number of overruns by backfilled jobs on a job's reserved nodes, as far as this leader knows. The
// job's record may count one more. It returns false if the job is not waiting with a guarantee.
func (s *planning) Slips(job topology.JobID) (int, bool) {
	promises, is := s.planner.(*policy.Judgement)
	if !is {
		return 0, false
	}
	p, ok := promises.Promised(job)
	return p.Slips, ok && p.Firm
}

// InUse returns the usage that the planner counts for a queue and its descendants. It returns false if the planner does
// not use queues.
func (s *planning) InUse(queue string) (topology.Resources, bool) {
	if p, is := s.planner.(*policy.Judgement); is && s.states.In(schedulerLeading) {
		return p.InUse(queue)
	}
	return topology.Resources{}, false
}

// Chosen reports whether the planner has started a job, even if its actor does not know it yet.
func (s *planning) Chosen(job topology.JobID) bool {
	p, is := s.planner.(*policy.Judgement)
	return is && p.Chosen(job)
}

// Leaves reports whether the last pass counted a job as started, and the next one will not.
func (s *planning) Leaves(job topology.JobID) bool {
	p, is := s.planner.(*policy.Judgement)
	return is && p.Leaves(job)
}

// Stopping returns the jobs that are or will be preempted and that were chosen before the guarantee with this order.
func (s *planning) Stopping(before uint64) []topology.JobID {
	if p, is := s.planner.(*policy.Judgement); is {
		return p.Stopping(before)
	}
	return nil
}

// ChosenNow reports whether the last pass chose the victims of a job, and made no start guarantee after that.
func (s *planning) ChosenNow(job topology.JobID) bool {
	p, is := s.planner.(*policy.Judgement)
	return is && p.ChosenNow(job)
}

// Starting returns the attempt of a job that this leader started, while it holds resources. Otherwise it returns the
// zero token.
func (s *lookahead) Starting(job topology.JobID) topology.Token {
	if e := s.jobs[job]; e != nil && e.run != nil && e.run.token == e.offered && (ends{s}).Runs(job) {
		return e.offered
	}
	return topology.Token{}
}

// HasGrown reports whether there is more free capacity than in the last pass.
func (s *planning) HasGrown() bool { return s.queue.HasGrown(s.view.Tree()) }

// QueuesRevision returns the revision of the queue configuration; 0 means that there is none.
func (s *shares) QueuesRevision() uint64 { return s.queues.record.GetRevision() }

// Overdue counts the claims on a reachable node that should have ended with its newest ledger.
func (s *nodeTable) Overdue(id topology.NodeID) int {
	if m := s.machines[id]; m != nil && m.up {
		return m.room.Overdue()
	}
	return 0
}

// HoldsUID reports whether a UID is in use and will not be assigned to another job.
func (s *uidPool) HoldsUID(uid uint32) bool { return s.uids.Holds(uid) }

// LacksUID reports whether a job is kept out of the queue because no uid is free for it.
func (s *jobTable) LacksUID(job topology.JobID) bool {
	e := s.jobs[job]
	return e != nil && e.parked
}

// Requests counts the requests that the leader remembers.
func (s *jobTable) Requests() int { return len(s.requests) }

// Living counts the jobs that have an actor or are about to have one, and the waiting jobs among them.
func (s *planning) Living() (jobs, waiting int) { return len(s.jobs), s.queue.Len() }
