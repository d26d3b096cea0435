package policy

// This file records the first estimate of each job's start, and its error. From the errors of similar estimates it
// computes the time by which 9 of 10 jobs start. It needs enough errors before it publishes that time.

import (
	"slices"

	"github.com/yi-json/synapse/topology"
)

const (
	// enoughErrors is the minimum number of errors for that time.
	enoughErrors = 20
	// keptErrors is the number of latest errors that are kept for each kind.
	keptErrors = 200
	// perMille is the unit of an error: thousandths of the estimated wait.
	perMille = 1000
)

// foretold is the first estimate of a job.
type foretold struct {
	kind kindOfPromise
	made int64
	at   int64
	by   int64 // time by which 9 of 10 start; 0: unknown
	// bound is the latest start; topology.Never: unknown.
	bound int64
	lost  bool // made by an earlier leader, on another clock
}

// known returns the part that is recorded with the job, or zero without an estimate.
func (t *foretold) known() Foretold {
	switch {
	case t == nil:
		return Foretold{}
	case t.lost:
		return Foretold{Made: -1}
	}
	return Foretold{t.made, t.at, t.bound}
}

// kindOfPromise groups promises with similar errors.
type kindOfPromise struct{ firm, gang bool }

func (k kindOfPromise) index() int {
	i := 0
	if k.firm {
		i++
	}
	if k.gang {
		i += 2
	}
	return i
}

// record has the errors of past estimates.
type record struct {
	Slips  int
	errors [4][]int64 // per kind: time from the first estimate to the start, in thousandths of the estimated time
	sorted []int64
	heard  func(FirstEstimate)
}

// FirstEstimate is the first estimate of a job and its actual start.
type FirstEstimate struct {
	Job      topology.JobID
	Made, At int64
	By       int64 // time by which 9 of 10 start; 0: unknown
	Started  int64
}

// tell records the first estimate of a job.
func (r *record) tell(j *Judgement, p *promise) {
	if p.e.told != nil || p.at >= topology.Never {
		return
	}
	t := &foretold{kind: kindOfPromise{p.firm, p.b.gang}, made: j.now, at: p.at, bound: p.bound}
	p.e.told = t
	if all := r.errors[t.kind.index()]; len(all) >= enoughErrors {
		r.sorted = append(r.sorted[:0], all...)
		slices.Sort(r.sorted)
		worst := r.sorted[(len(all)*9+9)/10-1]
		t.by = t.made + topology.Scaled(t.length(), worst, perMille)
	}
}

// length returns the estimated wait, at least a minute, so that a short delay is not a multiple of it.
func (t *foretold) length() int64 { return max(t.at-t.made, 60*second) }

// started records the start of a job with an estimate.
func (r *record) started(e *entry, now int64) {
	t := e.told
	if t == nil || t.lost {
		return
	}
	all := &r.errors[t.kind.index()]
	if len(*all) >= keptErrors {
		*all = slices.Delete(*all, 0, 1)
	}
	*all = append(*all, topology.Scaled(now-t.made, perMille, t.length()))
	if r.heard != nil {
		r.heard(FirstEstimate{Job: e.Job, Made: t.made, At: t.at, By: t.by, Started: now})
	}
}

// Watch sets a function that is called with each first estimate when its job starts.
func (j *Judgement) Watch(heard func(FirstEstimate)) { j.record.heard = heard }

// Slips returns the number of overruns that delayed a lender.
func (j *Judgement) Slips() int { return j.record.Slips }
