package share

// This file tests the tree of queues.

import (
	"testing"

	"github.com/yi-json/synapse/topology"
)

// TestWhatQueuesInherit checks that a queue without settings inherits weight, order and rules from its parent, and so
// do the own jobs of a queue with descendants.
func TestWhatQueuesInherit(t *testing.T) {
	weight, order, yes := int64(3), FIFO, true
	one := int64(1)
	s := New(&Queues{Queues: []QueueSpec{
		{Name: "deep", Parent: "child"}, {Name: "child", Parent: "top"}, {Name: "other", Parent: "top", Weight: &one},
		{Name: "top", Weight: &weight, Order: &order, Preemption: Preemption{Reclaim: &yes, MinRun: &weight}},
	}}, Expected)
	for name, want := range map[string]int64{"top": 3, "child": 3, "deep": 3, "other": 1} {
		for _, h := range []*Branch{s.named[name], s.named[name].own} {
			if h.Weight != want || h.Order != FIFO || !h.Preempts.Reclaim || h.Preempts.MinRun != 3 ||
				!h.Preempts.SaysMinRun {
				t.Errorf("%s has a weight of %d, the order %s and %+v", name, h.Weight, h.Order, h.Preempts)
			}
		}
	}
	if s.Root.Order != Expected || s.Root.Weight != 1 {
		t.Errorf("all have a weight of %d and the order %s", s.Root.Weight, s.Root.Order)
	}
}

// TestForgivenAtEveryLevel checks that a failed start costs neither its queue nor any ancestor, and that one that ran
// costs each of them.
func TestForgivenAtEveryLevel(t *testing.T) {
	for _, forgiven := range []bool{true, false} {
		queues := []QueueSpec{{Name: "a"}, {Name: "b", Parent: "a"}, {Name: "c", Parent: "b"}}
		s := New(&Queues{Queues: queues}, FIFO)
		s.Take("j", &Hold{Queue: "c", Owner: "o", Size: 8000, Total: topology.Resources{MilliGPU: 8000}, Since: second})
		s.Give("j", 3600*second, forgiven)
		levels := 0
		for h := s.Leaf("c", "o"); h != nil; h = h.Parent {
			levels++
			if used := h.used.now(3600 * second); (used > 0) == forgiven {
				t.Errorf("queue %q is charged %d for a job, forgiven: %t", h.Name, used, forgiven)
			}
			if h.has[0] != 0 {
				t.Errorf("queue %q still has %d", h.Name, h.has[0])
			}
		}
		if levels != 4 {
			t.Errorf("%d levels were looked at", levels)
		}
	}
}
