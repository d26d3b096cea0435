package policy

// This file owns the answer to "why does my job not start?": what stands in the
// gang's way, and where the job stands among those that wait.

import "github.com/yi-json/synapse/topology"

// Question holds what is asked about a waiting job: the gang to place, and whether it first waits for its preferred
// level, which is then required of the gang.
type Question struct {
	Gang    topology.Gang
	Patient bool
}

// Answer is all that can be said of a waiting job.
type Answer struct {
	topology.Explanation
	Standing
}

// Reason is why no job of a group starts.
type Reason struct {
	Group GroupID
	Why   topology.Refusal
	Asked Question // of which Why is the short answer
}

// reason is why the group waits, as it was looked at last.
func (g *group) reason() Reason {
	return Reason{Group: g.id, Why: g.refusal, Asked: Question{Gang: g.asked, Patient: g.key.patient}}
}

// Reasons appends why each group waits that has another reason by now than the
// one that was said of it last. It is apart from the pass, which costs nothing
// per refusal, so that the caller chooses how often people are told. What made a
// refusal may have changed since without any room being gained; so a group whose
// refusal is older than the view is looked at again. Where it fits after all,
// nothing is said: the next pass starts it.
func (q *Queue) Reasons(view *topology.Fabric, into []Reason) []Reason {
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

// ReasonsOf appends why the groups of these jobs wait, each once, whatever was
// said of them before: whoever joins a group is told with it.
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

// Explain answers what stands in a job's way; "": in that of any job that asks for this. holders may be nil.
func (q *Question) Explain(view *topology.Fabric, job topology.JobID, holders *topology.Holders) topology.Explanation {
	e := topology.ExplainTo(view, q.Gang, job, holders)
	if e.Refusal != nil {
		e.Refusal.Patient = q.Patient
	}
	return e
}

// Explain answers for one job; false when it does not wait. holders may be nil.
func Explain(view *topology.Fabric, queue *Queue, job topology.JobID, holders *topology.Holders) (Answer, bool) {
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
