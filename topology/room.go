package topology

// This file owns how machines are kept in memory: the seat of each machine, the
// few numbers that placing reads of it (its room), and the shelves on which the
// rooms of neighbours lie side by side.
//
// A shelf is the smallest piece that is counted again after a change. Usually it
// is a rack; a domain of more than shelfLimit machines (a cluster whose racks
// nobody named) is cut into several, so that one change never costs a walk over
// all of it. Shelves matter for speed only: no answer may depend on where one ends.

import (
	"cmp"
	"math"
	"slices"
)

const shelfLimit = 32

// seat is all that is known of one machine.
type seat struct {
	id      NodeID
	machine *Machine // never written to: undo records and copies share it
	free    Capacity
	why     string
	kind    int32
	at      int32
	shelf   *shelf

	kept    []keptFor // what of it is kept, and for whom
	leaving Resources // has left before that begins
	all     room      // of all that is free; what is left beside kept room is on the shelf
	parts   []int64   // the parts that are left
	settled uint64    // the revision at which it last changed
	joined  uint64    // tells apart each time that its machine was described
	prints  prints
	untold  bool // it changed since the follower was told of it
}

// room holds the data of a node that counting reads. It is small and without pointers, so that a rack is a few cache
// lines. Free amounts are cut to 0..total.
type room struct {
	cpu, mem           int64
	cpuTotal, memTotal int64
	whole, gpus        int32
	kind               int32
	part               int16 // the largest part of a shared device
	usable             bool
	broken             uint8 // devices out of service; no part of gpus
}

type shelf struct {
	rack    *domain
	at      int32           // its index in the layout
	changed [aspects]uint64 // its position in the log for the last change of each
	prints  prints
	touched uint64 // which change of the ends on its machines was the last; they are numbered
	rooms   []room
	seats   []*seat
}

// room is a capacity of the machine as counting reads it.
func (s *seat) room(c Capacity) room {
	total := s.machine.Total
	gpus := max(0, total.MilliGPU/WholeGPU)
	r := room{
		cpu:      min(max(0, c.MilliCPU), total.MilliCPU),
		mem:      min(max(0, c.MemoryBytes), total.MemoryBytes),
		cpuTotal: total.MilliCPU,
		memTotal: total.MemoryBytes,
		whole:    int32(min(max(0, int64(c.WholeGPUs)), gpus)),
		gpus:     int32(gpus),
		kind:     s.kind,
		usable:   s.why == "",
		broken:   uint8(min(max(0, s.machine.Broken), math.MaxUint8)),
	}
	if len(c.Parts) > 0 {
		r.part = int16(min(max(0, c.Parts[0]), WholeGPU-1))
	}
	return r
}

// grewFrom reports whether a room changed so that a gang that was refused before may fit. A change of the machine
// itself (its devices, its kind) counts too.
func (r *room) grewFrom(old *room) bool {
	if r.gpus != old.gpus || r.kind != old.kind || r.cpuTotal > old.cpuTotal || r.memTotal > old.memTotal {
		return true
	}
	if !r.usable {
		return false
	}
	return !old.usable || r.cpu > old.cpu || r.mem > old.mem || r.whole > old.whole || r.part > old.part
}

// servesElse reports whether a machine came into service or left it, or has another amount in all.
func (r *room) servesElse(old *room) bool {
	return r.usable != old.usable || r.kind != old.kind || r.gpus != old.gpus || r.broken != old.broken ||
		r.cpuTotal != old.cpuTotal || r.memTotal != old.memTotal
}

// supposed is the room as a lens supposes it: with nothing running on the machine, with the machine in service, or as
// it is.
func (r room) supposed(idle, all bool) room {
	if idle {
		r.cpu, r.mem, r.whole, r.part = r.cpuTotal, r.memTotal, r.gpus, 0
	}
	r.usable = r.usable || all
	return r
}

// precious reports whether a machine has devices and all of them are whole and free: it is the last to be broken for a
// small gang.
func (r *room) precious() bool { return r.gpus > 0 && r.whole == r.gpus }

// seatIn puts a seat on the shelf where it belongs, in the order of ids.
func (f *Fabric) seatIn(s *seat) {
	rack := f.root
	for _, name := range s.machine.Place {
		rack = rack.childNamed(name)
	}
	sh := rack.shelfFor(s.id)
	if sh == nil {
		sh = &shelf{rack: rack}
		rack.shelves = append(rack.shelves, sh)
		f.plan.stale = true
	}
	if len(sh.seats) == shelfLimit {
		sh = f.splitShelf(sh, s.id)
	}
	at, _ := sh.find(s.id)
	sh.seats = slices.Insert(sh.seats, at, s)
	sh.rooms = slices.Insert(sh.rooms, at, room{})
	sh.renumber(at)
}

// seatOut takes a seat off its shelf, and an empty shelf and empty domains out
// of the tree.
func (f *Fabric) seatOut(s *seat) {
	sh, at := s.shelf, int(s.at)
	s.print(prints{})
	sh.seats = slices.Delete(sh.seats, at, at+1)
	sh.rooms = slices.Delete(sh.rooms, at, at+1)
	sh.renumber(at)
	f.changes.note(sh, whatFree)
	if len(sh.seats) > 0 {
		return
	}
	sh.at = -1
	d := sh.rack
	d.shelves = slices.DeleteFunc(d.shelves, func(o *shelf) bool { return o == sh })
	for d.parent != nil && len(d.shelves) == 0 && len(d.children) == 0 {
		d.parent.dropChild(d)
		d = d.parent
	}
	f.plan.stale = true
}

// splitShelf moves the upper half of a full shelf to a new one and answers the
// half on which an id belongs.
func (f *Fabric) splitShelf(sh *shelf, id NodeID) *shelf {
	half := len(sh.seats) / 2
	next := &shelf{rack: sh.rack, seats: slices.Clone(sh.seats[half:]), rooms: slices.Clone(sh.rooms[half:])}
	sh.seats, sh.rooms = slices.Delete(sh.seats, half, len(sh.seats)), sh.rooms[:half]
	for _, s := range next.seats {
		for i, p := range s.prints {
			sh.prints[i] -= p
			next.prints[i] += p
		}
	}
	next.renumber(0)
	at := slices.Index(sh.rack.shelves, sh)
	sh.rack.shelves = slices.Insert(sh.rack.shelves, at+1, next)
	f.plan.stale = true
	f.changes.note(sh, whatFree)
	if id > next.seats[0].id {
		return next
	}
	return sh
}

func (sh *shelf) find(id NodeID) (int, bool) {
	return slices.BinarySearchFunc(sh.seats, id, func(s *seat, id NodeID) int {
		return cmp.Compare(s.id, id)
	})
}

func (sh *shelf) renumber(from int) {
	for i := from; i < len(sh.seats); i++ {
		sh.seats[i].shelf, sh.seats[i].at = sh, int32(i)
	}
}
