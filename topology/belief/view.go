// Package belief is the leader's view of its nodes. It has their reported free capacity, the leader's newer claims, the
// attempts that run or may run on each node, and backoffs. No other package knows claims before the nodes report them.
// The view keeps a topology tree up to date, in which gangs are placed. The package is pure: its caller knows the time,
// the records and the messages of nodes, and passes in the relevant values.
//
// The view may be stale, which costs a refused reservation. It must never forget an attempt that may still run on a
// node, and never count an attempt twice.
package belief

import "github.com/yi-json/synapse/topology"

// This file copies the view of each node into the topology tree.

// View holds the leader's view of all nodes.
type View struct {
	tree *topology.Tree
	uids *topology.UIDs
}

// New returns a view without nodes. The view holds the uids of its nodes and attempts in uids.
func New(levels []string, uids *topology.UIDs) *View {
	return &View{tree: topology.NewTree(levels), uids: uids}
}

// Tree returns the topology tree with the free capacity. Plan takes capacity from the tree, and then Claim records
// the attempt.
func (v *View) Tree() *topology.Tree { return v.tree }

// Machine returns a new node without any data. The tree does not contain it before Join.
func (v *View) Machine(id topology.NodeID) *Machine {
	return &Machine{id: id, uids: v.uids, tree: v.tree}
}

// Standing holds the state of a node in addition to its free capacity.
type Standing struct {
	// Believed is true if the node is reachable and its ledger is consistent. Any other node has no free capacity.
	Believed bool
	// Closed is the reason why the node gets no new work, and empty for a schedulable node.
	Closed string
}

// Join adds a node to the tree, or replaces its description. The node is schedulable until Settle changes that.
func (v *View) Join(m *Machine, as topology.Machine, s Standing) {
	v.tree.Join(as, m.free(s.Believed))
}

// Settle copies the view of a node into the tree.
func (v *View) Settle(m *Machine, s Standing) {
	v.tree.SetFree(m.id, m.free(s.Believed))
	v.tree.SetUsable(m.id, s.Closed)
}

// Remove removes a node that no longer exists or was replaced by another.
func (v *View) Remove(m *Machine) {
	v.tree.Remove(m.id)
	m.holdUIDs(nil)
	for _, t := range m.tenants {
		m.uids.Release(t.UID)
	}
	m.tenants, m.books, m.booked = nil, Books{}, false
}
