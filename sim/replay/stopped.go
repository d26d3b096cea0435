package replay

import (
	"fmt"
	"time"

	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/policy/preempt"
	"github.com/yi-json/synapse/topology"
)

// This file owns jobs that are stopped for others: what they have done and saved, what is lost by it, and what a
// planner knows of those that it could have stopped.

// resuming is the time to continue from the last checkpoint.
const resuming = time.Minute

// shifts are the attempts of a job that may be stopped. It waits until all its work is done: what it ran for beside
// that was lost.
type shifts struct {
	begun   time.Duration // when all of its latest attempt ran; below 0: they do not
	again   bool          // it was stopped, and waits
	stopped []shift
	inside  int           // times that it was stopped for another of its queue
	saved   time.Duration // of its work
	lost    time.Duration
}

// shift is an attempt, from when all of it ran until one did no more.
type shift struct{ from, to time.Duration }

// toRun is for how long an attempt runs that goes on from what is saved.
func (r *run) toRun(i int) time.Duration {
	l, left := &r.lives[i], r.jobs[i].Duration
	if left -= l.saved; len(l.stopped) > 0 {
		left += resuming
	}
	return left
}

// ends notes that nothing of a job runs any more, and answers for how long its attempt ran and whether it was stopped.
func (r *run) ends(i int, now time.Duration) (ran time.Duration, stopped bool) {
	l, resumed := &r.lives[i], time.Duration(0)
	if l.begun >= 0 {
		ran = now - l.begun
	}
	if len(l.stopped) > 0 {
		resumed = min(ran, resuming)
	}
	if !r.o.Preempt || ran >= r.toRun(i) {
		l.lost += resumed
		return ran, false
	}
	rule, told := r.seen.rules[l.attempt]
	if !told && r.broken == nil {
		r.broken = fmt.Errorf("the job of line %d was stopped after %s, and no promise names it", r.jobs[i].Line, ran)
	}
	if rule != preempt.Reclaim {
		l.inside++
	}
	saved := time.Duration(0)
	if every := r.o.Checkpoint; every > 0 {
		saved = (ran - resumed) / every * every
	}
	l.saved, l.lost = l.saved+saved, l.lost+ran-saved
	l.stopped, l.begun, l.again = append(l.stopped, shift{now - ran, now}), -1, true
	r.census.waits(now, shapeOf(r.jobs[i]))
	return ran, true
}

// shiftsOf returns the shifts of a job, the last one to its end.
func (r *run) shiftsOf(i int) []shift {
	l := &r.lives[i]
	all := l.stopped[:len(l.stopped):len(l.stopped)]
	if l.begun >= 0 {
		all = append(all, shift{l.begun, l.begun + r.toRun(i)})
	}
	return all
}

// waited is for how long a job waited: until it began, or, if it was stopped, all the time until its end in which its
// work did not go on. So nothing is gained in the figures by starting what is then stopped.
func (r *run) waited(i int) time.Duration {
	l, j := &r.lives[i], &r.jobs[i]
	if len(l.stopped) > 0 {
		return l.ended - j.Submit - j.Duration
	}
	return l.started - j.Submit
}

// stops sums up how often jobs were stopped, and the GPU-hours that were lost by it.
func (r *run) stops() (stops, gpuHours *float64) {
	stops, gpuHours = new(float64), new(float64)
	for i := range r.lives {
		l := &r.lives[i]
		*stops += float64(len(l.stopped))
		*gpuHours += l.lost.Hours() * float64(r.jobs[i].GPUs)
	}
	return stops, gpuHours
}

// stoppable says beside when what runs ends what a stop would cost.
type stoppable struct {
	policy.Ends
	runs *policy.Runs
	r    *run
}

// Running returns what is known of a job's attempt (policy.Stopper). An attempt that has yet to begin is left alone.
func (s stoppable) Running(job topology.JobID, nowNs int64) (preempt.Running, bool) {
	a, began := s.runs.Of(job)
	if a == nil {
		return preempt.Running{}, false
	}
	i := s.r.of(job)
	l := &s.r.lives[i]
	run := preempt.Running{
		Token: l.attempt, Priority: s.r.jobs[i].Priority, Room: a.Placement, Limit: a.Traits.Limit,
		Checkpoint: int64(s.r.o.Checkpoint), Grace: a.Grace, Fixed: began < 0, Times: l.inside, Rested: topology.Never,
	}
	if began >= 0 {
		run.Ran = nowNs - began
	}
	for _, o := range l.stopped {
		run.Had += int64(o.to - o.from)
		run.Rested = int64(s.r.w.Now() - s.r.began - o.to)
	}
	return run, true
}
