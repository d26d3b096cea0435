package topology

// This file has the topology tree: all known nodes with their position, their free capacity in the leader's view, and
// whether they are schedulable. The node's own ledger is authoritative, and the view can be stale. The tree therefore
// accepts inconsistent values for a while: a negative amount counts as no capacity, and Give is the exact inverse of
// Take. The tree must never lose or invent an amount. No answer may depend on the order in which nodes joined.

import "slices"

// NodeLevel is the finest level of every topology tree: a single node.
const NodeLevel = "node"

// Tree is the topology tree with its nodes. It is not safe for concurrent use, not even for reading, because placing
// updates its indexes.
type Tree struct {
	levels []string // coarse to fine, without the node
	root   *domain
	seats  map[NodeID]*seat
	kinds  kindTable
	kept   keptRoom
	// horizon knows the ends of running jobs. It is nil in a copy that is not used for planning.
	horizon *Horizon

	plan     layout
	changes  changeLog
	revision uint64 // counts all changes of capacity
	touches  uint64 // counts all changes of known ends
	gained   uint64 // revision of the last growth of capacity anywhere
	serving  uint64 // revision of the last change of the nodes in service

	undo    []undoRecord
	marks   int
	follow  *following // nil: no follower
	follows bool       // this tree follows another one and is not used for planning

	suspects []NodeID // nodes that big gangs avoid if they can

	lenses lensCache
	work   scratch
}

// NewTree returns an empty tree. The levels are in order from coarse to fine, such as zone, block, rack. The node is
// always the finest level.
func NewTree(levels []string) *Tree {
	if n := len(levels); n > 0 && levels[n-1] == NodeLevel {
		levels = levels[:n-1]
	}
	return &Tree{
		levels: slices.Clone(levels),
		root:   &domain{},
		seats:  map[NodeID]*seat{},
		kinds:  newKindTable(),
		kept:   newKeptRoom(),
		lenses: newLensCache(),
		plan:   layout{stale: true},
	}
}

// Levels returns the levels from coarse to fine, with the node last.
func (f *Tree) Levels() []string { return append(slices.Clone(f.levels), NodeLevel) }

// Finer reports whether a level is finer than another one. "" is coarser than all levels. An unknown level counts as
// finer than all, so that it is refused by name.
func (f *Tree) Finer(level, than string) bool {
	a, ok := f.tierOf(level)
	b, _ := f.tierOf(than)
	return !ok || a > b
}

// IsWithin reports whether all nodes of a placement are in one domain of a level.
func (f *Tree) IsWithin(p Placement, level string) bool {
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

// Len returns the number of nodes.
func (f *Tree) Len() int { return len(f.seats) }

// Revision grows with every change of capacity. If two revisions of one tree are equal, every gang gets the same
// placement or refusal.
func (f *Tree) Revision() uint64 { return f.revision }

// Gained returns the revision of the last growth of capacity anywhere, including reserved capacity. A gang that was
// refused at that revision or later is still refused, even if it may use reserved capacity.
func (f *Tree) Gained() uint64 { return f.gained }

// Serving returns the revision of the last change of the nodes in service: a node joined or left service, or its total
// changed. The answer of InService stays the same until then.
func (f *Tree) Serving() uint64 { return f.serving }

// Join adds a node, or replaces its description. The node is schedulable at once.
func (f *Tree) Join(m Machine, free Capacity) {
	f.record(m.ID, f.seats[m.ID])
	place := make([]string, len(f.levels))
	copy(place, m.Place)
	m.Place, m.Labels = place, slices.Clone(m.Labels)
	free.Parts = slices.Clone(free.Parts)
	f.join(&m, free, "")
}

// join adds a node to the tree. The place must have one name per level. A node with fewer names is in an unnamed
// domain. The tree never changes the machine afterwards.
func (f *Tree) join(m *Machine, free Capacity, why string) {
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

// Remove removes a node.
func (f *Tree) Remove(id NodeID) {
	if s := f.seats[id]; s != nil {
		f.record(id, s)
		f.remove(s)
	}
}

func (f *Tree) remove(s *seat) {
	f.kinds.leave(s.kind)
	delete(f.seats, s.id)
	f.seatOut(s)
	f.noteGone(s.id)
	f.revision++
	f.serving = f.revision
}

// SetFree replaces the free capacity of a node. It ignores an unknown node, because a report can cross a removal.
func (f *Tree) SetFree(id NodeID, free Capacity) {
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

// SetUsable sets the reason why a node gets no new work, or "" for a schedulable node. Waiting jobs show the reason.
func (f *Tree) SetUsable(id NodeID, why string) {
	s := f.seats[id]
	if s == nil || s.why == why {
		return
	}
	f.record(id, s)
	s.why = why
	f.settle(s)
}

// Free returns the capacity of a node that is free in the view, reserved or not.
func (f *Tree) Free(id NodeID) (Capacity, bool) {
	s := f.seats[id]
	if s == nil {
		return Capacity{}, false
	}
	c := s.free
	c.Parts = slices.Clone(c.Parts)
	return c, true
}

// Machine returns the announcement of a node. The caller only reads it.
func (f *Tree) Machine(id NodeID) (Machine, bool) {
	s := f.seats[id]
	if s == nil {
		return Machine{}, false
	}
	return *s.machine, true
}

// unusable returns the reason why a node gets no new work, or "" if it is schedulable or unknown.
func (f *Tree) unusable(id NodeID) string {
	if s := f.seats[id]; s != nil {
		return s.why
	}
	return ""
}

// Walk visits all nodes in the order of the tree: by domain, then by ID.
func (f *Tree) Walk(visit func(m Machine, free Capacity, why string)) {
	f.arrange()
	for _, sh := range f.plan.shelves {
		for _, s := range sh.seats {
			visit(*s.machine, s.free, s.why)
		}
	}
}

// Take subtracts the amounts of a placement. It skips nodes that have left.
func (f *Tree) Take(p Placement) {
	for i := range p.Slots {
		f.move(p.Slots[i].Node, p.Slots[i].Amount, Capacity.Less)
	}
}

// Give adds the amounts of a placement, as the inverse of Take. It also subtracts them from the capacity that is
// expected to leave, because they have now left. Otherwise they would count twice until the next update of the horizon.
func (f *Tree) Give(p Placement) {
	for i := range p.Slots {
		id, amount := p.Slots[i].Node, p.Slots[i].Amount
		if s := f.seats[id]; s != nil && s.leaving != (Resources{}) {
			f.setLeaving(s, s.leaving.besides(amount))
		}
		f.move(id, amount, Capacity.More)
	}
}

func (f *Tree) move(id NodeID, amount Resources, change func(Capacity, Resources) Capacity) {
	s := f.seats[id]
	if s == nil {
		return
	}
	f.record(id, s)
	s.free = change(s.free, amount)
	f.settle(s)
}

// settle writes the capacity of a node to its shelf and records the change. A growth of reserved capacity counts as
// gained, because that capacity can be backfilled.
func (f *Tree) settle(s *seat) { f.settleAs(s, whatFree) }

func (f *Tree) settleAs(s *seat, what aspect) {
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

// Clone returns a copy. The copy shares only data that never changes.
func (f *Tree) Clone() *Tree {
	c := NewTree(f.levels)
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
