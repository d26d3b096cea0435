package topology

// This file keeps a copy of a topology tree up to date, so that slow questions can use the copy. The copy shares only
// data that never changes. Several changes of the same node are sent once, in their latest state. An update therefore
// costs time proportional to the changes. Cloning the tree for each question would cost time proportional to all nodes.

import "slices"

// Seen is the state of one node in an update. Machine is nil if the node has left.
type Seen struct {
	ID      NodeID
	Machine *Machine // never changed
	Free    Capacity // its parts are never changed
	Why     string
	// Leaving is the amount that leaves before any reservation of the node begins.
	Leaving Resources
}

// Kept is the complete reservation of one ID. Without slots, the reservation has ended.
type Kept struct {
	ID    KeepID
	Slots []Slot // never changed
}

// Changes holds the changes that a follower gets at once.
type Changes struct {
	Machines []Seen
	Kept     []Kept
}

// following holds the changes for a follower after its last update.
type following struct {
	machines []NodeID // the changed nodes; a present node is also marked (seat.untold)
	kept     []KeepID
}

// Lead starts to record changes for one follower. The first update contains everything.
func (f *Tree) Lead() {
	f.follow = &following{}
	f.arrange()
	for _, sh := range f.plan.shelves {
		for _, s := range sh.seats {
			s.untold = false
			f.noteSeat(s)
		}
	}
	for id := range f.kept.by { //order: sorted below
		f.follow.kept = append(f.follow.kept, id)
	}
	slices.Sort(f.follow.kept)
}

// Touch marks a node as changed because of data outside of the tree, so that the next update includes the node. It
// ignores an unknown node.
func (f *Tree) Touch(id NodeID) {
	if s := f.seats[id]; s != nil {
		f.noteSeat(s)
	}
}

// Untold reports whether there are changes that were not sent.
func (f *Tree) Untold() bool {
	return f.follow != nil && (len(f.follow.machines) > 0 || len(f.follow.kept) > 0)
}

// Tell returns all changes that were not sent, and marks them as sent.
func (f *Tree) Tell() Changes {
	c := Changes{Machines: make([]Seen, 0, len(f.follow.machines))}
	for _, id := range f.follow.machines {
		s := f.seats[id]
		switch {
		case s == nil:
			c.Machines = append(c.Machines, Seen{ID: id})
		case s.untold: // if false, the node left and joined again, and is already in the list
			s.untold = false
			c.Machines = append(c.Machines, Seen{ID: id, Machine: s.machine, Free: s.free, Why: s.why, Leaving: s.leaving})
		}
	}
	slices.Sort(f.follow.kept)
	for _, id := range slices.Compact(f.follow.kept) {
		c.Kept = append(c.Kept, Kept{ID: id, Slots: f.Kept(id)})
	}
	f.follow.machines, f.follow.kept = f.follow.machines[:0], f.follow.kept[:0]
	return c
}

// Follow applies an update. A follower must not be used for planning: changes for a question are tried and rolled back.
func (f *Tree) Follow(c Changes) {
	f.follows = true
	for i := range c.Machines {
		m := &c.Machines[i]
		s := f.seats[m.ID]
		switch {
		case m.Machine == nil:
			f.Remove(m.ID)
		case s == nil || s.machine != m.Machine:
			f.record(m.ID, s)
			f.join(m.Machine, m.Free, m.Why)
		default:
			f.SetFree(m.ID, m.Free)
			f.SetUsable(m.ID, m.Why)
		}
		if m.Machine != nil {
			f.setLeaving(f.seats[m.ID], m.Leaving)
		}
	}
	for _, k := range c.Kept {
		f.changeKeep(k.ID, k.Slots, 0)
	}
}

// noteSeat records the change of a node.
func (f *Tree) noteSeat(s *seat) {
	if f.follow != nil && !s.untold {
		s.untold = true
		f.follow.machines = append(f.follow.machines, s.id)
	}
}

// noteGone records that a node left.
func (f *Tree) noteGone(id NodeID) {
	if f.follow != nil {
		f.follow.machines = append(f.follow.machines, id)
	}
}

// noteKept records the change of a reservation.
func (f *Tree) noteKept(id KeepID) {
	if f.follow != nil {
		f.follow.kept = append(f.follow.kept, id)
	}
}
