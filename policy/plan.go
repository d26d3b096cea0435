package policy

// This file owns the pass: which of the waiting gangs start now. Nothing waits
// while holding: a gang that does not fit is left where it stands, and smaller
// ones behind it run.

import (
	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/preempt"
	"github.com/yi-json/synapse/topology"
)

// Admission is a gang that starts now.
type Admission struct {
	Job       topology.JobID
	Placement topology.Placement

	// The rest is what a planner that looks ahead tells beside. Traits are those that the estimate was made of: whoever
	// learns how long the job runs learns it by them, for they name its burst. Estimate, Grace and StartBy are in ns; by
	// StartBy the attempt begins or not at all (0: whenever it is ready).
	Traits                   estimate.Traits
	Estimate, Grace, StartBy int64
	// Told is what the job was told first; Made 0: nothing. Promised: it had a firm promise, which is its own until it
	// is committed.
	Told     Foretold
	Promised bool
	// Stops are those that were told to stop for it.
	Stops []preempt.Victim
}

// Joined is a job that waits, and with whom.
type Joined struct {
	Job   topology.JobID
	Group GroupID
	Turn  Turn
	Burst uint64 // as in Traits; 0: the planner counts none
	Lent  int64  // as in Waiting
}

// Decisions holds the results of a pass.
type Decisions struct {
	// Admit lists the gangs that start, in the order of the queue. They have left
	// the queue, and their amounts are taken on the view: the caller keeps them
	// taken, and gives them back if an attempt fails.
	Admit []Admission
	// Joined lists the jobs that came into a group since the last pass and still
	// wait, in the order in which they came: what is said of their group from here on is
	// said of them. It is good until the next pass.
	Joined []Joined
	// Firm are the firm promises that were made, changed, or given up though their jobs wait, for the records of these.
	// It is good until the next pass.
	Firm []Firm
	// Looked counts the placements tried, Refused the shapes that found none.
	Looked, Refused int
	// NextAt (ns) is when the next patience runs out and a pass is due even if
	// nothing changes; 0 is never.
	NextAt int64
}

// Plan runs a pass. The phases:
//  1. Patience that ran out by now: those jobs join the group of their shape that
//     takes any permitted level.
//  2. If room has grown since the last pass, or the view is another one, every
//     group is looked at; else only groups that no pass has looked at yet.
//  3. Of these groups, always the one whose first job is first in the queue: its
//     gang is placed and taken, or the whole group is asleep from here on. A pass
//     only takes, so what was refused in it stays refused.
func Plan(view *topology.Fabric, queue *Queue, nowNs int64) Decisions {
	queue.endPatience(nowNs)
	queue.wake(view)
	var d Decisions
	heads := &queue.heads
	for _, g := range queue.awake {
		if len(g.jobs) > 0 {
			heads.Push(g)
		}
	}
	for len(heads.Items) > 0 {
		g := heads.Items[0]
		d.Looked++
		if p, ok := g.place(view, topology.Lent{}); ok {
			d.Admit = append(d.Admit, queue.Admit(view, g.jobs[0].Job, p))
			if len(g.jobs) > 0 {
				heads.Down(0)
				continue
			}
		} else {
			g.asleep = true
			d.Refused++
		}
		heads.Remove(0)
	}
	d.Joined = queue.Passed(view)
	if len(queue.patient.Items) > 0 {
		d.NextAt = queue.patient.Items[0].deadlineNs()
	}
	return d
}

// endPatience moves the jobs whose patience ran out.
func (q *Queue) endPatience(nowNs int64) {
	for len(q.patient.Items) > 0 {
		e := q.patient.Items[0]
		if e.deadlineNs() > nowNs {
			return
		}
		q.patient.Remove(0)
		q.leave(e)
		q.enter(e, false)
	}
}

// wake readies all groups for a look when a refused one might fit now.
func (q *Queue) wake(view *topology.Fabric) {
	if !q.HasGrown(view) {
		return
	}
	for _, g := range q.list {
		if g.asleep {
			g.asleep = false
			q.awake = append(q.awake, g)
		}
	}
}

// HasGrown reports whether a view has more room than the last pass left, or is another one.
func (q *Queue) HasGrown(view *topology.Fabric) bool {
	return view != q.view || view.Gained() != q.gained
}

// join lists the entered jobs that still wait. One that was patient until now
// may have entered twice; both entries then say the same.
func (q *Queue) join() []Joined {
	q.joined = q.joined[:0]
	for _, e := range q.entered {
		if q.jobs[e.Job] == e {
			q.joined = append(q.joined, Joined{Job: e.Job, Group: e.group.id, Turn: e.turn(), Burst: e.burstID(), Lent: e.Lent})
		}
	}
	clear(q.entered)
	q.entered = q.entered[:0]
	return q.joined
}

// Admit takes a place, and a waiting job out of the queue: it starts there.
func (q *Queue) Admit(view *topology.Fabric, job topology.JobID, p topology.Placement) Admission {
	view.Take(p)
	q.Remove(job)
	return Admission{Job: job, Placement: p}
}

// Passed ends a pass: every group has been looked at, and sleeps until room grows. It lists
// the jobs that came into a group since the last pass and still wait.
func (q *Queue) Passed(view *topology.Fabric) []Joined {
	for _, g := range q.awake {
		g.asleep = true
	}
	clear(q.awake)
	q.awake = q.awake[:0]
	q.view, q.gained = view, view.Gained()
	return q.join()
}
