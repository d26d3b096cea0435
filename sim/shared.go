package sim

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file simulates worlds with queues: a tree of queues that the seed draws and operators change, with preemption.
// Jobs choose among the queues. It draws from a separate source, so other worlds are unchanged.

// sharing holds the queues of a world.
type sharing struct {
	tree   *messages.Queues // the drawn queues; nil: the world has none
	source *generator
	owners *generator // source for the owner lists
	listed bool       // some queues have an owner list
	former []former
}

// shareRoom makes the load exceed the cluster, with jobs that run long enough to be preempted.
func (d *Draw) shareRoom(o Options) {
	switch o.World {
	case "", "default":
		d.Machines, d.PerRack, d.BigGang, d.Load = 24, 8, 8, 20*time.Minute
		d.Gangs, d.Small, d.LongestRun, d.Enough = 150, 90, 8*time.Minute, 60
	default:
		d.LongestRun, d.Load = 12*d.LongestRun, 2*d.Load
	}
}

// share draws the tree and applies it as soon as there is a leader. An operator then changes it once or twice.
func (w *World) share() {
	if !w.opts.Shares || w.oldVersion() != nil {
		return // an earlier version has no queues
	}
	s := w.sharing.source
	w.sharing.tree = w.drawQueues(s)
	w.drawOwners(w.sharing.tree)
	w.applyQueues(w.sharing.tree)
	for range 1 + s.below(2) {
		at := s.between(w.draw.Load/4, w.draw.Load)
		w.engine.after(at, func() { w.applyQueues(w.changedQueues(s)) })
	}
}

// drawQueues draws a tree: one queue next to two queues with children.
func (w *World) drawQueues(s *generator) *messages.Queues {
	all := int64(w.draw.Machines) * 8
	gpus := func(n int64) []*messages.Amount {
		return []*messages.Amount{{Name: "gpu", Amount: n * topology.WholeGPU}}
	}
	part := func(of int64) int64 { return of * int64(s.below(9)) / 8 }
	yes, minRun := true, s.between(0, 10*time.Second).Milliseconds()
	queue := func(name, parent string, quota int64) *messages.QueueSpec {
		q := &messages.QueueSpec{Name: name, Parent: parent, Weight: int64(s.below(4))}
		if quota > 0 {
			q.Quota = gpus(quota)
		}
		if parent == "" {
			q.MinRunMs = &minRun
		}
		if s.chance(0.8) {
			q.ByPriority = &yes
		}
		if s.chance(0.8) {
			q.Reclaim = &yes
		}
		if s.chance(0.25) {
			q.Limit = gpus(max(quota, 8) + int64(s.below(int(all-quota+1))))
		}
		if s.chance(0.2) {
			q.OwnerAmounts = gpus(all/4 + part(all/2))
		}
		if most := int64(2 + s.below(8)); s.chance(0.1) {
			q.OwnerRunning = &most
		} else if s.chance(0.1) {
			q.OwnerMachines = &most
		}
		if s.chance(0.2) {
			q.Order = messages.QueueOrder(1 + s.below(3))
		}
		return q
	}
	left := part(all / 2)
	return &messages.Queues{Default: "default", Queues: []*messages.QueueSpec{
		queue("default", "", part(all/4)), queue("left", "", left), queue("right", "", part(all/8)),
		queue("left-a", "left", part(left/2)), queue("left-b", "left", part(left/2)), queue("right-a", "right", 0),
	}}
}

// changedQueues returns the queues after an operator's change: one queue is gone, has a lower limit, or a lower quota.
func (w *World) changedQueues(s *generator) *messages.Queues {
	q := proto.Clone(w.sharing.tree).(*messages.Queues)
	one := q.Queues[1+s.below(len(q.Queues)-1)]
	switch s.below(3) {
	case 0:
		q.Queues = slices.DeleteFunc(q.Queues, func(o *messages.QueueSpec) bool {
			return o.Name == one.Name || o.Parent == one.Name
		})
	case 1:
		half := max(gpusIn(one.Limit)/2, gpusIn(one.Quota), 8*topology.WholeGPU)
		for _, o := range q.Queues {
			if o.Parent == one.Name {
				half = max(half, gpusIn(o.Quota))
			}
		}
		one.Limit = []*messages.Amount{{Name: "gpu", Amount: half}}
	default:
		one.Quota = nil
	}
	w.changeOwners(q)
	return q
}

// applyQueues applies queues as an operator.
func (w *World) applyQueues(q *messages.Queues) {
	if w.resting || q == nil {
		return
	}
	w.client.ask(&messages.ApplyQueues{Principal: &messages.Principal{Name: "admin"}, Queues: q},
		func(m messages.Message) bool {
			r, is := m.(*messages.ApplyQueuesReply)
			if is && r.Outcome.GetCode() == messages.Code_CODE_INVALID {
				panic(fmt.Sprintf("the drawn queues were rejected: %v", r.Outcome))
			}
			return is && settled(r.Outcome)
		})
}

// chooses assigns a queue to a job. Some jobs also state their checkpoint interval, or that they are not preemptible.
func (w *World) chooses(spec *messages.JobSpec) {
	if w.sharing.tree == nil {
		return
	}
	s := w.sharing.source
	spec.Queue = w.sharing.tree.Queues[s.below(len(w.sharing.tree.Queues))].Name
	if s.chance(0.3) {
		spec.CheckpointMs = s.between(time.Second, time.Minute).Milliseconds()
	}
	spec.NotPreemptible = s.chance(0.1)
}

// whose returns the owner of the next job: if there are queues, one of a few.
func (w *World) whose() *messages.Principal {
	if w.sharing.tree == nil {
		return anonymous
	}
	return &messages.Principal{Name: fmt.Sprintf("owner-%d", w.sharing.source.below(people))}
}
