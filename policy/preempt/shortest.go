package preempt

import (
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// This file owns the rule by which a short job has a longer one of its own queue stopped, and what makes it gentle. It
// asks for no estimate: a job that has run for long is expected to go on for as long again, and one that has not run
// yet is expected to be short. So nothing is stopped in a circle: whoever is stopped has had several times what the
// other is expected to take, and to be stopped itself the other would first have to have had as much.
//
// The alternative, to go by what was learned of how long jobs run, stops somebody for each estimate that was wrong.

const (
	// usualTotal is what a job is expected to take that has not run for longer yet.
	usualTotal = 1800 * second
	// timesLonger is how many times as long as the job for which it is stopped, and as what its stop costs, a job must be
	// expected to go on.
	timesLonger = 4
	// timesLarger is how many times the size of the job all may have together that are stopped for it.
	timesLarger = 4
	// usualLongRun is for how long a job runs at the least before it is stopped for a shorter one, where its queue says
	// nothing.
	usualLongRun = 3600 * second
)

// StillTakes returns for how long a job is expected to go on that has had so much.
func StillTakes(had int64) int64 { return max(usualTotal-had, had) }

// leastRun returns for how long jobs run at the least before they are stopped by a rule.
func leastRun(p *share.Preempts, rule Rule) int64 {
	if rule == Shortest && !p.SaysMinRun {
		return usualLongRun
	}
	return p.MinRun
}

// inside says by which rule an attempt gives way to the job of its own queue; NoRule: by none.
func (l *Look) inside(r *Running, x *share.Hold, now int64) Rule {
	switch p := &l.Leaf.Preempts; {
	case r.Times >= mostInside:
		return NoRule
	case p.ByPriority && r.Priority < l.Priority:
		return ByPriority
	case p.Shortest && r.Priority <= l.Priority && l.isWorth(r, x, now):
		return Shortest
	}
	return NoRule
}

// isWorth reports whether to stop an attempt for a shorter job is worth it: it is not much larger, and expected to go
// on for several times as long as the job and as what its stop costs. A job that does not save its work loses all of
// it, which is as much as it is expected to go on for.
func (l *Look) isWorth(r *Running, x *share.Hold, now int64) bool {
	if r.Checkpoint == 0 || x.Size > topology.Scaled(l.Size, timesLarger, 1) {
		return false
	}
	costs := min(r.Ran, r.Checkpoint) + Resuming + r.Prepared
	needs := timesLonger * max(l.Takes, costs)
	if r.Limit > 0 && r.Limit-r.Ran < needs {
		return false // nor will it be
	}
	had := r.Had + r.Ran
	if StillTakes(had) < needs {
		l.Later = min(l.Later, now+needs-had)
		return false
	}
	return true
}

// IsGentle reports whether what is stopped for a shorter job may be, all of it together: it is not much larger than
// that. What is lost is not held against how long the job would have to wait without: that is known only of the first
// in line, and for the others what is known promises too much (docs/reports/quality.md has what came of it).
func (l *Look) IsGentle() bool {
	sizes := int64(0)
	for _, i := range l.chosen {
		if l.all[i].Rule == Shortest {
			sizes += l.all[i].hold.Size
		}
	}
	return sizes <= topology.Scaled(l.Size, timesLarger, 1)
}
