package topology

// This file has the types for nodes, gangs and placements, which the view, the policy and the actors share.

import "slices"

// Machine holds the announcement of a node when it joins.
type Machine struct {
	ID NodeID
	// Place names the domains of the node from coarse to fine, one per level above the node (zone, block, rack by
	// default).
	Place []string
	Total Resources
	// Broken is the number of devices out of service. They are not in Total and are expected to return.
	Broken  int32
	GPUType string
	Labels  []Label
	// Vocabulary is the highest number that the agent understands. It understands all lower numbers too.
	Vocabulary int32
	// Accounts is the rule for the accounts of gangs; nil accepts every account.
	Accounts *Accounts
}

// Capacity holds the free resources of a node, as far as a placement needs them. The node itself chooses the exact
// devices.
type Capacity struct {
	MilliCPU    int64
	MemoryBytes int64
	// WholeGPUs is the number of completely free devices.
	WholeGPUs int32
	// Parts are the free thousandths of shared devices, each in 1..999, largest first. Almost always empty.
	Parts []int64
}

// Split is the way in which a total is divided among nodes.
type Split uint8

const (
	// SplitNone: the gang consists of replicas of Each.
	SplitNone Split = iota
	// SplitWhole: whole nodes (all healthy GPUs, all free), then one remainder.
	SplitWhole
	// SplitAny: any free resources.
	SplitAny
)

// Gang is the request of a job.
type Gang struct {
	Replicas int32
	Spares   int32 // of Replicas, those without a task
	Each     Resources
	// Total and Split replace Replicas and Each if Split is not SplitNone. Each node then runs one task.
	Total     Resources
	Split     Split
	GPUType   string
	Selector  []Label
	Only      []NodeID // only these nodes; empty: any
	Exclude   []NodeID // never these nodes
	Apart     bool     // each replica on a separate node
	Required  string   // name of a level; "": anywhere
	Preferred string   // name of a level; "": as close as possible
	// Vocabulary is the vocabulary that an agent needs to run the gang.
	Vocabulary int32
	// Avoid has nodes that the leader excludes for a while. Closing has nodes that will drain before the gang's
	// latest end.
	Avoid, Closing []NodeID
	// Account is the account that the gang requests. It is zero if there is none, or if every node accepts it.
	Account Account
}

// out returns all nodes that the gang may not use.
func (g *Gang) out() []NodeID {
	if len(g.Avoid) == 0 && len(g.Closing) == 0 {
		return g.Exclude
	}
	return slices.Concat(g.Exclude, g.Avoid, g.Closing)
}

// Slot is the place of one rank.
type Slot struct {
	Rank   Rank
	Node   NodeID
	Amount Resources
}

// Placement is the place of a complete gang: its slots in rank order, with the slots of a node adjacent.
type Placement struct {
	Slots []Slot
	// Level is the finest level with one domain that contains the complete gang.
	Level string
}

// Nodes returns the nodes of a placement, each once.
func (p Placement) Nodes() []NodeID {
	var nodes []NodeID
	for i := range p.Slots {
		if node := p.Slots[i].Node; i == 0 || node != p.Slots[i-1].Node {
			nodes = append(nodes, node)
		}
	}
	return nodes
}
