package replay

import (
	"github.com/yi-json/synapse/sim"
	"github.com/yi-json/synapse/sim/record"
	"github.com/yi-json/synapse/sim/rival"
	"github.com/yi-json/synapse/topology"
)

// This file counts the free GPUs by the processes that start and end. It reads neither the leader's view, which may be
// late, nor the policy.

// ground holds the nodes. If all nodes are equal, a Room answers by counting. Otherwise topology answers.
type ground struct {
	cluster record.Cluster
	rack    []int          // rack of each node
	free    []int          // free GPUs of each node
	sum     int            // free GPUs in total
	room    *rival.Room    // nil if nodes differ
	tree    *topology.Tree // nil if the room can answer everything
}

// shape holds the properties of a gang that decide whether it fits.
type shape struct {
	gpus  int // total
	tasks int // equal tasks that share the GPUs; 0: the GPUs are a total
}

// newGround returns an idle cluster. It also creates the tree if gangs have tasks.
func newGround(c record.Cluster, tasks bool) *ground {
	g := &ground{cluster: c, sum: c.Sum(), free: append([]int(nil), c.GPUs...)}
	for rack, machines := range c.Racks {
		for range machines {
			g.rack = append(g.rack, rack)
		}
	}
	if c.Alike() {
		g.room = rival.NewRoom(c.Racks, c.Largest())
	}
	if g.room != nil && !tasks {
		return g
	}
	g.tree = topology.NewTree(nil)
	for i, gpus := range c.GPUs {
		total := gpusOnly(gpus)
		g.tree.Join(topology.Machine{ID: sim.NodeID(i + 1), Total: total}, topology.Capacity{WholeGPUs: int32(gpus)})
	}
	return g
}

func gpusOnly(n int) topology.Resources {
	return topology.Resources{MilliGPU: int64(n) * topology.WholeGPU}
}

// move changes the number of free GPUs of a node.
func (g *ground) move(machine, gpus int) {
	g.free[machine] += gpus
	g.sum += gpus
	if g.room != nil {
		g.room.Set(machine, g.free[machine])
	}
	if g.tree != nil {
		g.tree.SetFree(sim.NodeID(machine+1), topology.Capacity{WholeGPUs: int32(g.free[machine])})
	}
}

// fits reports whether a gang fits on the free GPUs.
func (g *ground) fits(s shape) bool {
	switch {
	case s.gpus > g.sum:
		return false
	case g.room != nil && s.tasks == 0:
		return g.room.Fits(s.gpus)
	}
	_, refusal := topology.Place(g.tree, gangOf(s))
	return refusal == nil
}

func gangOf(s shape) topology.Gang {
	if s.tasks == 0 {
		return topology.Gang{Total: gpusOnly(s.gpus), Split: topology.SplitWhole}
	}
	return topology.Gang{Replicas: int32(s.tasks), Each: gpusOnly(s.gpus / s.tasks)}
}

// fewestRacks returns the smallest number of racks that hold a gang in an empty cluster.
func (g *ground) fewestRacks(s shape) int {
	each, wanted := 1, s.gpus
	if s.tasks > 0 {
		each, wanted = s.gpus/s.tasks, s.tasks
	}
	holds := make([]int, len(g.cluster.Racks))
	for m, gpus := range g.cluster.GPUs {
		holds[g.rack[m]] += gpus / each
	}
	return fewest(holds, wanted)
}
