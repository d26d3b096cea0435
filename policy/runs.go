package policy

// This file tracks the ends of running jobs for simulations and tests. The caller reports starts and ends, and Runs
// updates a horizon. A leader has a separate implementation, because it also knows claims, returning nodes, and
// attempts of earlier leaders.

import (
	"cmp"
	"slices"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/heap"
	"github.com/yi-json/synapse/topology"
)

// Runs holds the running jobs and their ends.
type Runs struct {
	cells   *estimate.Cells
	prepare int64 // longest time from the start of an attempt to its begin
	view    *topology.Tree
	horizon *topology.Horizon
	jobs    map[topology.JobID]*attempt
	on      map[topology.NodeID][]*attempt // in the order of job IDs
	ends    heap.Heap[*attempt]            // earliest expected end first
	scratch []topology.End
}

// attempt holds one attempt that runs.
type attempt struct {
	Admission
	began        int64 // negative: not begun yet
	hard, likely int64
	at           int // index in ends
}

// NewRuns returns an empty set. It adds the run times of ended jobs to the cells. prepare (ns) is the longest time from
// the start of an attempt to its begin.
func NewRuns(cells *estimate.Cells, prepare int64) *Runs {
	return &Runs{
		cells: cells, prepare: prepare, jobs: map[topology.JobID]*attempt{}, on: map[topology.NodeID][]*attempt{},
		ends: heap.Heap[*attempt]{
			Before: func(a, b *attempt) bool {
				return cmp.Or(cmp.Compare(a.likely, b.likely), cmp.Compare(a.Job, b.Job)) < 0
			},
			Moved: func(r *attempt, at int) { r.at = at },
		},
	}
}

// Horizon returns when capacity becomes free, as known now. A job that has run longer than expected is expected to end
// later.
func (s *Runs) Horizon(view *topology.Tree, now int64) *topology.Horizon {
	if s.view != view {
		s.view, s.horizon = view, topology.NewHorizon(view)
		for node := range s.on { //order: each node independently
			s.set(node)
		}
	}
	for len(s.ends.Items) > 0 && s.ends.Items[0].likely <= now {
		s.expect(s.ends.Items[0], now)
	}
	return s.horizon
}

// expect computes the expected end of a run again.
func (s *Runs) expect(r *attempt, now int64) {
	began := r.began
	if began < 0 {
		began = now // not begun yet
	}
	r.likely = max(now+estimate.Remaining(r.Estimate, now-began, r.Traits.Limit), now+second)
	s.ends.Down(r.at)
	s.ends.Up(r.at)
	s.setAll(r)
}

// Admitted adds a started job.
func (s *Runs) Admitted(a *Admission, now int64) {
	if s.jobs[a.Job] != nil {
		s.remove(s.jobs[a.Job])
	}
	starts := now + s.prepare
	if a.StartBy > 0 {
		starts = min(starts, a.StartBy)
	}
	hard := hardAfter(starts, a.Traits.Limit, a.Grace)
	r := &attempt{Admission: *a, began: -1, hard: hard, likely: now + a.Estimate}
	s.jobs[a.Job] = r
	for _, node := range a.Placement.Nodes() {
		at, _ := slices.BinarySearchFunc(s.on[node], r, func(a, b *attempt) int { return cmp.Compare(a.Job, b.Job) })
		s.on[node] = slices.Insert(s.on[node], at, r)
	}
	s.ends.Push(r)
	s.setAll(r)
}

// Began records that all tasks of a gang run.
func (s *Runs) Began(job topology.JobID, at int64) {
	if r := s.jobs[job]; r != nil && r.began < 0 {
		s.cells.Began(r.Traits, at)
		r.began, r.hard = at, hardAfter(at, r.Traits.Limit, r.Grace)
		s.expect(r, at)
	}
}

// Ended removes an ended attempt and returns its run time. learned is as in Cells.Ended.
func (s *Runs) Ended(job topology.JobID, now int64, learned bool) (ran int64) {
	r := s.jobs[job]
	if r == nil {
		return 0
	}
	if r.began >= 0 {
		ran = now - r.began
		s.cells.Ended(r.Traits, r.began, now, learned)
	}
	s.remove(r)
	return ran
}

func (s *Runs) remove(r *attempt) {
	delete(s.jobs, r.Job)
	s.ends.Remove(r.at)
	for _, node := range r.Placement.Nodes() {
		if s.on[node] = slices.DeleteFunc(s.on[node], func(o *attempt) bool { return o == r }); len(s.on[node]) == 0 {
			delete(s.on, node)
		}
	}
	s.setAll(r)
}

// setAll updates the horizon for all nodes of a run.
func (s *Runs) setAll(r *attempt) {
	for _, node := range r.Placement.Nodes() {
		s.set(node)
	}
}

func (s *Runs) set(node topology.NodeID) {
	if s.horizon == nil {
		return
	}
	s.scratch = s.scratch[:0]
	for _, r := range s.on[node] {
		for i := range r.Placement.Slots {
			if slot := &r.Placement.Slots[i]; slot.Node == node {
				s.scratch = append(s.scratch, topology.End{Amount: slot.Amount, Hard: r.hard, Likely: r.likely, Of: r.Job})
			}
		}
	}
	s.horizon.Set(node, s.scratch)
}

// Of returns the admission of a job and the begin of its run, which is negative if the job has not begun. It returns
// nil if the job holds nothing.
func (s *Runs) Of(job topology.JobID) (a *Admission, began int64) {
	if r := s.jobs[job]; r != nil {
		return &r.Admission, r.began
	}
	return nil, 0
}

// Runs reports whether a job has an attempt that holds capacity.
func (s *Runs) Runs(job topology.JobID) bool { return s.jobs[job] != nil }

// Held returns the amounts that the job's attempt holds on a node.
func (s *Runs) Held(job topology.JobID, node topology.NodeID) (all []topology.Resources) {
	r := s.jobs[job]
	if r == nil {
		return nil
	}
	for i := range r.Placement.Slots {
		if slot := &r.Placement.Slots[i]; slot.Node == node {
			all = append(all, slot.Amount)
		}
	}
	return all
}

// Unheard returns false, because the begin of every attempt is known.
func (s *Runs) Unheard(topology.Placement) bool { return false }

// Endless returns a job without a hard end on one of the nodes, or "".
func (s *Runs) Endless(p topology.Placement) topology.JobID {
	for i := range p.Slots {
		for _, r := range s.on[p.Slots[i].Node] {
			if r.hard == topology.Never {
				return r.Job
			}
		}
	}
	return ""
}
