package policy

// This file handles a promise for which jobs are stopped, until its job starts. The promise waits for the stopped
// victims. It is planned again if one of its nodes is lost, and is given up only if a limit still prevents the start.

import (
	"slices"

	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// Stopped records that an attempt was stopped for a job.
func (j *Judgement) Stopped(job topology.JobID, t topology.Token) {
	if p := j.firmOf(job); p != nil {
		for i := range p.stops {
			p.stops[i].told = p.stops[i].told || p.stops[i].Token == t
		}
	}
}

// Stopping returns the jobs that are victims of promises before an order. Their holdings no longer count in quotas.
func (j *Judgement) Stopping(before uint64) (all []topology.JobID) {
	for _, p := range slices.Concat(j.firm, j.parked()) {
		for i := 0; i < len(p.stops) && p.order < before; i++ {
			all = append(all, p.stops[i].Job)
		}
	}
	return all
}

// ChosenNow reports whether the last pass selected the victims of a job and made no firm promise after that. In this
// case, the reservations are still those of that moment.
func (j *Judgement) ChosenNow(job topology.JobID) bool {
	p := j.firmOf(job)
	return p.isStopping() && p.e.promised == p && p.made == j.now && p.order == j.orders
}

// serveStopping starts a job with victims if it can. It waits for each victim that was stopped.
func (j *Judgement) serveStopping(p *promise) {
	stopper, is := j.ends.(Stopper)
	waits, here := false, false
	for i := range p.stops {
		s := &p.stops[i]
		if r, ok := stopper.Running(s.Job, j.now); is && ok && r.Token == s.Token {
			s.told, here = s.told || r.Ends, true
			waits = waits || s.told
		}
	}
	switch {
	case !waits && j.startPromised(p):
	case !here && j.staysOver(p):
		j.giveUp(p)
	case j.horizon.Lost(p.place):
		j.replan(p)
	default:
		p.at = max(p.at, j.now)
		p.limitedBy(j.clearedBy(p, j.own(p)...))
	}
}

// clearedBy returns the latest time when the place of a new promise, or of one with victims, is free. If the place is
// free already, the victims block a limit, and the time is unknown.
func (j *Judgement) clearedBy(p *promise, own ...topology.KeepID) int64 {
	at := j.whenFree(p, topology.ByLimit, own...)
	if p.isStopping() && at <= j.now {
		return topology.Never
	}
	return at
}

// staysOver reports whether a limit would prevent a promise even after all victims of all promises have gone. The
// promise was made for that state.
func (j *Judgement) staysOver(p *promise) bool {
	if j.shares == nil {
		return false
	}
	var leave []*share.Hold
	for _, o := range slices.Concat(j.firm, j.parked()) {
		for i := range o.stops {
			if x := j.shares.Of(o.stops[i].Job); x != nil && !slices.Contains(leave, x) {
				leave = append(leave, x)
			}
		}
	}
	j.shares.Count(-1, leave...)
	over := j.isOver(p.b, p.e, &p.place)
	j.shares.Count(1, leave...)
	return over
}

// replan searches another place if a node of a promise is lost. Victims that are already stopping count as free.
// Victims that were not stopped yet continue to run.
func (j *Judgement) replan(p *promise) {
	going := slices.DeleteFunc(slices.Clone(p.stops), func(s stop) bool { return !s.told })
	j.view.Unkeep(p.keep)
	j.view.Unkeep(p.keep.Former())
	var h *hunting
	if h = j.hunting(p.b, p.e); h != nil {
		for _, s := range going {
			h.Busy[s.Job] = true
		}
		j.foresee(h, 1)
		stops, place, ok := j.hunt(h, going)
		j.foresee(h, -1)
		if ok && len(stops) > 0 {
			j.leave(p.e.Job, p.place)
			p.place, p.stops, p.made = place, stops, j.now
			j.moved(p)
			p.at, p.bound = j.now+h.Grace(), topology.Never
			j.view.Keep(p.keep, p.place)
			j.keepFormer(p.e.Job, p.place, nothing)
			return
		}
	}
	j.giveUp(p)
}
