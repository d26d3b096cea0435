package topology

// This file owns going back: a mark, and the record of every change made after
// it, so that a plan can be tried on the live view ("what if this job ended?")
// and taken back for the price of what it touched.

import "fmt"

// Mark is a point to which a fabric can be rolled back. Marks nest; each ends by
// exactly one Rollback or Accept, the last one opened first.
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
func (f *Fabric) Mark() Mark {
	f.marks++
	return Mark{depth: f.marks, length: len(f.undo)}
}

// Rollback takes back everything done since the mark.
func (f *Fabric) Rollback(m Mark) {
	f.close(m)
	for i := len(f.undo) - 1; i >= m.length; i-- {
		f.revert(&f.undo[i])
	}
	clear(f.undo[m.length:])
	f.undo = f.undo[:m.length]
}

// Accept ends a mark without taking anything back; an outer mark still can.
func (f *Fabric) Accept(m Mark) {
	f.close(m)
	if f.marks == 0 {
		clear(f.undo)
		f.undo = f.undo[:0]
	}
}

func (f *Fabric) close(m Mark) {
	if m.depth != f.marks || m.length > len(f.undo) {
		panic(fmt.Sprintf("topology: mark %d ends while mark %d is open", m.depth, f.marks))
	}
	f.marks--
}

// record notes what is known of a machine, nil for nothing, before a change.
func (f *Fabric) record(id NodeID, s *seat) {
	if f.marks == 0 {
		return
	}
	u := undoRecord{id: id}
	if s != nil {
		u = undoRecord{id: id, machine: s.machine, free: s.free, why: s.why, leaving: s.leaving}
	}
	f.undo = append(f.undo, u)
}

func (f *Fabric) revert(u *undoRecord) {
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
