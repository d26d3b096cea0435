// Package policy decides which waiting gangs start, and where. It is pure: who
// needs the time passes it in, in nanoseconds.
package policy

import "github.com/yi-json/synapse/topology"

// Promise is capacity meant for a waiting gang from a point in time on. None
// are made yet.
type Promise struct {
	Job    topology.JobID
	Where  topology.Placement
	FromNs int64
}

// Admission is a gang that starts now; its amounts are already taken on the view.
type Admission struct {
	Job       topology.JobID
	Placement topology.Placement
}

// Decisions is what one pass decided.
type Decisions struct {
	// Admit lists the admitted gangs, in the order of the queue. They have left
	// the queue and their amounts are taken on the view.
	Admit []Admission
	// Looked and Refused count the shapes looked at and refused in this pass.
	Looked, Refused int
	// NextAt (ns) is when the next waiting job's patience runs out; 0 is never.
	NextAt int64
}

// Plan runs one pass.
func Plan(view *topology.Fabric, queue *Queue, promises []Promise, nowNs int64) Decisions {
	var d Decisions
	for _, w := range queue.Jobs() {
		d.Looked++
		p, r := topology.Place(view, w.Gang)
		if r != nil {
			d.Refused++
			queue.reasons[w.Job] = r
			continue
		}
		view.Take(p)
		queue.Remove(w.Job)
		d.Admit = append(d.Admit, Admission{w.Job, p})
	}
	return d
}
