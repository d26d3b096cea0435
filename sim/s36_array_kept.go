package sim

import "github.com/yi-json/synapse/messages"

// arrayKept is S36: of an array no element is lost and none is a job twice; no more of them run at once than it says,
// and few are jobs that wait; and what its record says of an element is what that one's own record says. It is judged
// by the records as they were written, by which what is reserving still waits: so twice as many may.
type arrayKept struct {
	rule
	of map[string]*arraySeen
}

// arraySeen is what the store had of one array's elements.
type arraySeen struct {
	states  map[int32]messages.JobState // of those that are jobs, or were
	active  int
	waiting int
}

func newArrayKept() *arrayKept {
	return &arrayKept{rule: rule{"S36 array-kept", on{Stored}}, of: map[string]*arraySeen{}}
}

// Step looks at each record of an array, and of an element.
func (c *arrayKept) Step(w *World, e *Event) {
	job := e.Stored.job
	switch {
	case job == nil:
	case job.Spec.GetElement() != nil:
		c.element(w, e.Stored)
	case job.Spec.GetArray() != nil:
		c.array(w, job)
	}
}

func (c *arrayKept) seen(array string) *arraySeen {
	s := c.of[array]
	if s == nil {
		s = &arraySeen{states: map[int32]messages.JobState{}}
		c.of[array] = s
	}
	return s
}

func (s *arraySeen) count(state messages.JobState, by int) {
	switch state {
	case messages.JobState_JOB_STATE_QUEUED:
		s.waiting += by
	case messages.JobState_JOB_STATE_ACTIVE:
		s.active += by
	}
}

func (c *arrayKept) element(w *World, s *stored) {
	job := s.job
	array, index, _ := messages.ArrayOf(job.Id)
	page, seen := w.books.jobs[array], c.seen(array)
	if page == nil || page.record.Spec.GetArray().Place(index) < 0 && !page.record.State.Terminal() {
		c.violate(w, "%s is a job, and no array has it", job.Id)
		return
	}
	was, known := seen.states[index]
	if known && s.jobWas == nil && !w.books.turnedBack {
		c.violate(w, "%s is a job for the second time", job.Id)
	}
	if known {
		seen.count(was, -1)
	} else {
		w.count("array.elements", 1)
	}
	seen.states[index] = job.State
	seen.count(job.State, 1)
	if most := int(page.record.Spec.GetArray().GetMost()); most > 0 && seen.active > most && len(s.committed()) > 0 {
		c.violate(w, "%d elements of %s run, and %d may", seen.active, array, most)
	}
	if s.jobWas == nil && seen.waiting > 128 {
		c.violate(w, "%d elements of %s are jobs that wait", seen.waiting, array)
	}
}

// restored goes on from what the store has now: what came after is lost.
func (c *arrayKept) restored(w *World) {
	c.of = map[string]*arraySeen{}
	for _, id := range w.books.ids {
		page := w.books.jobs[id]
		if page == nil || page.record.Spec.GetElement() == nil && !page.record.State.Terminal() {
			continue
		}
		if array, index, is := messages.ArrayOf(id); is {
			seen := c.seen(array)
			seen.states[index] = page.record.State
			seen.count(page.record.State, 1)
		}
	}
}

func (c *arrayKept) array(w *World, job *messages.JobRecord) {
	spec, seen := job.Spec.GetArray(), c.seen(job.Id)
	all, ok := 0, 0
	for _, e := range job.GetArray().GetEnded() {
		for _, r := range e.Places {
			for place := int(r.First); place <= int(r.Last); place++ {
				index := spec.Index(place)
				state, born := seen.states[index]
				if all++; e.State == messages.JobState_JOB_STATE_SUCCEEDED {
					ok++
				}
				lost := w.books.dropped[messages.ElementID(job.Id, index)] || w.books.turnedBack
				if (e.Unborn == born || born && state != e.State) && !lost {
					c.violate(w, "%s says that its element %d ended as %v (unborn: %t), and that one is %v (a job: %t)",
						job.Id, index, e.State, e.Unborn, state, born)
				}
			}
		}
	}
	if !job.State.Terminal() {
		return
	}
	if all != spec.Len() || (job.State == messages.JobState_JOB_STATE_SUCCEEDED) != (ok == all) && job.Cancel == nil &&
		job.NeverMet() == "" {
		c.violate(w, "%s is over as %v, and %d of its %d elements are, %d of them well", job.Id, job.State, all, spec.Len(),
			ok)
	}
	w.count("array.over", 1)
}
