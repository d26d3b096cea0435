package messages

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"
)

// This file has the requirements of a queue for its jobs, and the defaults. A queue inherits missing values from its
// parent. A queue without configuration requires nothing.

// QueueTerms holds the requirements and defaults of a queue for its jobs.
type QueueTerms struct {
	Queue           string
	DefaultLimitMs  *int64 // time limit of jobs that request none; 0: no limit
	MostLimitMs     int64  // 0: unlimited
	MostGraceMs     *int64 // longest time to save a checkpoint; nil: only the general maximum
	DefaultPriority int32
	MostPriority    *int32
	Selector        []*Label
	above           []*QueueSpec // the queue and its ancestors, nearest first
}

// TermsOf returns the terms of a queue. An empty name is the queue of jobs that name none.
func (x *Queues) TermsOf(queue string) QueueTerms {
	t := QueueTerms{Queue: cmp.Or(queue, x.GetDefault())}
	t.above = x.above(t.Queue)
	t.DefaultLimitMs = nearest(t.above, func(q *QueueSpec) *int64 { return q.DefaultLimitMs })
	t.MostGraceMs = nearest(t.above, func(q *QueueSpec) *int64 { return q.MostGraceMs })
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

// Selected returns the spec with the labels of the queue's selector added. Labels of the spec take precedence.
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

// LabelOf returns the label with this key. It returns false if there is none.
func LabelOf(labels []*Label, key string) (*Label, bool) {
	for _, l := range labels {
		if l.GetKey() == key {
			return l, true
		}
	}
	return nil, false
}

// above returns a queue and its ancestors, nearest first.
func (x *Queues) above(name string) (all []*QueueSpec) {
	for name != "" && len(all) <= len(x.GetQueues()) { // ends at a cycle; ApplyQueues refuses cycles
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

// nearest returns the value of the nearest queue that has one.
func nearest[T any](above []*QueueSpec, of func(*QueueSpec) *T) *T {
	for _, q := range above {
		if own := of(q); own != nil {
			return own
		}
	}
	return nil
}

// Under adds a queue without a name as the root. The owner limits of the root apply to all jobs of an owner.
func (t *QueueTerms) Under(root *QueueSpec) {
	t.above = append(t.above, root)
}

// OverWaiting returns the first queue, from this one upwards, in which one more waiting job would exceed the limit of
// its owner. The map has the owner's number of waiting jobs by queue. It returns nil if no limit is exceeded.
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
