package preempt

// This file owns who may be stopped for whom, by which right, and the law that a search for them keeps to beside the
// room: quotas and limits.
//
// All rules are strict, so that nothing is stopped in a circle. Inside a queue it is lower priority, or that the other
// is much longer (shortest.go). Between queues one that stays within its quota takes back what another has above its
// own; priority does not cross them.

import (
	"cmp"
	"slices"

	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// Rule says by which right a job is stopped for another.
type Rule uint8

// The rules.
const (
	NoRule     Rule = iota
	ByPriority      // it has the lower priority, in the same queue
	Reclaim         // its queue has more than its quota, and the other's has not
	Shortest        // it is expected to go on for much longer, in the same queue
)

// Victim is an attempt that is stopped for a job.
type Victim struct {
	Job   topology.JobID
	Token topology.Token
	Rule  Rule
	Lost  int64 // work, in milli-GPU-seconds
}

// Running says what is known of an attempt that has room. Times are in ns.
type Running struct {
	Token      topology.Token
	Priority   int32
	Room       topology.Placement // on machines that can be reached
	Ran        int64              // since its barrier; 0: it has not passed that
	Had        int64              // for how long attempts of its job ran before
	Limit      int64              // 0: none
	Prepared   int64              // how long that took
	Checkpoint int64              // it saves its work so often; 0: nobody says so
	Grace      int64
	Fixed      bool  // it is not to be stopped
	Times      int   // that its job was stopped for another of its queue
	Rested     int64 // since the last of them; topology.Never: there was none
	Ends       bool  // its end is on disk
}

const (
	second = 1_000_000_000
	// leftAlone is for how long a job is not stopped again for another of its queue, mostInside how often it is.
	leftAlone  = 3600 * second
	mostInside = 3
	// Resuming is what it costs to begin again, beside the time to prepare.
	Resuming = 60 * second
)

// Look is one look for whom to stop for a job.
type Look struct {
	Tree *share.Tree
	Leaf *share.Branch // where the job counts

	Job      topology.JobID
	Owner    string
	Priority int32
	Fixed    bool    // it is not to be stopped itself
	Size     int64   // in milli-GPUs
	Needs    []int64 // of each amount
	Takes    int64   // for how long it is expected to run

	Busy  map[topology.JobID]bool // they are being stopped
	Later int64                   // when one more may be stopped

	upTo map[*share.Branch]bool // below these queues, those of the job stay within their quotas with it
	all  []Candidate
	// chosen are those that were found last.
	chosen []int
}

// Foresee goes by what the queues have now, as it is counted.
func (l *Look) Foresee() { l.upTo = l.Leaf.WithinUpTo(l.Needs) }

// Gather finds who may be stopped, and counts them.
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

// Find finds whom of them to stop so that all of a gang fits, and where it then goes.
func (l *Look) Find(view *topology.Fabric, gang *topology.Gang, lent topology.Lent) (
	victims []Victim, place topology.Placement, ok bool,
) {
	law := &statutes{Look: l, under: map[*share.Branch][]int{}, refused: map[*share.Branch]int{}}
	l.chosen, place, ok = Victims(view, gang, lent, l.all, law)
	for _, i := range l.chosen {
		victims = append(victims, l.all[i].Victim)
	}
	return victims, place, ok
}

// Grace returns the longest time in which one of those ends that were found last.
func (l *Look) Grace() (grace int64) {
	for _, i := range l.chosen {
		grace = max(grace, l.all[i].grace)
	}
	return grace
}

// lost returns what work it costs to stop an attempt of this size, in milli-GPU-seconds.
func (r *Running) lost(size int64) int64 {
	again := r.Ran
	if r.Checkpoint > 0 {
		again = min(again, r.Checkpoint)
	}
	return topology.Scaled(size, again+Resuming+r.Prepared, second)
}

// rule says by which rule what a job of a queue has may be taken for another, and which queues must have more than
// their quotas for that. Inside a queue what its attempt is decides by which.
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

// TakesBack reports whether the job may take back what one of another queue has that needs so much: all its queues that
// are assured something would have more than that.
func (l *Look) TakesBack(leaf *share.Branch, needs []int64) bool {
	rule, loans := l.rule(leaf)
	return rule == Reclaim && !slices.ContainsFunc(loans, func(o *share.Branch) bool { return !o.Exceeds(needs) })
}

// statutes are the law that a hunt goes by: what is reclaimed is above the quotas that it counts in, for each victim
// though the others have gone, and the job exceeds no limit once all have.
type statutes struct {
	*Look
	under   map[*share.Branch][]int // chosen, of each queue that must have more than its quota
	refused map[*share.Branch]int   // since somebody was chosen
}

// fewRefusals is after how many a queue is taken to have nothing left above its quota.
const fewRefusals = 64

// Add chooses a victim.
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

// Drop chooses one no more.
func (l *statutes) Drop(i int) {
	c := &l.all[i]
	l.Tree.Count(1, c.hold)
	for _, h := range c.loans {
		l.under[h] = slices.DeleteFunc(l.under[h], func(o int) bool { return o == i })
		l.refused[h] = min(l.refused[h], fewRefusals-1)
	}
}

// isAbove reports whether a queue has more than its quota without each of those that are chosen, but for that one.
func (l *statutes) isAbove(h *share.Branch) bool {
	for _, i := range l.under[h] {
		if !h.Exceeds(l.all[i].needs) {
			return false
		}
	}
	return true
}

// Enough reports whether no limit is in the way of the job any more.
func (l *statutes) Enough(p topology.Placement) bool {
	if l.Fixed && l.Tree.Beyond(l.Leaf, l.Needs) != nil {
		return false
	}
	return l.Tree.Over(l.Leaf, l.Owner, l.Needs, p.Nodes()) == nil
}
