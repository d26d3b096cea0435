package messages

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"
)

// This file owns what a queue asks of the jobs that come into it, and what it gives them. What a queue does not say is
// its parent's. A queue that nobody described asks for nothing.

// QueueTerms holds the requirements and defaults of a queue for its jobs.
type QueueTerms struct {
	Queue           string
	DefaultLimitMs  *int64 // of jobs that name none; 0: none at all
	MostLimitMs     int64  // 0: any
	DefaultPriority int32
	MostPriority    *int32
	Selector        []*Label
	above           []*QueueSpec // the queue and those above it
}

// TermsOf are the terms of a queue; with an empty name, of jobs that name none.
func (x *Queues) TermsOf(queue string) QueueTerms {
	t := QueueTerms{Queue: cmp.Or(queue, x.GetDefault())}
	t.above = x.above(t.Queue)
	t.DefaultLimitMs = nearest(t.above, func(q *QueueSpec) *int64 { return q.DefaultLimitMs })
	t.MostPriority = nearest(t.above, func(q *QueueSpec) *int32 { return q.MostPriority })
	if most := nearest(t.above, func(q *QueueSpec) *int64 { return q.MostLimitMs }); most != nil {
		t.MostLimitMs = *most
	}
	if usual := nearest(t.above, func(q *QueueSpec) *int32 { return q.DefaultPriority }); usual != nil {
		t.DefaultPriority = *usual
	}
	for i := len(t.above) - 1; i >= 0; i-- {
		if s := t.above[i].GetSelector(); len(s) > 0 {
			t.Selector = s
		}
	}
	return t
}

// Selected is a spec with the labels that the queue asks machines for beside its own.
func (t *QueueTerms) Selected(spec *JobSpec) *JobSpec {
	with := spec
	for _, l := range t.Selector {
		if _, ok := LabelOf(spec.GetNodeSelector(), l.GetKey()); ok {
			continue
		}
		if with == spec {
			with = proto.Clone(spec).(*JobSpec)
		}
		with.NodeSelector = append(with.NodeSelector, l)
	}
	return with
}

// LabelOf is the label of a key, of which there is one at most; false: there is none.
func LabelOf(labels []*Label, key string) (*Label, bool) {
	for _, l := range labels {
		if l.GetKey() == key {
			return l, true
		}
	}
	return nil, false
}

// above is a queue and all those above it, the nearest first.
func (x *Queues) above(name string) (all []*QueueSpec) {
	for name != "" && len(all) <= len(x.GetQueues()) { // a circle is refused where queues are applied
		was := len(all)
		for _, q := range x.GetQueues() {
			if q.GetName() == name {
				all = append(all, q)
				name = q.GetParent()
				break
			}
		}
		if len(all) == was {
			return all
		}
	}
	return all
}

// nearest is the first of these queues' answers.
func nearest[T any](above []*QueueSpec, of func(*QueueSpec) *T) *T {
	for _, q := range above {
		if own := of(q); own != nil {
			return own
		}
	}
	return nil
}

// Under puts a queue without a name above all others, whose limits of one owner hold for all of that owner's jobs.
func (t *QueueTerms) Under(root *QueueSpec) {
	t.above = append(t.above, root)
}

// OverWaiting is the first queue, from this one upwards, in which one more job would be too many of an owner who has
// so many waiting in each queue; nil: none.
func (t *QueueTerms) OverWaiting(x *Queues, has map[string]int) (over *QueueSpec, waiting int) {
	for _, q := range t.above {
		if q.OwnerWaiting == nil {
			continue
		}
		n := 0
		for name, jobs := range has { //order: a sum
			if q.GetName() == "" || slices.Contains(x.above(cmp.Or(name, x.GetDefault())), q) {
				n += jobs
			}
		}
		if int64(n) >= *q.OwnerWaiting {
			return q, n
		}
	}
	return nil, 0
}
