package preempt

// This file decides which jobs may be stopped for which, by which rule, and the quotas and limits that a search must
// respect.
//
// All rules are strict, so that jobs never stop each other in a circle. Within a queue, a job with lower priority or
// with a much longer remaining run time may be stopped (shortest.go). Between queues, a queue within its quota reclaims
// capacity that another queue uses beyond its quota. Priority has no effect between queues.

import (
	"cmp"
	"slices"

	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// Rule is the rule by which a job is stopped for another.
type Rule uint8

// The rules.
const (
	NoRule     Rule = iota
	ByPriority      // it has a lower priority in the same queue
	Reclaim         // its queue exceeds its quota, and the other's queue does not
	Shortest        // it is expected to run much longer, in the same queue
)

// Victim is an attempt that is stopped for a job.
type Victim struct {
	Job   topology.JobID
	Token topology.Token
	Rule  Rule
	Lost  int64 // lost work in milli-GPU-seconds
}

// Running is the state of an attempt that holds capacity. Times are in ns.
type Running struct {
	Token      topology.Token
	Priority   int32
	Room       topology.Placement // on reachable nodes
	Ran        int64              // time since its barrier; 0: not passed
	Had        int64              // run time of the job's earlier attempts
	Limit      int64              // 0: none
	Prepared   int64              // time that the preparation took
	Checkpoint int64              // interval between checkpoints; 0: unknown
	Saved      int64              // Ran when its gang last acknowledged a checkpoint; 0: never
	Grace      int64
	Fixed      bool  // must not be stopped
	Times      int   // how often the job was stopped for another of its queue
	Rested     int64 // time since the last such stop; topology.Never: none
	Ends       bool  // its end is on disk
}

const (
	second = 1_000_000_000
	// leftAlone is the time for which a job is not stopped again for another of its queue. mostInside is the
	// maximum number of such stops.
	leftAlone  = 3600 * second
	mostInside = 3
	// Resuming is the cost of a restart, in addition to the preparation.
	Resuming = 60 * second
)

// Look is one search for victims for a job.
type Look struct {
	Tree *share.Tree
	Leaf *share.Branch // where the job counts

	Job      topology.JobID
	Owner    string
	Priority int32
	Fixed    bool    // the job itself must not be stopped
	Size     int64   // in milli-GPUs
	Needs    []int64 // of each amount
	Takes    int64   // expected run time

	Busy  map[topology.JobID]bool // jobs that are already being stopped
	Later int64                   // when further jobs may become victims

	// For each ancestor: the job's queues below it stay within their quotas with the job.
	upTo map[*share.Branch]bool
	all  []Candidate
	// chosen has the victims of the last search.
	chosen []int
}

// Foresee uses the current usage of the queues.
func (l *Look) Foresee() { l.upTo = l.Leaf.WithinUpTo(l.Needs) }

// Gather collects the possible victims, and returns their number.
func (l *Look) Gather(running func(topology.JobID, int64) (Running, bool), now int64) int {
	l.all = l.all[:0]
	for job, x := range l.Tree.All() { //order: sorted below
		if l.Busy[job] || job == l.Job {
			continue
		}
		rule, loans := l.rule(x.Leaf)
		if rule == NoRule {
			continue
		}
		r, ok := running(job, now)
		if !ok || r.Ends || r.Fixed {
			continue
		}
		if rule != Reclaim {
			rule = l.inside(&r, x, now)
		}
		if rule == NoRule {
			continue
		}
		if ready := leastRun(&x.Leaf.Preempts, rule) - r.Ran; ready > 0 {
			l.Later = min(l.Later, now+ready)
			continue
		}
		if ready := leftAlone - r.Rested; rule != Reclaim && ready > 0 {
			l.Later = min(l.Later, now+ready)
			continue
		}
		l.all = append(l.all, Candidate{
			Victim: Victim{Job: job, Token: r.Token, Rule: rule, Lost: r.lost(x.Size)}, Room: r.Room,
			grace: r.Grace, hold: x, loans: loans, needs: l.Tree.Needs(x.Pool, x.Total),
		})
	}
	slices.SortFunc(l.all, func(a, b Candidate) int { return cmp.Compare(a.Job, b.Job) })
	return len(l.all)
}

// Find selects victims so that the complete gang fits, and returns its placement.
func (l *Look) Find(view *topology.Tree, gang *topology.Gang, lent topology.Lent) (
	victims []Victim, place topology.Placement, ok bool,
) {
	law := &statutes{Look: l, under: map[*share.Branch][]int{}, refused: map[*share.Branch]int{}}
	l.chosen, place, ok = Victims(view, gang, lent, l.all, law)
	for _, i := range l.chosen {
		victims = append(victims, l.all[i].Victim)
	}
	return victims, place, ok
}

// Grace returns the longest grace period of the selected victims.
func (l *Look) Grace() (grace int64) {
	for _, i := range l.chosen {
		grace = max(grace, l.all[i].grace)
	}
	return grace
}

// lost returns the work that is lost by stopping an attempt of this size, in milli-GPU-seconds.
func (r *Running) lost(size int64) int64 {
	return topology.Scaled(size, r.unsaved()+Resuming+r.Prepared, second)
}

// unsaved returns the run time whose work is lost with a stop at most: since the last acknowledged checkpoint, or an
// interval between checkpoints.
func (r *Running) unsaved() int64 {
	lost := r.Ran - min(r.Saved, r.Ran)
	if r.Checkpoint > 0 {
		lost = min(lost, r.Checkpoint)
	}
	return lost
}

// saves reports whether a stop costs less than all work of the attempt.
func (r *Running) saves() bool { return r.Checkpoint > 0 || r.Saved > 0 }

// rule returns the rule by which a job of a queue may be stopped, and the queues that must exceed their quotas for it.
// Within the same queue, the attempt itself decides which rule applies.
func (l *Look) rule(leaf *share.Branch) (Rule, []*share.Branch) {
	if leaf.Name == l.Leaf.Name {
		if l.Leaf.Preempts.IsInside() {
			return ByPriority, nil
		}
		return NoRule, nil
	}
	if !l.Leaf.Preempts.Reclaim {
		return NoRule, nil
	}
	var loans []*share.Branch
	for o := leaf; o.Parent != nil; o = o.Parent {
		if o.Assured {
			loans = append(loans, o)
		}
		if within, common := l.upTo[o.Parent]; common {
			if within {
				return Reclaim, loans
			}
			break
		}
	}
	return NoRule, nil
}

// TakesBack reports whether the job may reclaim the capacity of a job of another queue with these needs. All queues of
// that job that have a quota must exceed it.
func (l *Look) TakesBack(leaf *share.Branch, needs []int64) bool {
	rule, loans := l.rule(leaf)
	return rule == Reclaim && !slices.ContainsFunc(loans, func(o *share.Branch) bool { return !o.Exceeds(needs) })
}

// statutes are the rules of a search. Each victim of a reclaim must be above the quotas that it counts in, even after
// the other victims have gone. The job must exceed no limit after all victims have gone.
type statutes struct {
	*Look
	under   map[*share.Branch][]int // selected victims of each queue that must exceed its quota
	refused map[*share.Branch]int   // refusals after the last selected victim
}

// fewRefusals is the number of refusals after which a queue counts as having nothing left above its quota.
const fewRefusals = 64

// Add selects a victim.
func (l *statutes) Add(i int) bool {
	c := &l.all[i]
	for _, h := range c.loans {
		if l.refused[h] >= fewRefusals {
			return false
		}
	}
	l.Tree.Count(-1, c.hold)
	for _, h := range c.loans {
		l.under[h] = append(l.under[h], i)
	}
	for _, h := range c.loans {
		if !l.isAbove(h) {
			l.refused[h]++
			l.Drop(i)
			return false
		}
	}
	return true
}

// Drop removes a selected victim.
func (l *statutes) Drop(i int) {
	c := &l.all[i]
	l.Tree.Count(1, c.hold)
	for _, h := range c.loans {
		l.under[h] = slices.DeleteFunc(l.under[h], func(o int) bool { return o == i })
		l.refused[h] = min(l.refused[h], fewRefusals-1)
	}
}

// isAbove reports whether a queue exceeds its quota without the selected victims, for each of them alone.
func (l *statutes) isAbove(h *share.Branch) bool {
	for _, i := range l.under[h] {
		if !h.Exceeds(l.all[i].needs) {
			return false
		}
	}
	return true
}

// Enough reports whether no limit prevents the start of the job.
func (l *statutes) Enough(p topology.Placement) bool {
	if l.Fixed && l.Tree.Beyond(l.Leaf, l.Needs) != nil {
		return false
	}
	return l.Tree.Over(l.Leaf, l.Owner, l.Needs, p.Nodes()) == nil
}
