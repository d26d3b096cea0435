package sim

import (
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file simulates a world full of arrays. Their elements are short and small. Clients hold, release, cancel and
// change arrays and elements while leaders come and go. They do so before and after the elements become jobs.

// arriveArrays schedules the submit of every array of the run.
func (w *World) arriveArrays() {
	for range w.draw.Arrays {
		w.engine.after(w.jobs.between(3*time.Second, w.draw.Load), w.submitArray)
	}
}

func (w *World) submitArray() {
	if w.oldVersion() != nil {
		return
	}
	s, spec := w.jobs, w.smallSpec()
	run := script{run: s.skewed(100*time.Millisecond, w.draw.LongestRun), rank: -1}
	if s.chance(0.2) {
		run.exit, run.runs = 1, int32(s.below(2))
	}
	spec.Each = &messages.Resources{MilliCpu: 9000, MemoryBytes: 1 << 30, MilliGpu: 250 * int64(s.below(2))}
	spec.Command, spec.Script, spec.GpuType, spec.Exclude = run.command(), nil, "", nil
	spec.Restart.Limit = min(spec.Restart.Limit, 1)
	spec.Array = w.drawnArray()
	if n := len(w.client.jobs); s.chance(0.2) && n > 0 {
		if o := w.client.jobs[s.below(n)]; o.id != "" {
			after := &messages.After{Job: o.id, End: messages.AfterEnd_AFTER_END_ANY}
			if o.spec.Array != nil && n%2 == 0 {
				after.End = messages.AfterEnd_AFTER_END_ELEMENT
				spec.Array = copyOf(o.spec).Array
			}
			spec.After = []*messages.After{after}
		}
	}
	o := w.client.submit(spec)
	for range s.below(6) {
		w.later(s.between(0, 3*w.draw.LongestRun), func() { w.meddle(o) })
	}
}

// drawnArray returns an array with a few dozen indices, evenly spaced or not.
func (w *World) drawnArray() *messages.ArraySpec {
	s := w.jobs
	first := int32(s.below(3))
	a := &messages.ArraySpec{Indices: []*messages.IndexRange{{First: first, Last: first + int32(s.below(24))}}}
	if s.chance(0.2) { // more elements than may wait as jobs
		a.Indices[0].Last += int32(s.below(90))
	}
	if s.chance(0.3) {
		a.Indices = append(a.Indices, &messages.IndexRange{First: 200, Last: 200 + int32(s.below(20)), Step: 2})
	}
	if s.chance(0.6) {
		a.Most = int32(1 + s.below(12))
	}
	return a
}

// meddle sends a random request about an array or one of its elements.
func (w *World) meddle(o *Order) {
	s, of := w.jobs, o
	if s.chance(0.6) {
		a := o.spec.Array
		of = &Order{id: messages.ElementID(o.id, a.Index(s.below(a.Len())))}
	}
	if o.id == "" {
		return
	}
	soon := s.between(time.Second, w.draw.LongestRun)
	switch s.below(8) {
	case 0:
		w.client.cancel(of)
	case 1, 2:
		w.client.hold(of, false)
		w.later(soon, func() { w.client.hold(of, true) })
	case 3:
		w.client.hold(o, false)
		w.later(soon, func() { w.client.hold(of, true) })
		w.later(2*soon, func() { w.client.hold(o, true) })
	case 4:
		w.client.requeue(of)
	case 5:
		w.client.update(o, &messages.Update{SetArrayMost: true, ArrayMost: int32(s.below(9))})
	default:
		w.client.update(of, &messages.Update{
			SetPriority: s.chance(0.7), Priority: int32(s.below(5)), SetTimeLimit: true,
			TimeLimitMs: s.between(w.draw.LongestRun/4, 2*w.draw.LongestRun).Milliseconds(),
		})
	}
}

// later calls do after a delay. It does not call do once the run checks the world at rest.
func (w *World) later(d time.Duration, do func()) {
	w.engine.after(d, func() {
		if !w.resting {
			do()
		}
	})
}

// standsAside reports whether an element may have to wait for other elements of its array. This is so if the limit of
// running elements is reached by jobs that are not held.
func (w *World) standsAside(r *messages.JobRecord) bool {
	array := w.books.jobs[r.Spec.GetElement().GetArray()]
	if array == nil {
		return false
	}
	spec, others := array.record.Spec.Array, int32(0)
	for place := 0; spec.Most > 0 && place < spec.Len(); place++ {
		o := w.books.jobs[messages.ElementID(array.record.Id, spec.Index(place))]
		if o != nil && o.record.Id != r.Id && !o.record.State.Terminal() && o.record.Hold == nil {
			others++
		}
	}
	return spec.Most > 0 && others >= spec.Most
}
