package sim

import (
	"slices"

	"github.com/yi-json/synapse/messages"
)

// once is L11. It covers each element of an array and each job that follows others. Each runs until it has succeeded.
// It runs again only after an end that allows another attempt, and never if the job allows no second attempt. It does
// not run if its dependency cannot be met. When all is at rest, no such job is left that should have run and never did.
type once struct {
	rule
	runs map[string]*runsOfJob
}

// runsOfJob holds the attempts of one such job.
type runsOfJob struct {
	commits, failed int32
	last            messages.Cause // cause of the attempt that ended last
}

func newOnce() *once { return &once{rule{"L11 once", on{Stored}}, map[string]*runsOfJob{}} }

// runsOnce reports whether a job is an element of an array, follows others, or allows no second attempt. An array does
// not run itself. Its elements do.
func runsOnce(spec *messages.JobSpec) bool {
	return spec.GetArray() == nil &&
		(spec.GetElement() != nil || len(spec.GetAfter()) > 0 || spec.GetRestart().GetNever())
}

// restored starts again with the records of the store, because attempts that the store has lost may run once more.
func (c *once) restored(w *World) {
	clear(c.runs)
	for _, id := range w.books.ids {
		page := w.books.jobs[id]
		if !runsOnce(page.record.Spec) {
			continue
		}
		r := &runsOfJob{commits: int32(len(page.tokens))}
		for _, a := range w.books.attemptsOf(page) {
			r.ends(a)
		}
		c.runs[id] = r
	}
}

// ends notes an attempt that may have ended.
func (r *runsOfJob) ends(a *messages.AttemptRecord) {
	if a.End == nil {
		return
	}
	r.last = a.End.Cause
}

func (c *once) Step(w *World, e *Event) {
	s := e.Stored
	if s.job == nil || !runsOnce(s.job.Spec) {
		return
	}
	r := c.runs[s.job.Id]
	if r == nil {
		r = &runsOfJob{}
		c.runs[s.job.Id] = r
	}
	for i, a := range s.attempts {
		if s.attemptsWere[i] == nil {
			r.failed = failuresOf(w, s.page, a)
			if r.commits++; r.isLast(s.job) {
				c.violate(w, "job %s is committed again, although its last attempt ended by %v after %d failures", s.job.Id, r.last,
					r.failed)
			}
			c.second(w, s, a)
		}
		if s.attemptsWere[i].GetEnd() == nil {
			r.ends(a)
		}
	}
}

// second checks that a job which allows no second attempt gets none after an attempt that may have run a task.
func (c *once) second(w *World, s *stored, now *messages.AttemptRecord) {
	if !s.job.Spec.GetRestart().GetNever() {
		return
	}
	w.count("once.never", 1)
	for _, a := range w.books.attemptsOf(s.page) {
		if a.Run < now.Run && a.MayHaveRun() {
			c.violate(w, "job %s allows no second attempt: attempt %d may have run, and attempt %d is committed",
				s.job.Id, a.Run,
				now.Run)
		}
	}
}

// isLast reports whether no attempt may follow the one that ended last.
func (r *runsOfJob) isLast(job *messages.JobRecord) bool {
	final := []messages.Cause{
		messages.Cause_CAUSE_SUCCEEDED, messages.Cause_CAUSE_CANCELLED, messages.Cause_CAUSE_TIME_LIMIT,
	}
	return slices.Contains(final, r.last) || r.failed > job.Spec.GetRestart().GetLimit()
}

// Quiet checks that no job ran too rarely or without permission.
func (c *once) Quiet(w *World) {
	for _, id := range sortedKeys(c.runs) {
		page := w.books.jobs[id]
		if w.books.gaveUp(id) {
			continue
		}
		r, job := c.runs[id], page.record
		if w.count("once.jobs", 1); job.Spec.GetElement() != nil {
			w.count("once.elements", 1)
		}
		switch never := job.State == messages.JobState_JOB_STATE_CANCELLED && job.Cancel == nil; {
		case never && r.commits > 0:
			c.violate(w, "job %s has run %d times, although the job it follows ended otherwise", id, r.commits)
		case job.State != messages.JobState_JOB_STATE_CANCELLED && r.commits == 0:
			c.violate(w, "job %s is %v and never ran", id, job.State)
		}
	}
}
