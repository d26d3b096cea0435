package sim

import "github.com/yi-json/synapse/messages"

// afterKept is S34: nothing is committed before all that it is to run after have ended as they were to, by their own
// records; what its record says of them is what theirs say; and only a job for which one of them has ended otherwise is
// cancelled without anybody's word. It is judged by what was read of the store as it was written, not by what any actor
// knows.
type afterKept struct {
	rule
	ended map[string]messages.JobState // as a record said first
}

func newAfterKept() *afterKept {
	return &afterKept{rule: rule{"S34 after-kept", on{Stored}}, ended: map[string]messages.JobState{}}
}

// Step looks at each record of a job.
func (c *afterKept) Step(w *World, e *Event) {
	job := e.Stored.job
	if job == nil {
		return
	}
	if job.State.Terminal() {
		c.ended[job.Id] = job.State
	} else {
		delete(c.ended, job.Id) // the store was put back
	}
	committed := e.Stored.committed()
	met, never := true, false
	if array := w.books.jobs[job.Spec.GetElement().GetArray()]; array != nil && len(committed) > 0 {
		for _, a := range array.record.Spec.GetAfter() { // what an array waits for its elements do
			ended, over := c.over(w, a.Job)
			met = met && over && a.Meets(ended)
		}
	}
	for _, a := range job.Spec.GetAfter() {
		ended, over := c.over(w, a.Job)
		known, isKnown := job.KnownOf(a.Job)
		if isKnown && known != ended && !w.books.gaveUp(a.Job) {
			c.violate(w, "%s knows that %s has ended as %v, and its record says %v", job.Id, a.Job, known, ended)
		}
		met = met && over && a.Meets(ended)
		never = never || isKnown && !a.Meets(known)
	}
	if len(job.Spec.GetAfter()) > 0 && len(committed) > 0 {
		w.count("after.committed", 1)
	}
	switch was := e.Stored.jobWas; {
	case len(committed) > 0 && !met:
		c.violate(w, "%s is committed, and is to run after %v", job.Id, job.Spec.After)
	case job.State != messages.JobState_JOB_STATE_CANCELLED || job.Cancel != nil || was.GetState().Terminal():
	case !never:
		c.violate(w, "%s is cancelled, and nobody asked for it: %s", job.Id, job.Outcome)
	default:
		w.count("after.cancelled", 1)
	}
}

// over is how a job has ended. One that was given up, because its record was damaged, has ended in no known way.
func (c *afterKept) over(w *World, job string) (messages.JobState, bool) {
	ended, over := c.ended[job]
	return ended, over || w.books.gaveUp(job)
}

// restored goes on from what the store has now.
func (c *afterKept) restored(w *World) {
	c.ended = map[string]messages.JobState{}
	for _, id := range w.books.ids {
		if page := w.books.jobs[id]; page != nil && page.record.State.Terminal() {
			c.ended[id] = page.record.State
		}
	}
}

// Quiet misses a job that nothing holds any more: what it waited for has ended.
func (c *afterKept) Quiet(w *World) {
	for _, id := range w.books.ids {
		job := w.books.jobs[id].record
		for _, a := range job.Awaits() {
			if ended, over := c.over(w, a.Job); over && !job.State.Terminal() {
				c.violate(w, "%s waits for %s, which has ended as %v", id, a.Job, ended)
			}
		}
	}
}
