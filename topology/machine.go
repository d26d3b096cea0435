package topology

// This file owns how a machine, a gang and a placement are described: the
// words in which the view, the policy and the actors talk about room.

import "slices"

// Machine holds the announcement of a node when it joins.
type Machine struct {
	ID NodeID
	// Place names the domains the machine stands in, coarse to fine, one per
	// level of the fabric above the node itself (zone, block, rack by default).
	Place []string
	Total Resources
	// Broken counts the devices that are out of service: not in the total, and expected back.
	Broken  int32
	GPUType string
	Labels  []Label
	// Vocabulary is what its agent understands: everything with this number or a lower one.
	Vocabulary int32
	// Accounts are as which of its accounts it runs gangs; nil: every one.
	Accounts *Accounts
}

// Capacity holds the free resources of a node, as far as a placement needs them. The node itself chooses the exact
// devices.
type Capacity struct {
	MilliCPU    int64
	MemoryBytes int64
	// WholeGPUs counts the devices of which nothing is taken.
	WholeGPUs int32
	// Parts are the free thousandths of devices that are shared, each in
	// 1..999, largest first. Almost always empty.
	Parts []int64
}

// Split says how a total is divided over machines.
type Split uint8

const (
	// SplitNone: the gang is given as replicas of Each.
	SplitNone Split = iota
	// SplitWhole: whole machines (all healthy GPUs, all free), then one remainder.
	SplitWhole
	// SplitAny: whatever is free.
	SplitAny
)

// Gang is the shape a job asks for.
type Gang struct {
	Replicas int32
	Each     Resources
	// Total and Split replace Replicas and Each when Split is not SplitNone;
	// then there is one task per machine.
	Total     Resources
	Split     Split
	GPUType   string
	Selector  []Label
	Only      []NodeID // no other machines; none: any
	Exclude   []NodeID // never these
	Apart     bool     // each replica on a machine of its own
	Required  string   // level name; "" means anywhere
	Preferred string   // level name; "" means as close as possible
	// Vocabulary is what an agent must understand to run it.
	Vocabulary int32
	// Avoid are machines that the leader keeps it from for a while, and Closing those that close before it would surely
	// have ended.
	Avoid, Closing []NodeID
	// Account is the machines' account that it names; zero: none, or one that every machine accepts.
	Account Account
}

// out are the machines that the gang may not go to, for whatever reason.
func (g *Gang) out() []NodeID {
	if len(g.Avoid) == 0 && len(g.Closing) == 0 {
		return g.Exclude
	}
	return slices.Concat(g.Exclude, g.Avoid, g.Closing)
}

// Slot is one member's place.
type Slot struct {
	Rank   Rank
	Node   NodeID
	Amount Resources
}

// Placement is where a whole gang goes: its slots in rank order, the slots of
// one machine adjacent.
type Placement struct {
	Slots []Slot
	// Level is the finest level of the fabric that holds the whole gang.
	Level string
}

// Nodes returns the machines of a placement, each once.
func (p Placement) Nodes() []NodeID {
	var nodes []NodeID
	for i := range p.Slots {
		if node := p.Slots[i].Node; i == 0 || node != p.Slots[i-1].Node {
			nodes = append(nodes, node)
		}
	}
	return nodes
}
