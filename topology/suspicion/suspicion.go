// Package suspicion decides which nodes probably cause failures of jobs. It counts failures that evidence outside of
// the jobs attributes to a node. The package is pure: its caller knows the time and the verdicts.
//
// One failure proves nothing, because every node fails sometimes. Several failures of one job, or of the jobs of one
// owner, prove nothing either: the job may cause them. A node is suspected after failures of jobs of two owners, and is
// backed off after more of them. Failures count less with each day.
package suspicion

import (
	"cmp"
	"slices"
	"time"

	"github.com/yi-json/synapse/topology"
)

// This file owns the decision.

const (
	// fresh is the weight of a new incident.
	fresh = 1024
	// HalfLife is the time after which the weight of an incident halves.
	HalfLife = 48 * time.Hour
	// gone is the number of halvings after which an incident is forgotten.
	gone = 7
	// apart is the least time between two incidents of a node. Several jobs fail when a node is lost, and that is one
	// incident.
	apart = 10 * time.Minute
	// spread is the number of nodes on which a job must have failed to be the cause itself.
	spread = 3

	// A node is suspected after suspectAfter incidents with at least this weight, and is backed off after guiltyAfter.
	suspectAfter, suspectWeight = 2, fresh * 3 / 2
	guiltyAfter, guiltyWeight   = 3, fresh * 5 / 2

	// MaxFailures limits the failures that are kept for one node.
	MaxFailures = 32

	// FirstRest is the time for which a node is backed off at first, and MostRest limits it. It doubles each time.
	FirstRest = 24 * time.Hour
	MostRest  = 7 * 24 * time.Hour
)

// Grade says how strong the suspicion against a node is.
type Grade uint8

// These are the grades.
const (
	Clear Grade = iota
	Suspect
	Guilty
)

// Failure is the failure of one attempt of a job, for which evidence outside of the job names a node.
type Failure struct {
	Attempt topology.Token
	Job     topology.JobID
	Owner   string
	Class   string // of the verdict
	Reason  string
	AtNs    int64 // on the leader's steady clock
	WallMs  int64 // only for display
}

// Docket holds the failures of all nodes. The zero Docket holds none.
type Docket struct {
	nodes map[topology.NodeID][]Failure // in the order of their times
	by    map[topology.Token]topology.NodeID
	rests map[topology.NodeID]time.Duration
}

// Note adds a failure to a node. A later verdict on the same attempt replaces the earlier one.
func (d *Docket) Note(node topology.NodeID, f Failure) {
	if d.nodes == nil {
		d.nodes, d.by = map[topology.NodeID][]Failure{}, map[topology.Token]topology.NodeID{}
		d.rests = map[topology.NodeID]time.Duration{}
	}
	d.Withdraw(f.Attempt)
	all := append(d.nodes[node], f)
	for len(all) > MaxFailures || f.AtNs-all[0].AtNs >= gone*int64(HalfLife) {
		delete(d.by, all[0].Attempt)
		all = all[1:]
	}
	d.nodes[node], d.by[f.Attempt] = slices.Clone(all), node
}

// Withdraw removes the failure of an attempt, because a later verdict says that no node caused it.
func (d *Docket) Withdraw(attempt topology.Token) {
	node, known := d.by[attempt]
	if !known {
		return
	}
	delete(d.by, attempt)
	d.nodes[node] = slices.DeleteFunc(d.nodes[node], func(f Failure) bool { return f.Attempt == attempt })
}

// Acquit forgets all failures of a node, because an operator says that it works, or because it is another machine.
func (d *Docket) Acquit(node topology.NodeID) {
	for _, f := range d.nodes[node] {
		delete(d.by, f.Attempt)
	}
	delete(d.nodes, node)
	delete(d.rests, node)
}

// Counted returns the failures that count against a node, in the order of their times. Those of a job that failed on
// several other nodes too do not count.
func (d *Docket) Counted(node topology.NodeID, nowNs int64) (all []Failure) {
	for _, f := range d.nodes[node] {
		if weight(f, nowNs) > 0 && d.nodesOf(f.Job) < spread {
			all = append(all, f)
		}
	}
	return all
}

// nodesOf returns the number of nodes that have failures of a job.
func (d *Docket) nodesOf(job topology.JobID) (n int) {
	for _, all := range d.nodes { //order: only counted
		if slices.ContainsFunc(all, func(f Failure) bool { return f.Job == job }) {
			n++
		}
	}
	return n
}

// weight returns what a failure counts for now.
func weight(f Failure, nowNs int64) int {
	halvings := max(nowNs-f.AtNs, 0) / int64(HalfLife)
	if halvings >= gone {
		return 0
	}
	return fresh >> halvings
}

// Grade returns the grade of a node. several reports whether the cluster has jobs of more than one owner. If it has
// not, failures of different jobs are enough.
func (d *Docket) Grade(node topology.NodeID, nowNs int64, several bool) Grade {
	var owners []string
	var jobs []topology.JobID
	incidents, sum := 0, 0
	last := int64(0)
	for _, f := range d.Counted(node, nowNs) {
		if !slices.Contains(owners, f.Owner) {
			owners = append(owners, f.Owner)
		}
		if slices.Contains(jobs, f.Job) || incidents > 0 && f.AtNs-last < int64(apart) {
			continue // a job counts once, and so do failures at the same time
		}
		jobs = append(jobs, f.Job)
		incidents, sum, last = incidents+1, sum+weight(f, nowNs), f.AtNs
	}
	switch {
	case several && len(owners) < 2:
		return Clear
	case incidents >= guiltyAfter && sum >= guiltyWeight:
		return Guilty
	case incidents >= suspectAfter && sum >= suspectWeight:
		return Suspect
	}
	return Clear
}

// mostKnown limits the nodes that Known returns.
const mostKnown = 1000

// Known holds the failures of a node, and the duration of its last backoff.
type Known struct {
	Node     topology.NodeID
	Failures []Failure // in the order of their times
	Rest     time.Duration
}

// newest returns the time of the last failure.
func (k *Known) newest() int64 { return k.Failures[len(k.Failures)-1].AtNs }

// Known returns the nodes with the newest failures, in the order of their names.
func (d *Docket) Known() (all []Known) {
	for node, failures := range d.nodes { //order: sorted below
		if len(failures) > 0 {
			all = append(all, Known{Node: node, Failures: slices.Clone(failures), Rest: d.rests[node]})
		}
	}
	slices.SortFunc(all, func(a, b Known) int {
		return cmp.Or(cmp.Compare(b.newest(), a.newest()), cmp.Compare(a.Node, b.Node))
	})
	all = all[:min(len(all), mostKnown)]
	slices.SortFunc(all, func(a, b Known) int { return cmp.Compare(a.Node, b.Node) })
	return all
}

// Recall adds what an earlier leader knew of a node.
func (d *Docket) Recall(k Known) {
	for _, f := range k.Failures {
		d.Note(k.Node, f)
	}
	if k.Rest > 0 && len(k.Failures) > 0 {
		d.rests[k.Node] = min(k.Rest, MostRest)
	}
}

// Rest returns for how long a node is backed off now: twice as long as the last time.
func (d *Docket) Rest(node topology.NodeID) time.Duration {
	rest := min(max(2*d.rests[node], FirstRest), MostRest)
	d.rests[node] = rest
	return rest
}

// Suspects returns the nodes that are suspected, in the order of their names.
func (d *Docket) Suspects(nowNs int64, several bool) (all []topology.NodeID) {
	for node := range d.nodes { //order: sorted below
		if d.Grade(node, nowNs, several) > Clear {
			all = append(all, node)
		}
	}
	slices.Sort(all)
	return all
}

// Tidy forgets failures that no longer count, and reports whether any are left.
func (d *Docket) Tidy(nowNs int64) bool {
	for node, all := range d.nodes { //order: each is looked at for itself
		if slices.ContainsFunc(all, func(f Failure) bool { return weight(f, nowNs) > 0 }) {
			continue
		}
		d.Acquit(node)
	}
	return len(d.nodes) > 0
}
