package policy

// This file has the simple pass, which decides which waiting gangs start now. No gang holds anything while it waits: a
// gang that does not fit stays in the queue, and later smaller gangs may start.

import (
	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/policy/preempt"
	"github.com/yi-json/synapse/topology"
)

// Admission is a gang that starts now.
type Admission struct {
	Job       topology.JobID
	Placement topology.Placement

	// The following fields are set only by a planner that looks ahead. Traits are the input of the estimate. They
	// identify the burst, so the run time must be learned with the same traits. Estimate, Grace and StartBy are in
	// ns. The attempt must begin by StartBy, or not at all (0: no latest start).
	Traits                   estimate.Traits
	Estimate, Grace, StartBy int64
	// Told is the first estimate of the job's start; Made is 0 if there was none. Promised means that the job had a
	// firm promise, which it keeps until its COMMIT.
	FirstEstimate Foretold
	Promised      bool
	// Stops has the attempts that were stopped for this job.
	Stops []preempt.Victim
}

// Joined is a waiting job with its group.
type Joined struct {
	Job   topology.JobID
	Group GroupID
	Turn  Turn
	Burst uint64 // as in Traits; 0: none
	Lent  int64  // as in Waiting
}

// Decisions holds the results of a pass.
type Decisions struct {
	// Admit lists the gangs that start, in the order of the queue. They have left the queue, and their amounts are
	// taken from the view. If an attempt fails, the caller gives the amounts back.
	Admit []Admission
	// Joined lists the jobs that entered a group after the last pass and still wait, in the order of their entry.
	// From now on, messages about the group apply to them. It is valid until the next pass.
	Joined []Joined
	// Firm lists the firm promises to record: new, changed, or given up while their jobs wait. It is valid until
	// the next pass.
	Firm []Firm
	// Looked is the number of placements tried. Refused is the number of shapes that did not fit.
	Looked, Refused int
	// NextAt (ns) is the time when the next topology wait ends, so that a pass is due even if nothing changes; 0:
	// never.
	NextAt int64
}

// Plan runs a pass. The phases:
//  1. Jobs whose topology wait has ended join the group of their shape that accepts every permitted level.
//  2. If free capacity has grown after the last pass, or the view is a new one, every group is examined; otherwise only
//     groups that no pass has examined yet.
//  3. The group whose first job is first in the queue is next: its gang is placed, or the complete group sleeps from
//     now on. A pass only takes capacity, so a refused gang stays refused in that pass.
func Plan(view *topology.Tree, queue *Queue, nowNs int64) Decisions {
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

// endPatience moves the jobs whose topology wait has ended.
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

// wake marks all groups for examination if a refused one might fit now.
func (q *Queue) wake(view *topology.Tree) {
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

// HasGrown reports whether the view has more capacity than the last pass left, or is a new one.
func (q *Queue) HasGrown(view *topology.Tree) bool {
	return view != q.view || view.Gained() != q.gained
}

// join lists the entered jobs that still wait. A job whose topology wait has ended may be listed twice, with equal
// content.
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

// Admit takes a placement and removes a waiting job from the queue, because it starts there.
func (q *Queue) Admit(view *topology.Tree, job topology.JobID, p topology.Placement) Admission {
	view.Take(p)
	q.Remove(job)
	return Admission{Job: job, Placement: p}
}

// Passed ends a pass. Every group sleeps until free capacity grows. Passed returns the jobs that entered a group after
// the last pass and still wait.
func (q *Queue) Passed(view *topology.Tree) []Joined {
	for _, g := range q.awake {
		g.asleep = true
	}
	clear(q.awake)
	q.awake = q.awake[:0]
	q.view, q.gained = view, view.Gained()
	return q.join()
}
