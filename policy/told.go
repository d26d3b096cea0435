package policy

// This file owns what waiting jobs are told, and how right that was: the first time that each was promised, and by when
// nine of ten of its kind start, found from the errors of earlier promises. Nothing is said of that before there are
// enough errors.

import (
	"slices"

	"github.com/yi-json/synapse/topology"
)

const (
	// enoughErrors is of how many promises the errors must be known before a share of them is told.
	enoughErrors = 20
	// keptErrors is how many are kept of one kind, the latest ones.
	keptErrors = 200
	// perMille are the parts of a wait in which its error is counted.
	perMille = 1000
)

// foretold is the first time that a job was told.
type foretold struct {
	kind kindOfPromise
	made int64
	at   int64
	by   int64 // nine of ten start by then; 0: nobody knows
	// bound is by when it was to start at the latest; topology.Never: nobody could say.
	bound int64
	lost  bool // an earlier leader told it, and when that was this one's clock does not know
}

// known is as much of it as is noted with the job; nothing where it was told nothing.
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

// record is how right past promises were.
type record struct {
	Slips  int
	errors [4][]int64 // per kind: how long it took from the first promise to the start, in parts of what was promised
	sorted []int64
	heard  func(Told)
}

// Told is a promise that was made first to a job, and what came of it.
type Told struct {
	Job      topology.JobID
	Made, At int64
	By       int64 // nine of ten start by then; 0: not told
	Started  int64
}

// tell notes the first promise of a job.
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

// length returns the promised time, at least a minute, so that a short delay is not a multiple of it.
func (t *foretold) length() int64 { return max(t.at-t.made, 60*second) }

// started notes when a job started that was told something.
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
		r.heard(Told{Job: e.Job, Made: t.made, At: t.at, By: t.by, Started: now})
	}
}

// Watch has somebody told of each first promise when its job starts.
func (j *Judgement) Watch(heard func(Told)) { j.record.heard = heard }

// Slips counts what was lent on an estimate and came back late, at its lender's cost.
func (j *Judgement) Slips() int { return j.record.Slips }
