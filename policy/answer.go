package policy

// This file owns the answer to "why does my job not start?": what stands in the
// gang's way, and where the job stands among those that wait.

import (
	"strconv"

	"github.com/yi-json/synapse/topology"
)

// Answer is all that can be said of a waiting job.
type Answer struct {
	topology.Explanation
	// Ahead counts the jobs before it in the queue, of Waiting jobs in all.
	Ahead, Waiting int
	// PatientUntil (ns) is when its patience for the preferred level ends; 0 when
	// it has none or it is over.
	PatientUntil int64
}

// Reason is why no job of a group starts.
type Reason struct {
	Group GroupID
	Why   topology.Refusal
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
			if _, fits := g.place(view); fits {
				continue
			}
		}
		if g.anyTold && g.told == g.refusal {
			continue
		}
		g.told, g.anyTold = g.refusal, true
		into = append(into, Reason{Group: g.id, Why: g.refusal})
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
		into = append(into, Reason{Group: g.id, Why: g.refusal})
	}
	return into
}

// Explain answers for one job; false when it does not wait. holders tells who has
// what on a machine; it may be nil.
func Explain(view *topology.Fabric, queue *Queue, job topology.JobID, holders func(topology.NodeID) []topology.Holder) (Answer, bool) {
	e := queue.jobs[job]
	if e == nil {
		return Answer{}, false
	}
	a := Answer{Waiting: queue.Len()}
	a.Ahead, _ = queue.Position(job)
	if e.group.key.patient {
		a.PatientUntil = e.deadlineNs()
	}
	a.Explanation = topology.Explain(view, e.group.wanted(view), holders)
	if a.Refusal != nil {
		a.Refusal.Patient = a.PatientUntil > 0
	}
	return a, true
}

// String is the answer in one line. A job that waits alone has no place in a queue
// worth a word.
func (a Answer) String() string {
	switch {
	case a.Waiting < 2:
		return a.Explanation.String()
	case a.Ahead == 0:
		return a.Explanation.String() + " · it is the first of " + strconv.Itoa(a.Waiting) + " waiting jobs"
	}
	verb := " are"
	if a.Ahead == 1 {
		verb = " is"
	}
	return a.Explanation.String() + " · " + strconv.Itoa(a.Ahead) + " of " + strconv.Itoa(a.Waiting) + " waiting jobs" + verb + " ahead of it"
}
