package preempt

import (
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// This file has the rule by which a short job stops a longer one of its own queue, and its restrictions. It uses no
// estimate. A job is expected to run for as long again as it has already run. A new job is expected to be short. Jobs
// therefore never stop each other in a circle. A victim has run several times as long as the other job is expected to
// need. The other job would first have to run that long itself.
//
// Learned run times would stop a job for every wrong estimate.

const (
	// usualTotal is the expected run time of a job that has not run longer yet.
	usualTotal = 1800 * second
	// timesLonger is the required ratio between the victim's remaining run time and both the other job's run time
	// and the cost of the stop.
	timesLonger = 4
	// timesLarger is the maximum ratio between the total size of all victims and the size of the job.
	timesLarger = 4
	// usualLongRun is the minimum run time of a victim of this rule if its queue sets none.
	usualLongRun = 3600 * second
)

// StillTakes returns the expected remaining run time of a job that has run for this time.
func StillTakes(had int64) int64 { return max(usualTotal-had, had) }

// leastRun returns the minimum run time of a victim by a rule.
func leastRun(p *share.Preempts, rule Rule) int64 {
	if rule == Shortest && !p.SaysMinRun {
		return usualLongRun
	}
	return p.MinRun
}

// inside returns the rule by which an attempt may be stopped for the job of its own queue, or NoRule.
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

// isWorth reports whether stopping an attempt for a shorter job pays. The attempt must not be much larger than the job.
// Its remaining run time must be several times that of the job, and several times the cost of the stop. Without
// checkpoints, the cost is the complete run time, which equals the expected remaining time.
func (l *Look) isWorth(r *Running, x *share.Hold, now int64) bool {
	if !r.saves() || x.Size > topology.Scaled(l.Size, timesLarger, 1) {
		return false
	}
	costs := r.unsaved() + Resuming + r.Prepared
	needs := timesLonger * max(l.Takes, costs)
	if r.Limit > 0 && r.Limit-r.Ran < needs {
		return false // and will never be long enough
	}
	had := r.Had + r.Ran
	if StillTakes(had) < needs {
		l.Later = min(l.Later, now+needs-had)
		return false
	}
	return true
}

// IsGentle reports whether all victims of a shorter job together are not much larger than the job. It does not compare
// the lost work with the waiting time of the job. That time is known only for the first job in line, and estimated too
// long for the others (measurements in docs/reports/quality.md).
func (l *Look) IsGentle() bool {
	sizes := int64(0)
	for _, i := range l.chosen {
		if l.all[i].Rule == Shortest {
			sizes += l.all[i].hold.Size
		}
	}
	return sizes <= topology.Scaled(l.Size, timesLarger, 1)
}
