// Package belief is what a leader believes of its machines: what each has said that it has free, what was promised
// there since, which attempts are or may be on it, and whether it is left out for a while. It is the one place where
// free room is known before the machines say it; the fabric is its picture, by which gangs are placed. It is pure: its
// caller knows the time, the records and the machines' messages, and passes in what counts here.
//
// A belief may be wrong, and that costs a refused reservation. It must never forget what may still be on a machine, and
// never count one attempt twice.
package belief

import "github.com/yi-json/synapse/topology"

// This file owns the picture: how what is believed of each machine reaches the fabric.

// View holds the leader's view of all nodes.
type View struct {
	fabric *topology.Fabric
	uids   *topology.UIDs
}

// New makes a view without machines. What machines and attempts hold of the uids is held there.
func New(levels []string, uids *topology.UIDs) *View {
	return &View{fabric: topology.NewFabric(levels), uids: uids}
}

// Fabric is the picture of free room. Plan takes there what it admits, and Claim then says whose it is.
func (v *View) Fabric() *topology.Fabric { return v.fabric }

// Machine adds a machine of which nothing is known yet. The fabric does not show it before it has joined.
func (v *View) Machine(id topology.NodeID) *Machine {
	return &Machine{id: id, uids: v.uids, fabric: v.fabric}
}

// Standing holds the state of a node in addition to its free capacity.
type Standing struct {
	// Believed: the machine can be reached, and its books can be true. On any other machine nothing counts as free.
	Believed bool
	// Closed is the reason why nothing new goes there, empty where it is open.
	Closed string
}

// Join shows a machine in the fabric, or replaces its description there. It is open until Settle says otherwise.
func (v *View) Join(m *Machine, as topology.Machine, s Standing) {
	v.fabric.Join(as, m.free(s.Believed))
}

// Settle carries what is believed of a machine into the fabric.
func (v *View) Settle(m *Machine, s Standing) {
	v.fabric.SetFree(m.id, m.free(s.Believed))
	v.fabric.SetUsable(m.id, s.Closed)
}

// Remove forgets all that is believed of a machine: it is gone, or another machine has its place.
func (v *View) Remove(m *Machine) {
	v.fabric.Remove(m.id)
	m.holdUIDs(nil)
	for _, t := range m.tenants {
		m.uids.Release(t.UID)
	}
	m.tenants, m.books, m.booked = nil, Books{}, false
}
