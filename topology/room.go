package topology

// This file has the layout of nodes in memory. Each node has a seat with all its data, and a room with the few numbers
// that a placement reads. A shelf stores the rooms of neighbouring nodes together.
//
// A shelf is the smallest part that is counted again after a change. Usually it is a rack. A domain of more than
// shelfLimit nodes has several shelves, so that one change never requires counting all of it. An example is a cluster
// without named racks. Shelves matter only for speed: no answer may depend on their boundaries.

import (
	"cmp"
	"math"
	"slices"
)

const shelfLimit = 32

// seat is the data of one node.
type seat struct {
	id      NodeID
	machine *Machine // never changed: undo records and copies share it
	free    Capacity
	why     string
	kind    int32
	at      int32
	shelf   *shelf

	kept    []keptFor // the reservations on the node
	leaving Resources // amount that leaves before any reservation begins
	all     room      // all free capacity; the room on the shelf excludes reservations
	parts   []int64   // unreserved parts of devices
	settled uint64    // revision of the last change
	joined  uint64    // identifies each description of the node
	prints  prints
	untold  bool // changed after the last update of the follower
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
	broken             uint8 // devices out of service; not in gpus
}

type shelf struct {
	rack    *domain
	at      int32           // index in the layout
	changed [aspects]uint64 // position in the log of the last change, by aspect
	prints  prints
	touched uint64 // number of the last change of ends on its nodes
	rooms   []room
	seats   []*seat
}

// room converts a capacity of the node to a room.
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

// grewFrom reports whether the change of a room may allow a gang that was refused before. A change of the node itself
// (its devices, its kind) counts too.
func (r *room) grewFrom(old *room) bool {
	if r.gpus != old.gpus || r.kind != old.kind || r.cpuTotal > old.cpuTotal || r.memTotal > old.memTotal {
		return true
	}
	if !r.usable {
		return false
	}
	return !old.usable || r.cpu > old.cpu || r.mem > old.mem || r.whole > old.whole || r.part > old.part
}

// servesElse reports whether a node entered or left service, or changed its total.
func (r *room) servesElse(old *room) bool {
	return r.usable != old.usable || r.kind != old.kind || r.gpus != old.gpus || r.broken != old.broken ||
		r.cpuTotal != old.cpuTotal || r.memTotal != old.memTotal
}

// supposed returns the room under the assumptions of a lens: nothing runs on the node, the node is in service, or
// neither.
func (r room) supposed(idle, all bool) room {
	if idle {
		r.cpu, r.mem, r.whole, r.part = r.cpuTotal, r.memTotal, r.gpus, 0
	}
	r.usable = r.usable || all
	return r
}

// precious reports whether all devices of a node are completely free. Such a node is the last one to break for a small
// gang.
func (r *room) precious() bool { return r.gpus > 0 && r.whole == r.gpus }

// seatIn adds a seat to its shelf, in the order of IDs.
func (f *Tree) seatIn(s *seat) {
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

// seatOut removes a seat from its shelf. It also removes an empty shelf and empty domains.
func (f *Tree) seatOut(s *seat) {
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

// splitShelf moves the upper half of a full shelf to a new one, and returns the half to which an ID belongs.
func (f *Tree) splitShelf(sh *shelf, id NodeID) *shelf {
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
