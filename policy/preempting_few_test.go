package policy

// This file tests the selection of victims if a limit allows a gang only a few nodes.

import (
	"slices"
	"testing"

	"github.com/yi-json/synapse/policy/preempt"
	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// fewMachines is a law that allows a gang at most a number of nodes.
type fewMachines struct{ most int }

func (fewMachines) Add(int) bool                       { return true }
func (fewMachines) Drop(int)                           {}
func (l fewMachines) Enough(p topology.Placement) bool { return len(p.Nodes()) <= l.most }

// joinUneven adds two nodes in one rack and four in another. If some GPUs are in use, most nodes have two free GPUs.
func joinUneven(view *topology.Tree, inUse bool) {
	for _, m := range []struct {
		id, rack   string
		gpus, free int64
	}{
		{"n1", "r1", 6, 2}, {"n4", "r1", 6, 2},
		{"n5", "r2", 2, 2}, {"n6", "r2", 6, 2}, {"n7", "r2", 7, 3}, {"n8", "r2", 7, 7},
	} {
		node := topology.Machine{ID: topology.NodeID(m.id), Place: []string{"z", m.rack},
			Total: topology.Resources{MilliCPU: 96_000, MemoryBytes: 768 << 30, MilliGPU: m.gpus * topology.WholeGPU}}
		free := node.Idle()
		if inUse {
			free.WholeGPUs = int32(m.free)
		}
		view.Join(node, free)
	}
}

// TestVictimsOnFewMachines has a gang that a limit allows on a few nodes, and that would be placed on more nodes if one
// victim stayed. The test checks that a job without resources on the few nodes is not stopped.
func TestVictimsOnFewMachines(t *testing.T) {
	view := topology.NewTree([]string{"zone", "rack"})
	joinUneven(view, true)
	has := func(cost int64, nodes ...topology.NodeID) (c preempt.Candidate) {
		for i, n := range nodes {
			c.Room.Slots = append(c.Room.Slots, topology.Slot{Rank: topology.Rank(i), Node: n,
				Amount: topology.Resources{MilliGPU: 4 * topology.WholeGPU}})
		}
		c.Lost = cost
		return c
	}
	all := []preempt.Candidate{has(1, "n6", "n7"), has(2, "n1", "n4")}
	all[0].Job, all[1].Job = "elsewhere", "there"
	stop, place, ok := preempt.Victims(view, elevenWhole(), topology.Lent{}, all, fewMachines{most: 2})
	if !ok || !slices.Equal(stop, []int{1}) || len(place.Nodes()) > 2 {
		t.Errorf("stopped are %v, for a place on %v (%v), and who is on n1 and n4 is enough", stop, place.Nodes(), ok)
	}
}

// elevenWhole returns a gang of eleven GPUs on whole nodes and a part of one more.
func elevenWhole() *topology.Gang {
	return &topology.Gang{Total: topology.Resources{MilliCPU: 22_000, MilliGPU: 11 * topology.WholeGPU},
		Split: topology.SplitWhole}
}

// TestStartsOnFewMachines checks that a gang with victims starts on the allowed number of nodes, even if it would now
// be placed on more.
func TestStartsOnFewMachines(t *testing.T) {
	x := newTheatre(t, 0, &share.Queues{Queues: []share.QueueSpec{
		{Name: "q", Owner: share.PerOwner{Machines: num[int64](2)}, Preemption: share.Preemption{ByPriority: yes()}},
	}})
	joinUneven(x.view, false)
	on := func(gpus int64, nodes ...topology.NodeID) topology.Gang {
		g := gang(int32(len(nodes)), gpus)
		g.Only, g.Apart = nodes, true
		return g
	}
	elsewhere := act{runs: 100_000, queue: "q", owner: "eve", gang: on(4, "n6", "n7")}
	x.enter(elsewhere, act{runs: 100_000, queue: "q", owner: "low", gang: on(4, "n1", "n4")})
	high := x.enter(act{
		at: 2 * share.UsualMinRun / second, runs: 50, queue: "q", owner: "bob", priority: 5, gang: *elevenWhole(),
	})
	x.run(2*share.UsualMinRun/second + 100)
	if victims := x.victims(); high.began() < 0 || !slices.Equal(victims, []string{string(x.cast[1].id)}) {
		t.Errorf("it began at %d, and stopped were %v", high.began(), victims)
	}
}
