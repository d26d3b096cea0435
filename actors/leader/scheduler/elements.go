package scheduler

import (
	"cmp"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns how elements of arrays become jobs, and how their arrays are notified.

// heldBy returns the hold in every array's record. It stops leaders of an earlier version, which would run the array as
// one job.
func heldBy(nowUnixMs int64) *messages.Deed {
	return &messages.Deed{
		By: &messages.Principal{Name: "the scheduler"}, AtUnixMs: nowUnixMs,
		Reason: "arrays are not supported by this scheduler's version",
	}
}

// arrivedOf returns a job's position in the order of arrival. An element has the position of its array.
func arrivedOf(rec *messages.JobRecord) int64 {
	return int64(cmp.Or(rec.Spec.GetElement().GetArrival(), rec.Arrival))
}

// onSprout makes an element a job, unless it is or was one.
func (s *Scheduler) onSprout(ctx actor.Context, m protocol.Sprout) {
	of := m.Array
	id := topology.JobID(messages.ElementID(of.Id, m.Index))
	if e := s.jobs[id]; e != nil {
		s.tellArray(ctx, e)
		return
	}
	if s.damaged[id] != nil {
		s.toArray(ctx, of.Id, protocol.ElementMoved{Index: m.Index, Runs: true}) // until an operator gives it up
		return
	}
	spec := m.Spec
	e := &livingJob{
		jobRecord: jobRecord{id: id, key: requestKey{owner: of.Owner.GetName()}, element: true},
		ownUID:    ownUID{toCome: s.needsUID(spec)},
	}
	s.lives++
	s.arrival++
	spec.Element.Arrival = of.Arrival
	e.rec = &messages.JobRecord{
		Id: string(id), Revision: 1, WrittenBy: &messages.Token{Epoch: s.p.Epoch, Counter: s.lives << 32}, Spec: spec,
		Owner: of.Owner, SubmittedUnixMs: of.SubmittedUnixMs, Arrival: s.arrival,
		State: messages.JobState_JOB_STATE_QUEUED, UidToCome: e.toCome, Exempt: of.Exempt, MemoryByShare: of.MemoryByShare,
		LimitByDefault: of.LimitByDefault && spec.TimeLimitMs == of.Spec.TimeLimitMs, Sealed: of.Sealed,
	}
	s.jobs[id] = e
	ctx.Request(s.peers.Journal, protocol.Write{Lane: protocol.LaneDecisions, Change: actors.Change{Job: e.rec}, Tag: e})
}

// onProbe answers whether an element was a job under an earlier leader.
func (s *Scheduler) onProbe(ctx actor.Context, m protocol.Probe) {
	id := topology.JobID(messages.ElementID(string(m.Array), m.Index))
	switch e := s.jobs[id]; {
	case e != nil:
		s.tellArray(ctx, e)
	case s.damaged[id] != nil:
		s.toArray(ctx, string(m.Array), protocol.ElementMoved{Index: m.Index, Runs: true})
	default:
		s.ask(find{probed: &m}, actors.Query{Job: id})
	}
}

// onProbed passes the store's answer about an element on.
func (s *jobTable) onProbed(ctx actor.Context, m protocol.Probe, found actors.Found) {
	switch {
	case found.Err != "":
		s.p.Clock.After(s.p.Constants.JournalRetry, s.self, m)
	case found.Job == nil && found.Damaged == "" && !found.Pruned:
		if a := s.jobs[m.Array]; a != nil && a.pid != nil {
			ctx.Send(a.pid, protocol.ElementNever{Index: m.Index})
		}
	default:
		s.tellEnded(ctx, found.Query.Job, found.Job.GetState())
	}
}

// onSprouted handles the write of an element's first record. The store may already have a record with that ID.
func (s *Scheduler) onSprouted(ctx actor.Context, e *livingJob, m protocol.Written) {
	if m.Verdict != actors.Done {
		s.ask(find{element: e}, actors.Query{Job: e.id})
		return
	}
	s.embody(ctx, e, e.rec, nil)
	s.await(ctx, e, e.rec)
	s.idles(ctx, e, true)
}

// onElementFound continues with an element that was a job before.
func (s *Scheduler) onElementFound(ctx actor.Context, e *livingJob, m actors.Found) {
	switch {
	case m.Err != "":
		s.askLater(find{element: e}, m.Query)
	case m.Job != nil && !m.Job.State.Terminal():
		s.vanished("the actor of " + string(e.id))
	default:
		s.drop(ctx, e, nil)
		s.tellEnded(ctx, e.id, m.Job.GetState())
	}
}

// tellArray reports the state of an element to its array.
func (s *jobTable) tellArray(ctx actor.Context, e *livingJob) {
	if !e.element || e.pid == nil {
		return
	}
	if e.concluded != messages.JobState_JOB_STATE_UNSPECIFIED {
		s.tellEnded(ctx, e.id, e.concluded)
		return
	}
	array, index, _ := messages.ArrayOf(string(e.id))
	s.toArray(ctx, array, protocol.ElementMoved{Index: index, Runs: !e.idle, Held: e.heldBack && e.idle})
}

func (s *jobTable) tellEnded(ctx actor.Context, id topology.JobID, state messages.JobState) {
	array, index, _ := messages.ArrayOf(string(id))
	s.toArray(ctx, array, protocol.ElementMoved{Index: index, Over: true, State: state})
}

func (s *jobTable) toArray(ctx actor.Context, id string, m protocol.ElementMoved) {
	if a := s.jobs[topology.JobID(id)]; a != nil && a.pid != nil && a.rec.Spec.Array != nil {
		ctx.Send(a.pid, m)
	}
}

// tellElements reports all live elements to an array whose actor is new and knows none of them.
func (s *jobTable) tellElements(ctx actor.Context, array string) {
	for _, id := range slices.Sorted(maps.Keys(s.jobs)) {
		if of, _, is := messages.ArrayOf(string(id)); is && of == array {
			s.tellArray(ctx, s.jobs[id])
		}
	}
	s.toldAll(ctx, s.jobs[topology.JobID(array)], false)
}

// toldAll ends the report of live elements to an array's new actor.
func (s *jobTable) toldAll(ctx actor.Context, e *livingJob, fresh bool) {
	if e != nil && e.pid != nil && e.rec.Spec.Array != nil {
		ctx.Send(e.pid, protocol.ElementsTold{Fresh: fresh})
	}
}

// endOrphans cancels the elements of arrays that the store has deleted, because giving up an array includes its
// elements. The leader calls it when an array is given up, and after a takeover, in case the last leader died before
// the cancel.
func (s *jobTable) endOrphans(ctx actor.Context) {
	for _, id := range slices.Sorted(maps.Keys(s.jobs)) {
		e := s.jobs[id]
		array, _, is := messages.ArrayOf(string(id))
		of := topology.JobID(array)
		if is && e.element && e.pid != nil && s.jobs[of] == nil && s.damaged[of] == nil {
			ctx.Request(e.pid, &messages.Cancel{
				Principal: &messages.Principal{Name: "the scheduler"}, Job: string(id),
				Reason: "array was given up: its record was corrupted",
			})
		}
	}
}

// arrayFor returns the array of an element that is not a job. It returns nil if there is no such array.
func (s *jobTable) arrayFor(id string) *livingJob {
	array, index, is := messages.ArrayOf(id)
	if a := s.jobs[topology.JobID(array)]; is && a != nil && a.rec.Spec.GetArray().Place(index) >= 0 {
		return a
	}
	return nil
}

// The rest of this file owns the concurrency limit of arrays. A waiting element is in the queue only if the limit
// leaves a place for it. Otherwise it is set aside, and no pass considers it. The Array cannot enforce the limit alone:
// it creates no more jobs than may run, but existing jobs stay when the limit is lowered. A released element may return
// when others have taken its place.

// throttle holds the elements of one array that have a place within its concurrency limit.
type throttle struct {
	most   int // limit; 0: none
	placed map[topology.JobID]*livingJob
	aside  []*livingJob // elements that wait for a place, in order
}

// throttleOf returns the throttle of an array, and creates it if needed.
func (s *jobTable) throttleOf(array string) *throttle {
	t := s.throttles[topology.JobID(array)]
	if t == nil {
		t = &throttle{placed: map[topology.JobID]*livingJob{}}
		s.throttles[topology.JobID(array)] = t
	}
	return t
}

// takesPlace gives a waiting element a place within the limit, or sets it aside and returns false. A job that is not an
// element needs no place.
func (s *jobTable) takesPlace(e *livingJob, m protocol.Waits) bool {
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

// turnOrder compares elements of one array by priority, then by index.
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

// keepsPlace gives a place to an element that ran under the last leader. A waiting element sends Waits instead.
func (s *jobTable) keepsPlace(e *livingJob) {
	if e.element && e.rec.State == messages.JobState_JOB_STATE_ACTIVE {
		array, _, _ := messages.ArrayOf(string(e.id))
		s.throttleOf(array).placed[e.id] = e
	}
}

// leavesPlace frees the place of an element that neither runs nor waits, and gives it to the next one.
func (s *Scheduler) leavesPlace(ctx actor.Context, e *livingJob) {
	array, _, _ := messages.ArrayOf(string(e.id))
	if t := s.throttles[topology.JobID(array)]; t != nil && e.element {
		t.remove(e)
		s.letIn(ctx, t)
	}
}

// letIn puts elements into the queue for which there are places.
func (s *Scheduler) letIn(ctx actor.Context, t *throttle) {
	for len(t.aside) > 0 && (t.most == 0 || len(t.placed) < t.most) {
		e := t.aside[0]
		t.aside = t.aside[1:]
		s.onWaits(ctx, e.wish)
	}
}

// onAllows applies a changed limit. Running elements keep their places. If there are too many queued elements, the last
// ones are set aside.
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
		s.takesPlace(e, e.wish) // there is no place
	}
	s.letIn(ctx, t)
}

// Allows returns the concurrency limit of an array, as the Scheduler knows it; 0 means no limit.
func (s *jobTable) Allows(array topology.JobID) int {
	if t := s.throttles[array]; t != nil {
		return t.most
	}
	return 0
}

// onHeldBack frees the place of a held element, here and in its array.
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
