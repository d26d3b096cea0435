package policy

// This file tests which unschedulable nodes a waiting job needs.

import (
	"fmt"
	"testing"

	"github.com/yi-json/synapse/topology"
)

// TestNeeds checks which of three resting nodes the first job needs, on a cluster with a fourth node in service.
func TestNeeds(t *testing.T) {
	named := wholes(1)
	named.Only = []topology.NodeID{machine(1, 1).ID}
	for _, x := range []struct {
		name   string
		gangs  []topology.Gang
		barred topology.JobID
		want   string
	}{
		{"a gang of one node fits without them", []topology.Gang{wholes(1)}, "", " 0"},
		{"a gang of two nodes needs one", []topology.Gang{wholes(2)}, "", "a 1"},
		{"a gang of four nodes needs all", []topology.Gang{wholes(4)}, "", "a 3"},
		{"a gang of five nodes never runs, so the next is the first", []topology.Gang{wholes(5), wholes(3)}, "", "b 2"},
		{"a limit keeps the first job waiting", []topology.Gang{wholes(3), wholes(2)}, "a", "b 1"},
		{"the second job waits for its turn", []topology.Gang{gang(1, 1), wholes(4)}, "", " 0"},
		{"a job names one of them", []topology.Gang{named}, "", "a 1"},
	} {
		f, q := topology.NewTree([]string{"zone", "rack"}), NewQueue()
		var resting []topology.NodeID
		for i := range 4 {
			m := machine(i, 1)
			if f.Join(m, m.Idle()); i < 3 {
				f.SetUsable(m.ID, "rests")
				resting = append(resting, m.ID)
			}
		}
		for i, g := range x.gangs {
			q.Add(Waiting{Job: topology.JobID(rune('a' + i)), Gang: g, Arrived: int64(i)})
		}
		job, nodes := q.Needs(f, resting, func(job topology.JobID) bool { return job == x.barred })
		if len(nodes) == 0 {
			job = ""
		}
		if got := fmt.Sprint(job, " ", len(nodes)); got != x.want {
			t.Errorf("%s: got %q, want %q", x.name, got, x.want)
		}
		f.Walk(func(m topology.Machine, _ topology.Capacity, why string) {
			if (why == "") != (m.ID == machine(3, 1).ID) {
				t.Errorf("%s: afterwards %s is unschedulable because it %q", x.name, m.ID, why)
			}
		})
	}
}

// TestAwaits checks that a job awaits a node if its planned start is the return of the node, and not if another node is
// expected to be free before.
func TestAwaits(t *testing.T) {
	const day = 86400
	for _, lost := range []bool{true, false} {
		s := newStage(t, simple(), 2, 1)
		rests, other := machine(0, 1).ID, machine(1, 1).ID
		long := wholes(1)
		long.Only = []topology.NodeID{other}
		s.enter(act{runs: 1800, limit: 1800, gang: long})
		job := s.enter(act{at: 1, runs: 60, limit: 60, gang: wholes(1)})
		s.view.SetUsable(rests, "rests")
		s.runs.Horizon(s.view, s.now).BackedOff(rests, day*second)
		s.play(10)
		if lost {
			s.view.SetUsable(other, "lost")
		}
		s.play(100)
		s.pass()
		if s.promiseOf(job) == nil {
			t.Fatalf("the job has no planned start")
		}
		if got := s.j.Awaits(rests, day*second); (got == job.id) != lost {
			t.Errorf("the other node is lost (%v): %q awaits the node, planned for %d", lost, got,
				s.promiseOf(job).At/second)
		}
	}
}
