package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// arrayKept is S36: no element of an array is lost, and none becomes two jobs. The number of running elements stays
// within the array's limit, and few elements are waiting jobs. The array's record agrees with each element's record. An
// acknowledged request about the whole array is on disk for each element that is a job. The checker uses the records as
// written, in which a reserving job still waits. So it allows twice the number of waiting jobs.
type arrayKept struct {
	rule
	of      map[string]*arraySeen
	changed map[string]instant // when a client last sent a request about an array or one of its elements
}

// arraySeen holds the store's last state of one array's elements.
type arraySeen struct {
	states  map[int32]messages.JobState // elements that are jobs, or were
	held    map[int32]bool              // elements of these that wait for their release
	active  int
	waiting int     // waiting elements that are not held
	most    int32   // limit of running elements in the array's record
	lowered instant // when the limit was last lowered; elements on their way to a node may still run
}

func newArrayKept() *arrayKept {
	return &arrayKept{
		rule: rule{"S36 array-kept", on{Stored, Sent, Led}}, of: map[string]*arraySeen{}, changed: map[string]instant{},
	}
}

// Step checks each record of an array and of an element, and each answer about arrays.
func (c *arrayKept) Step(w *World, e *Event) {
	switch e.Kind {
	case Sent:
		c.onSaid(w, e.Message)
		return
	case Led:
		for _, s := range c.of { //order: only counted
			if s.active+s.waiting > 0 {
				w.count("array.overtaken", 1)
			}
		}
		return
	}
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
		s = &arraySeen{states: map[int32]messages.JobState{}, held: map[int32]bool{}}
		c.of[array] = s
	}
	return s
}

// see replaces the counts of an element's former state by its present state.
func (s *arraySeen) see(index int32, job *messages.JobRecord) {
	s.count(s.states[index], s.held[index], -1)
	s.states[index], s.held[index] = job.State, job.Hold != nil
	s.count(job.State, job.Hold != nil, 1)
}

func (s *arraySeen) forget(index int32) {
	s.count(s.states[index], s.held[index], -1)
	delete(s.states, index)
	delete(s.held, index)
}

func (s *arraySeen) count(state messages.JobState, held bool, by int) {
	switch {
	case state == messages.JobState_JOB_STATE_QUEUED && !held:
		s.waiting += by
	case state == messages.JobState_JOB_STATE_ACTIVE:
		s.active += by
	}
}

// throttle notes a new limit of running elements.
func (s *arraySeen) throttle(w *World, most int32) {
	if was := s.most; most > 0 && (was == 0 || most < was) && len(s.states) > 0 {
		s.lowered = w.engine.now
	}
	s.most = most
}

func (c *arrayKept) element(w *World, s *stored) {
	job := s.job
	array, index, _ := messages.ArrayOf(job.Id)
	page, seen := w.books.jobs[array], c.seen(array)
	if w.books.gaveUp(array) {
		if since := w.engine.now.since(w.books.dropped[array]); len(s.committed()) > 0 && since > 2*time.Minute {
			c.violate(w, "element %s is committed %s after its array was given up", job.Id, since)
		}
		return
	}
	if page == nil || page.record.Spec.GetArray().Place(index) < 0 && !page.record.State.Terminal() {
		c.violate(w, "element %s is a job, but no array has it", job.Id)
		return
	}
	_, known := seen.states[index]
	if known && s.jobWas == nil {
		c.violate(w, "element %s became a job for the second time", job.Id)
	}
	if !known {
		w.count("array.elements", 1)
	}
	seen.see(index, job)
	for index := range seen.states { //order: each is looked at alone
		if w.books.gaveUp(messages.ElementID(array, index)) {
			seen.forget(index)
		}
	}
	if most := int(page.record.Spec.GetArray().GetMost()); most > 0 && seen.active > most && len(s.committed()) > 0 &&
		(seen.lowered == 0 || s.decided.since(seen.lowered) > c.lag(w, array, most)) {
		c.violate(w, "%d elements of array %s run, but %d may", seen.active, array, most)
	}
	if s.jobWas == nil && seen.waiting > 128 {
		c.violate(w, "%d elements of array %s are waiting jobs, which is too many", seen.waiting, array)
	}
}

// lag returns for how long after a lowered limit another element may be committed. The element was planned before its
// leader learned of the limit. After minutes, the leader should have learned of it.
func (c *arrayKept) lag(w *World, array string, most int) time.Duration {
	if p := w.leader(); p != nil && p.leader != nil && p.leader.Allows(topology.JobID(array)) != most {
		return 3 * time.Minute
	}
	return fresh
}

// restored continues from the present store.
func (c *arrayKept) restored(w *World) {
	c.of = map[string]*arraySeen{}
	for _, id := range w.books.ids {
		page := w.books.jobs[id]
		if page == nil || page.record.Spec.GetElement() == nil && !page.record.State.Terminal() {
			continue
		}
		if array, index, is := messages.ArrayOf(id); is {
			c.seen(array).see(index, page.record)
		}
	}
}

func (c *arrayKept) array(w *World, job *messages.JobRecord) {
	spec, seen := job.Spec.GetArray(), c.seen(job.Id)
	seen.throttle(w, spec.Most)
	all, ok := 0, 0
	for _, e := range job.GetArray().GetEnded() {
		for _, r := range e.Places {
			for place := int(r.First); place <= int(r.Last); place++ {
				index := spec.Index(place)
				state, born := seen.states[index]
				if all++; e.State == messages.JobState_JOB_STATE_SUCCEEDED {
					ok++
				}
				lost := w.books.gaveUp(messages.ElementID(job.Id, index))
				if (e.Unborn == born || born && state != e.State) && !lost {
					c.violate(w, "array %s records that element %d ended as %v (never a job: %t), but the element is %v (a job: %t)",
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
		c.violate(w, "array %s has finished as %v, but %d of its %d elements have, %d of them with success",
			job.Id, job.State, all, spec.Len(),
			ok)
	}
	w.count("array.over", 1)
}

// onSaid checks that an answer about a whole array is true for each element that is a waiting job. An element that is
// being ended for its time limit is not changed. The check is skipped if another client interfered.
func (c *arrayKept) onSaid(w *World, message messages.Message) {
	var job string
	switch m := message.(type) {
	case *messages.Hold:
		c.asked(w, m.Job)
		return
	case *messages.Requeue:
		c.asked(w, m.Job)
		return
	case *messages.Update:
		c.asked(w, m.Job)
		return
	case *messages.HoldReply:
		job = m.Job
	case *messages.UpdateReply:
		job = m.Job
	}
	page := w.books.jobs[job]
	if page == nil || page.record.Spec.GetArray() == nil || page.record.State.Terminal() ||
		!settledWell(message) {
		return
	}
	for _, a := range w.client.asks { //order: each by itself
		if of := arrayOf(a.message); of != job || a.since != c.changed[job] || a.sent > 1 || !answers(message, a.message) {
			continue
		}
		for index, state := range c.seen(job).states { //order: each by itself
			each := w.books.jobs[messages.ElementID(job, index)]
			if each != nil && state == messages.JobState_JOB_STATE_QUEUED && !hasIt(a.message, each.record) {
				c.violate(w, "a client got the answer that all elements of %s have the change of %T, but element %d does not",
					job, a.message,
					index)
			}
		}
	}
}

func (c *arrayKept) asked(w *World, job string) {
	if array, _, is := messages.ArrayOf(job); is {
		job = array
	}
	c.changed[job] = w.engine.now
}

func settledWell(message messages.Message) bool {
	m, is := message.(interface{ GetOutcome() *messages.Outcome })
	return is && m.GetOutcome().GetCode() == messages.Code_CODE_OK
}

// answers reports whether a message is an answer to such a request.
func answers(message, question messages.Message) (does bool) {
	switch question.(type) {
	case *messages.Hold:
		_, does = message.(*messages.HoldReply)
	case *messages.Update:
		_, does = message.(*messages.UpdateReply)
	}
	return does
}

// arrayOf returns the array that a request is about as a whole, or an empty string.
func arrayOf(question messages.Message) string {
	switch m := question.(type) {
	case *messages.Hold:
		return m.Job
	case *messages.Update:
		return m.Job
	}
	return ""
}

// hasIt reports whether a job is held, released or changed as requested.
func hasIt(question messages.Message, job *messages.JobRecord) bool {
	switch m := question.(type) {
	case *messages.Hold:
		return (job.Hold != nil) != m.Release
	case *messages.Update:
		return !m.SetPriority || job.Spec.Priority == m.Priority
	}
	return true
}
