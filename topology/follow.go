package topology

// This file owns how a fabric is followed: a copy elsewhere is told what has changed, so that slow questions are asked
// of the copy. The two share only what is never written to. What changed several times between two tellings is told
// once, as it is then, so a telling costs what changed and not what there is. The alternative, a clone for each
// question, costs a walk over every machine.

import "slices"

// Seen is all that a follower is told of one machine. Machine is nil where the machine has left.
type Seen struct {
	ID      NodeID
	Machine *Machine // never written to
	Free    Capacity // its parts are never written to either
	Why     string
	// Leaving is how much has left before anything begins that is kept there.
	Leaving Resources
}

// Kept is all that is kept for one; no slots: nothing any more.
type Kept struct {
	ID    KeepID
	Slots []Slot // never written to
}

// Changes holds the changes that a follower gets at once.
type Changes struct {
	Machines []Seen
	Kept     []Kept
}

// following holds the changes for a follower after its last update.
type following struct {
	machines []NodeID // a machine that is here has its mark beside it (seat.untold)
	kept     []KeepID
}

// Lead begins to note changes for one follower. The first telling is of all that is here.
func (f *Fabric) Lead() {
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

// Touch says that something about a machine has changed that the fabric does not know: the follower is told of the
// machine again. A machine that is not here is ignored.
func (f *Fabric) Touch(id NodeID) {
	if s := f.seats[id]; s != nil {
		f.noteSeat(s)
	}
}

// Untold reports whether anything has changed that the follower was not told.
func (f *Fabric) Untold() bool {
	return f.follow != nil && (len(f.follow.machines) > 0 || len(f.follow.kept) > 0)
}

// Tell is all that the follower was not told, and counts as told from here on.
func (f *Fabric) Tell() Changes {
	c := Changes{Machines: make([]Seen, 0, len(f.follow.machines))}
	for _, id := range f.follow.machines {
		s := f.seats[id]
		switch {
		case s == nil:
			c.Machines = append(c.Machines, Seen{ID: id})
		case s.untold: // else it had left and joined again, and is among these already
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

// Follow applies what the followed fabric tells. Nobody may plan on a follower: questions are tried on it and taken
// back.
func (f *Fabric) Follow(c Changes) {
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

// noteSeat notes that a machine changed.
func (f *Fabric) noteSeat(s *seat) {
	if f.follow != nil && !s.untold {
		s.untold = true
		f.follow.machines = append(f.follow.machines, s.id)
	}
}

// noteGone notes that a machine left.
func (f *Fabric) noteGone(id NodeID) {
	if f.follow != nil {
		f.follow.machines = append(f.follow.machines, id)
	}
}

// noteKept notes that what is kept for one changed.
func (f *Fabric) noteKept(id KeepID) {
	if f.follow != nil {
		f.follow.kept = append(f.follow.kept, id)
	}
}
