package topology

// This file owns the fabric: every machine known, where it stands, what it is
// believed to have free, and whether it may be used. The fabric is a belief (a
// machine's own ledger is the truth), so it accepts what it is told, even when
// the sums do not fit for a moment: an amount below zero simply counts as no
// room, and Give is the exact reverse of Take. It must never lose or invent an
// amount, and nothing it answers may depend on the order in which machines
// joined.

import "slices"

// NodeLevel is the finest level of every fabric: the machine itself.
const NodeLevel = "node"

// Fabric is the tree of places with the machines in it. It is not safe for
// concurrent use, not even for reading: placing keeps its indexes up to date as
// it goes.
type Fabric struct {
	levels []string // coarse to fine, without the node
	root   *domain
	seats  map[NodeID]*seat
	kinds  kindTable
	kept   keptRoom
	// horizon is what is known of the ends; nil: it is a copy that nobody plans on, or nobody asked.
	horizon *Horizon

	plan     layout
	changes  changeLog
	revision uint64 // counts every change of room
	touches  uint64 // counts every change of what horizons know
	gained   uint64 // the revision at which room last grew anywhere
	serving  uint64 // the revision at which the machines in service last changed

	undo    []undoRecord
	marks   int
	follow  *following // nil: nobody follows
	follows bool       // it follows another fabric: nobody plans on it

	lenses lensCache
	work   scratch
}

// NewFabric makes an empty fabric. The levels are given coarse to fine, such as
// zone, block, rack; the node is implied as the finest.
func NewFabric(levels []string) *Fabric {
	if n := len(levels); n > 0 && levels[n-1] == NodeLevel {
		levels = levels[:n-1]
	}
	return &Fabric{
		levels: slices.Clone(levels),
		root:   &domain{},
		seats:  map[NodeID]*seat{},
		kinds:  newKindTable(),
		kept:   newKeptRoom(),
		lenses: newLensCache(),
		plan:   layout{stale: true},
	}
}

// Levels lists the levels coarse to fine, the node last.
func (f *Fabric) Levels() []string { return append(slices.Clone(f.levels), NodeLevel) }

// Finer reports whether a level is below another one, "" being above all levels. A
// level that is not known here is finer than any, so that asking for it is
// refused by name and not overlooked.
func (f *Fabric) Finer(level, than string) bool {
	a, ok := f.tierOf(level)
	b, _ := f.tierOf(than)
	return !ok || a > b
}

// IsWithin reports whether all machines of a placement are in one place of a level.
func (f *Fabric) IsWithin(p Placement, level string) bool {
	tier, known := f.tierOf(level)
	for _, slot := range p.Slots {
		first, s := f.seats[p.Slots[0].Node], f.seats[slot.Node]
		switch {
		case !known || first == nil || s == nil:
			return false
		case tier > len(f.levels) && first != s:
			return false
		case !slices.Equal(first.machine.Place[:min(tier, len(f.levels))], s.machine.Place[:min(tier, len(f.levels))]):
			return false
		}
	}
	return true
}

// Len counts the machines.
func (f *Fabric) Len() int { return len(f.seats) }

// Revision grows with every change of room. Two equal revisions of one fabric
// mean that every gang places, or is refused, exactly alike.
func (f *Fabric) Revision() uint64 { return f.revision }

// Gained is the revision at which room last grew anywhere, what is kept
// included. A gang that was refused at that revision or later is still refused, with what it was lent too: taking room
// away helps nobody.
func (f *Fabric) Gained() uint64 { return f.gained }

// Serving is the revision at which the machines in service last changed: which of them there are, or what one has in
// all. The answer of InService is the same until then.
func (f *Fabric) Serving() uint64 { return f.serving }

// Join adds a machine, or replaces what is known of it. It is usable at once.
func (f *Fabric) Join(m Machine, free Capacity) {
	f.record(m.ID, f.seats[m.ID])
	place := make([]string, len(f.levels))
	copy(place, m.Place)
	m.Place, m.Labels = place, slices.Clone(m.Labels)
	free.Parts = slices.Clone(free.Parts)
	f.join(&m, free, "")
}

// join seats a machine. Its place is filled up to name every level, so that a machine which named fewer stands in an
// unnamed domain; it is never written to again.
func (f *Fabric) join(m *Machine, free Capacity, why string) {
	s := f.seats[m.ID]
	if s != nil && !slices.Equal(s.machine.Place, m.Place) {
		f.remove(s)
		s = nil
	}
	if s == nil {
		s = &seat{id: m.ID, machine: m, free: free, why: why, kind: f.kinds.enter(m), kept: f.kept.on[m.ID]}
		f.seats[m.ID] = s
		f.seatIn(s)
	} else {
		old := s.kind
		s.machine, s.free, s.why = m, free, why
		s.kind = f.kinds.enter(m)
		f.kinds.leave(old)
	}
	s.joined = mixed(described, f.revision)
	s.leaving = f.leavingOn(s)
	f.settle(s)
}

// Remove forgets a machine.
func (f *Fabric) Remove(id NodeID) {
	if s := f.seats[id]; s != nil {
		f.record(id, s)
		f.remove(s)
	}
}

func (f *Fabric) remove(s *seat) {
	f.kinds.leave(s.kind)
	delete(f.seats, s.id)
	f.seatOut(s)
	f.noteGone(s.id)
	f.revision++
	f.serving = f.revision
}

// SetFree replaces what a machine is believed to have free. An unknown machine is ignored: its report and its removal
// crossed.
func (f *Fabric) SetFree(id NodeID, free Capacity) {
	s := f.seats[id]
	if s == nil || s.free.Equal(free) {
		return
	}
	f.record(id, s)
	free.Parts = slices.Clone(free.Parts)
	s.free = free
	s.leaving = f.leavingOn(s)
	f.settle(s)
}

// SetUsable sets whether a machine may get new work: "" means yes, any other
// text is the reason why not, shown to whoever waits.
func (f *Fabric) SetUsable(id NodeID, why string) {
	s := f.seats[id]
	if s == nil || s.why == why {
		return
	}
	f.record(id, s)
	s.why = why
	f.settle(s)
}

// Free returns the capacity of a node that is free in the view, reserved or not.
func (f *Fabric) Free(id NodeID) (Capacity, bool) {
	s := f.seats[id]
	if s == nil {
		return Capacity{}, false
	}
	c := s.free
	c.Parts = slices.Clone(c.Parts)
	return c, true
}

// Machine returns the announcement of a node. The caller only reads it.
func (f *Fabric) Machine(id NodeID) (Machine, bool) {
	s := f.seats[id]
	if s == nil {
		return Machine{}, false
	}
	return *s.machine, true
}

// unusable is the reason why a machine gets no new work; "" when it does.
func (f *Fabric) unusable(id NodeID) string {
	if s := f.seats[id]; s != nil {
		return s.why
	}
	return ""
}

// Walk visits every machine in the order of the fabric: by place, then by id.
func (f *Fabric) Walk(visit func(m Machine, free Capacity, why string)) {
	f.arrange()
	for _, sh := range f.plan.shelves {
		for _, s := range sh.seats {
			visit(*s.machine, s.free, s.why)
		}
	}
}

// Take claims a placement's amounts. Machines that have left are skipped.
func (f *Fabric) Take(p Placement) {
	for i := range p.Slots {
		f.move(p.Slots[i].Node, p.Slots[i].Amount, Capacity.Less)
	}
}

// Give returns a placement's amounts: the reverse of Take. What has left is no longer to leave, so beside what is kept
// no more comes free by it than there is, until the horizon is told.
func (f *Fabric) Give(p Placement) {
	for i := range p.Slots {
		id, amount := p.Slots[i].Node, p.Slots[i].Amount
		if s := f.seats[id]; s != nil && s.leaving != (Resources{}) {
			f.setLeaving(s, s.leaving.besides(amount))
		}
		f.move(id, amount, Capacity.More)
	}
}

func (f *Fabric) move(id NodeID, amount Resources, change func(Capacity, Resources) Capacity) {
	s := f.seats[id]
	if s == nil {
		return
	}
	f.record(id, s)
	s.free = change(s.free, amount)
	f.settle(s)
}

// settle writes a seat's room where the indexes read it, and notes the change. Kept room that grows counts as gained
// too: it can be lent.
func (f *Fabric) settle(s *seat) { f.settleAs(s, whatFree) }

func (f *Fabric) settleAs(s *seat, what aspect) {
	left, all := s.free, s.all
	if what == whatFree {
		all = s.room(s.free)
	}
	r := all
	if len(s.kept) > 0 {
		left = s.left(s.free, nil)
		r = s.room(left)
	}
	old := &s.shelf.rooms[s.at]
	f.revision++
	if r.grewFrom(old) || all.grewFrom(&s.all) {
		f.gained = f.revision
	}
	if r.servesElse(old) {
		f.serving = f.revision
	}
	*old, s.all, s.parts, s.settled = r, all, left.Parts, f.revision
	s.print(s.printed(&r))
	f.changes.note(s.shelf, what)
	f.noteSeat(s)
}

// Clone makes a copy; the two share only what never changes.
func (f *Fabric) Clone() *Fabric {
	c := NewFabric(f.levels)
	c.kept = f.kept.clone()
	f.arrange()
	for _, sh := range f.plan.shelves {
		for _, s := range sh.seats {
			c.join(s.machine, s.free, s.why)
			c.setLeaving(c.seats[s.id], s.leaving)
		}
	}
	c.revision, c.gained, c.serving = f.revision, f.revision, f.revision
	return c
}
