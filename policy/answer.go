package policy

// This file explains why a job waits: what prevents the start of its gang, and its position in the queue.

import "github.com/yi-json/synapse/topology"

// Question holds the gang to place. If Patient is true, the job still waits for its preferred level, and the gang
// requires that level.
type Question struct {
	Gang    topology.Gang
	Patient bool
}

// Answer holds the explanation of a waiting job and its position.
type Answer struct {
	topology.Explanation
	Standing
}

// Reason is the reason why no job of a group starts.
type Reason struct {
	Group GroupID
	Why   topology.Refusal
	Asked Question // Why is the short answer to this question
}

// reason returns the reason of the group's last refusal.
func (g *group) reason() Reason {
	return Reason{Group: g.id, Why: g.refusal, Asked: Question{Gang: g.asked, Patient: g.key.patient}}
}

// Reasons appends the reasons of all groups whose reason has changed since it was last reported. A pass does not do
// this, so the caller decides how often users see new reasons.
//
// A reason may change although no capacity became free. Therefore a group whose refusal is older than the view is
// examined again. If the group fits, nothing is reported, because the next pass starts it.
func (q *Queue) Reasons(view *topology.Tree, into []Reason) []Reason {
	for _, g := range q.list {
		if !g.looked {
			continue
		}
		if g.revision != view.Revision() {
			if _, fits := g.place(view, g.own()); fits {
				continue
			}
		}
		if g.anyTold && g.told == g.refusal {
			continue
		}
		g.told, g.anyTold = g.refusal, true
		into = append(into, g.reason())
	}
	return into
}

// ReasonsOf appends the reason of each of these jobs' groups once, even if it was reported before, because the jobs
// have just joined.
func (q *Queue) ReasonsOf(joined []Joined, into []Reason) []Reason {
	q.round++
	for _, j := range joined {
		e := q.jobs[j.Job]
		if e == nil || !e.group.looked || e.group.round == q.round {
			continue
		}
		g := e.group
		g.told, g.anyTold, g.round = g.refusal, true, q.round
		into = append(into, g.reason())
	}
	return into
}

// Explain explains why the job waits. The job ID "" stands for any job that asks this question. holders may be nil.
func (q *Question) Explain(view *topology.Tree, job topology.JobID, holders *topology.Holders) topology.Explanation {
	e := topology.ExplainTo(view, q.Gang, job, holders)
	if e.Refusal != nil {
		e.Refusal.Patient = q.Patient
	}
	return e
}

// Explain explains why one job waits. It returns false if the job is not in the queue. holders may be nil.
func Explain(view *topology.Tree, queue *Queue, job topology.JobID, holders *topology.Holders) (Answer, bool) {
	e := queue.jobs[job]
	if e == nil {
		return Answer{}, false
	}
	a := Answer{Standing: Standing{Waiting: queue.Len()}}
	a.Ahead, _ = queue.Position(job)
	asked := Question{Gang: e.group.wanted(view), Patient: e.group.key.patient}
	a.Explanation = asked.Explain(view, job, holders)
	return a, true
}
