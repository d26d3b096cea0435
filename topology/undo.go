package topology

// This file has marks and undo records. A plan can be tried on the live view ("what if this job ended?") and rolled
// back. A rollback costs time proportional to the changes.

import "fmt"

// Mark is a point to which a tree can be rolled back. Marks nest: each ends by exactly one Rollback or Accept, in
// reverse order.
type Mark struct {
	depth  int
	length int
}

// undoRecord holds the state of a node before a change, with no machine if it was unknown, or the capacity that was
// reserved for one promise.
type undoRecord struct {
	id      NodeID
	machine *Machine
	free    Capacity
	why     string
	leaving Resources
	kept    *keep
}

// Mark opens a mark.
func (f *Tree) Mark() Mark {
	f.marks++
	return Mark{depth: f.marks, length: len(f.undo)}
}

// Rollback reverts all changes after the mark.
func (f *Tree) Rollback(m Mark) {
	f.close(m)
	for i := len(f.undo) - 1; i >= m.length; i-- {
		f.revert(&f.undo[i])
	}
	clear(f.undo[m.length:])
	f.undo = f.undo[:m.length]
}

// Accept ends a mark and keeps its changes. An outer mark can still revert them.
func (f *Tree) Accept(m Mark) {
	f.close(m)
	if f.marks == 0 {
		clear(f.undo)
		f.undo = f.undo[:0]
	}
}

func (f *Tree) close(m Mark) {
	if m.depth != f.marks || m.length > len(f.undo) {
		panic(fmt.Sprintf("topology: mark %d ends, but mark %d is the innermost", m.depth, f.marks))
	}
	f.marks--
}

// record stores the state of a node before a change. s is nil for an unknown node.
func (f *Tree) record(id NodeID, s *seat) {
	if f.marks == 0 {
		return
	}
	u := undoRecord{id: id}
	if s != nil {
		u = undoRecord{id: id, machine: s.machine, free: s.free, why: s.why, leaving: s.leaving}
	}
	f.undo = append(f.undo, u)
}

func (f *Tree) revert(u *undoRecord) {
	s := f.seats[u.id]
	switch {
	case u.kept != nil:
		f.setKeep(*u.kept)
	case u.machine == nil && s != nil:
		f.remove(s)
	case u.machine != nil && s != nil && s.machine == u.machine:
		s.free, s.why, s.leaving = u.free, u.why, u.leaving
		f.settle(s)
	case u.machine != nil:
		f.join(u.machine, u.free, u.why)
		f.setLeaving(f.seats[u.id], u.leaving)
	}
}
