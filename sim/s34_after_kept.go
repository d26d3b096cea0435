package sim

import "github.com/yi-json/synapse/messages"

// afterKept is S34: nothing is committed before all jobs that it follows have ended as required, by their own records.
// A job's record agrees with the records of these jobs. Without a request, a job is cancelled only if one of them ended
// otherwise. The checker uses the records as they were written, and no actor's knowledge.
type afterKept struct {
	rule
	ended map[string]messages.JobState // as first recorded
}

func newAfterKept() *afterKept {
	return &afterKept{rule: rule{"S34 after-kept", on{Stored}}, ended: map[string]messages.JobState{}}
}

// Step checks each record of a job.
func (c *afterKept) Step(w *World, e *Event) {
	job := e.Stored.job
	if job == nil {
		return
	}
	if job.State.Terminal() {
		c.ended[job.Id] = job.State
	} else {
		delete(c.ended, job.Id) // the store was restored
	}
	committed := e.Stored.committed()
	met, never := true, false
	if array := w.books.jobs[job.Spec.GetElement().GetArray()]; array != nil && len(committed) > 0 {
		for _, a := range array.record.Spec.GetAfter() { // elements wait for the same jobs as their array
			met = met && c.met(w, a)
		}
	}
	for _, k := range job.GetAfterStarted() {
		if page := w.books.jobs[k.Job]; page != nil && !page.began {
			c.violate(w, "job %s records that job %s has started, but no attempt of that job has", job.Id, k.Job)
		}
	}
	for _, a := range job.Spec.GetAfter() {
		ended, _ := c.over(w, a.Job)
		known, isKnown := job.KnownOf(a.Job)
		if isKnown && known != ended && !w.books.gaveUp(a.Job) {
			c.violate(w, "job %s records that job %s ended as %v, but that job's record has %v", job.Id, a.Job, known, ended)
		}
		met = met && c.met(w, a)
		never = never || isKnown && !a.Meets(known)
	}
	if len(job.Spec.GetAfter()) > 0 && len(committed) > 0 {
		w.count("after.committed", 1)
	}
	switch was := e.Stored.jobWas; {
	case len(committed) > 0 && !met:
		c.violate(w, "job %s is committed, but must follow %v", job.Id, job.Spec.After)
	case job.State != messages.JobState_JOB_STATE_CANCELLED || job.Cancel != nil || was.GetState().Terminal():
	case messages.MissedDeadline(job.State, job.Cancel, job.Outcome):
		w.count("deadline.missed", 1)
	case !never:
		c.violate(w, "job %s is cancelled without a request: %s", job.Id, job.Outcome)
	default:
		w.count("after.cancelled", 1)
	}
}

// met reports whether an earlier job has ended or started as required. The elements of an array wait for those of
// another array by their own records.
func (c *afterKept) met(w *World, a *messages.After) bool {
	ended, over := c.over(w, a.Job)
	page := w.books.jobs[a.Job]
	return a.End == messages.AfterEnd_AFTER_END_ELEMENT || over && a.Meets(ended) ||
		a.End == messages.AfterEnd_AFTER_END_STARTED && page != nil && page.began
}

// over returns how a job has ended. A job that was given up because of a corrupted record has no known end.
func (c *afterKept) over(w *World, job string) (messages.JobState, bool) {
	ended, over := c.ended[job]
	array, index, is := messages.ArrayOf(job)
	if page := w.books.jobs[array]; is && !over && page != nil && page.record.State.Terminal() {
		ended, over = page.record.Array.Unborn(page.record.Spec.Array.Place(index))
	}
	return ended, over || w.books.gaveUp(job) || is && w.books.gaveUp(array)
}

// restored continues from the present store.
func (c *afterKept) restored(w *World) {
	c.ended = map[string]messages.JobState{}
	for _, id := range w.books.ids {
		if page := w.books.jobs[id]; page != nil && page.record.State.Terminal() {
			c.ended[id] = page.record.State
		}
	}
}

// Quiet looks for a waiting job whose dependencies have all ended.
func (c *afterKept) Quiet(w *World) {
	for _, id := range w.books.ids {
		job := w.books.jobs[id].record
		for _, a := range job.Awaits() {
			if page := w.books.jobs[a.Job]; a.End == messages.AfterEnd_AFTER_END_STARTED && page != nil && page.began &&
				!job.State.Terminal() {
				c.violate(w, "job %s waits for the start of job %s, which has started", id, a.Job)
			}
			if ended, over := c.over(w, a.Job); over && !job.State.Terminal() {
				c.violate(w, "job %s waits for job %s, which has ended as %v", id, a.Job, ended)
			}
		}
	}
}
