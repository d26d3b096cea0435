package scheduler

import (
	"cmp"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns that no more of an array's elements run at once than it says. An element that waits is in the queue
// only while there is a place for it among those; else it stands aside, and no pass sees it. The array alone could not
// see to that: it makes no more jobs than may run, but those that it has made stay jobs when it is given less, and one
// that was held comes back when others have taken its turn.

// throttle is who of one array's elements has a place.
type throttle struct {
	most   int // places; 0: any number
	placed map[topology.JobID]*livingJob
	aside  []*livingJob // that wait for a place, in order
}

// throttleOf is that of an array, begun where there is none.
func (s *Scheduler) throttleOf(array string) *throttle {
	t := s.throttles[topology.JobID(array)]
	if t == nil {
		t = &throttle{placed: map[topology.JobID]*livingJob{}}
		s.throttles[topology.JobID(array)] = t
	}
	return t
}

// takesPlace gives an element that begins to wait a place among those that may run, or has it stand aside: false. A
// job that is no element needs none.
func (s *Scheduler) takesPlace(e *livingJob, m protocol.Waits) bool {
	if !e.element {
		return true
	}
	array, _, _ := messages.ArrayOf(string(e.id))
	t := s.throttleOf(array)
	t.remove(e)
	e.wish = m
	if t.most > 0 && len(t.placed) >= t.most {
		at, _ := slices.BinarySearchFunc(t.aside, e, turnOrder)
		t.aside = slices.Insert(t.aside, at, e)
		return false
	}
	t.placed[e.id] = e
	return true
}

// turnOrder is the order in which elements of one array come: by priority, then by index.
func turnOrder(a, b *livingJob) int {
	_, i, _ := messages.ArrayOf(string(a.id))
	_, k, _ := messages.ArrayOf(string(b.id))
	return cmp.Or(cmp.Compare(b.wish.Record.GetSpec().GetPriority(), a.wish.Record.GetSpec().GetPriority()),
		cmp.Compare(i, k))
}

func (t *throttle) remove(e *livingJob) {
	delete(t.placed, e.id)
	t.aside = slices.DeleteFunc(t.aside, func(o *livingJob) bool { return o == e })
}

// keepsPlace notes an element that ran under the last leader. One that waited says so.
func (s *Scheduler) keepsPlace(e *livingJob) {
	if e.element && e.rec.State == messages.JobState_JOB_STATE_ACTIVE {
		array, _, _ := messages.ArrayOf(string(e.id))
		s.throttleOf(array).placed[e.id] = e
	}
}

// leavesPlace has the next one come where an element runs no more, and does not wait.
func (s *Scheduler) leavesPlace(ctx actor.Context, e *livingJob) {
	array, _, _ := messages.ArrayOf(string(e.id))
	if t := s.throttles[topology.JobID(array)]; t != nil && e.element {
		t.remove(e)
		s.letIn(ctx, t)
	}
}

// letIn puts those into the queue for whom there is a place by now.
func (s *Scheduler) letIn(ctx actor.Context, t *throttle) {
	for len(t.aside) > 0 && (t.most == 0 || len(t.placed) < t.most) {
		e := t.aside[0]
		t.aside = t.aside[1:]
		s.onWaits(ctx, e.wish)
	}
}

// onAllows goes by another number of places. Who runs keeps his; of those in the queue the last ones stand aside.
func (s *Scheduler) onAllows(ctx actor.Context, m protocol.Allows) {
	t := s.throttleOf(string(m.Array))
	t.most = int(m.Most)
	var waiting []*livingJob
	for _, e := range t.placed { //order: sorted below
		if e.idle {
			waiting = append(waiting, e)
		}
	}
	slices.SortFunc(waiting, turnOrder)
	for n := len(waiting); n > 0 && t.most > 0 && len(t.placed) > t.most; n-- {
		e := waiting[n-1]
		s.withdrawn(ctx, e)
		s.takesPlace(e, e.wish) // there is none
	}
	s.letIn(ctx, t)
}

// Allows is how many elements of an array may run at once, as the Scheduler knows it; 0: any number.
func (s *Scheduler) Allows(array topology.JobID) int {
	if t := s.throttles[array]; t != nil {
		return t.most
	}
	return 0
}

// onHeldBack has an element that is held take no place, here and with its array.
func (s *Scheduler) onHeldBack(ctx actor.Context, m protocol.HeldBack) {
	e := s.jobs[m.Job]
	if e == nil || e.pid == nil || e.remakes {
		return
	}
	e.heldBack = true
	s.leavesPlace(ctx, e)
	s.idles(ctx, e, true)
	s.tellArray(ctx, e)
}
