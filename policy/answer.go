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

// String is the answer in one line.
func (a Answer) String() string {
	return a.Explanation.String() + " · " + strconv.Itoa(a.Ahead) + " of " + strconv.Itoa(a.Waiting) + " waiting jobs are ahead of it"
}
