package replay

import (
	"fmt"
	"time"

	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/policy/preempt"
	"github.com/yi-json/synapse/topology"
)

// This file measures preempted jobs: their saved work, their lost work, and what a planner knows about possible
// victims.

// resuming is the time to continue from the last checkpoint.
const resuming = time.Minute

// shifts holds the attempts of a job that may be preempted. The job waits until all its work is done. Run time in
// excess of its work was lost.
type shifts struct {
	begun   time.Duration // when all of its latest attempt ran; negative: not running
	again   bool          // it was preempted, and waits
	stopped []shift
	inside  int           // preemptions for jobs of the same queue
	saved   time.Duration // saved part of its work
	lost    time.Duration
}

// shift is the time in which all members of an attempt ran.
type shift struct{ from, to time.Duration }

// toRun returns how long an attempt runs that continues from the saved work.
func (r *run) toRun(i int) time.Duration {
	l, left := &r.lives[i], r.jobs[i].Duration
	if left -= l.saved; len(l.stopped) > 0 {
		left += resuming
	}
	return left
}

// ends notes that no task of a job runs any more. It returns how long its attempt ran and whether the job was
// preempted.
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
		r.broken = fmt.Errorf("the job of line %d was preempted after %s, but no start guarantee names it",
			r.jobs[i].Line, ran)
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

// waited returns how long a job waited: until it began, or for a preempted job, all the time in which its work made no
// progress. So a policy gains nothing by starting jobs that it then preempts.
func (r *run) waited(i int) time.Duration {
	l, j := &r.lives[i], &r.jobs[i]
	if len(l.stopped) > 0 {
		return l.ended - j.Submit - j.Duration
	}
	return l.started - j.Submit
}

// stops returns the number of preemptions and the GPU-hours lost by them.
func (r *run) stops() (stops, gpuHours *float64) {
	stops, gpuHours = new(float64), new(float64)
	for i := range r.lives {
		l := &r.lives[i]
		*stops += float64(len(l.stopped))
		*gpuHours += l.lost.Hours() * float64(r.jobs[i].GPUs)
	}
	return stops, gpuHours
}

// stoppable adds the cost of a preemption to the expected ends of running jobs.
type stoppable struct {
	policy.Ends
	runs *policy.Runs
	r    *run
}

// Running returns the known facts about a job's attempt (policy.Stopper). It excludes an attempt that has not yet
// begun.
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
