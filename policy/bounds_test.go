package policy

// This file tests rules with several bounds: several lenders, levels of queues, and earlier stops of victims.

import (
	"testing"

	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// TestStrictestLenderBinds checks that a gang on capacity lent by two promises must start in time for both, in whatever
// order they were made.
func TestStrictestLenderBinds(t *testing.T) {
	for _, bounds := range [][2]int64{{500, 900}, {900, 500}, {500, 500}} {
		s := newStage(t, simple(), 2, 1)
		a := s.enter(act{runs: 60, limit: 60, gang: wholes(2)})
		s.view.SetUsable(machine(0, 1).ID, "closed")
		s.play(0)
		s.view.SetUsable(machine(0, 1).ID, "")
		e := s.queue.jobs[a.id]
		for i, bound := range bounds {
			id := topology.KeepID([]string{"p", "q"}[i])
			slot := topology.Slot{Node: machine(i, 1).ID, Amount: machine(i, 1).Total}
			p := &promise{
				e: &entry{Waiting: Waiting{Job: topology.JobID(id)}}, keep: id, firm: true, at: s.now + 1000*second,
				bound: s.now + bound*second, place: topology.Placement{Slots: []topology.Slot{slot}},
			}
			s.view.Keep(id, p.place)
			s.j.firm = append(s.j.firm, p)
		}
		s.j.round++
		_, terms, ok := s.j.borrow(e.burst, e, false)
		if want := s.now + min(bounds[0], bounds[1])*second - 60*second - settling; !ok || terms.startBy != want {
			t.Errorf("with bounds of %v s it is lent %t, and must start by %d s, not %d s", bounds, ok,
				(terms.startBy-s.now)/second, (want-s.now)/second)
		}
	}
}

// TestReclaimedThoughStoppedBefore checks that a quota is reclaimed from a job that was stopped within the last hour,
// and that such a job is not stopped for another of its own queue.
func TestReclaimedThoughStoppedBefore(t *testing.T) {
	for _, queue := range []string{"idle", "a"} {
		x := newTheatre(t, 1, &share.Queues{Queues: []share.QueueSpec{gpuQuota("idle", "", 1), gpuQuota("a", "", -1)}})
		lent := x.enter(act{runs: 100_000, gang: wholes(1), queue: "a"})
		x.since[lent.id] = second
		own := x.enter(act{at: 700, runs: 10, gang: wholes(1), queue: queue, priority: 9})
		x.run(900)
		if was := own.began() >= 0; was != (queue == "idle") {
			t.Errorf("a job of queue %q began: %t", queue, was)
		}
		x.run(3700 + 300)
		if own.began() < 0 {
			t.Errorf("a job of queue %q has not begun after the hour", queue)
		}
	}
}
