package topology

// This file has the reserved capacity of waiting gangs. Reservations are stored separately from free capacity. A report
// replaces the free capacity of a node without changing its reservations, and a node that leaves and joins again has
// the same reservations. A placement sees the free capacity minus the reservations, except for reservations that are
// lent to the search.
//
// The result must not depend on the order of reservations, and the unreserved remainder must only grow as more capacity
// becomes free. The horizon relies on both properties (horizon.go). Subtracting shares of devices one by one with
// Capacity.Less would violate both, because the shares would move between devices.

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// KeepID identifies a reservation: the promise of a job.
type KeepID string

// Former returns the ID of the capacity that is still reserved at the job's previous place.
func (id KeepID) Former() KeepID { return id + former }

// Job returns the job of the reservation.
func (id KeepID) Job() JobID { return JobID(strings.TrimSuffix(string(id), former)) }

// former never occurs in the ID of a job.
const former = "~"

// keep holds the capacity that is reserved for one promise; no slots: none.
type keep struct {
	id    KeepID
	slots []Slot
	from  int64 // expected start of the promise; 0: any time
}

// keptFor holds the capacity of one node that is reserved for one promise.
type keptFor struct {
	id      KeepID
	amounts []Resources
	from    int64 // as in keep
}

// keptRoom has all reservations. The values in its maps are never changed, so copies share them.
type keptRoom struct {
	by map[KeepID]keep
	on map[NodeID][]keptFor // in the order of IDs; also for nodes that have not joined
}

func newKeptRoom() keptRoom { return keptRoom{by: map[KeepID]keep{}, on: map[NodeID][]keptFor{}} }

func (k *keptRoom) clone() keptRoom { return keptRoom{by: maps.Clone(k.by), on: maps.Clone(k.on)} }

// Keep reserves the amounts of a placement for a promise and replaces its earlier reservation. The nodes may have less
// free capacity: capacity that becomes free is then reserved up to these amounts.
func (f *Tree) Keep(id KeepID, p Placement) { f.changeKeep(id, p.Slots, 0) }

// Unkeep ends the reservation of a promise.
func (f *Tree) Unkeep(id KeepID) { f.changeKeep(id, nil, 0) }

func (f *Tree) changeKeep(id KeepID, slots []Slot, from int64) {
	old := f.kept.by[id]
	if old.from == from && slices.Equal(old.slots, slots) {
		return
	}
	if f.marks > 0 {
		old.id = id
		f.undo = append(f.undo, undoRecord{kept: &old})
	}
	f.setKeep(keep{id, slices.Clone(slots), from})
}

// setKeep replaces the reservation of a promise. It settles nodes only after the complete replacement, so that
// unchanged reservations do not look like freed capacity.
func (f *Tree) setKeep(k keep) {
	id, slots := k.id, k.slots
	old, changed := f.kept.by[id].slots, f.work.seats[:0]
	for i := range old {
		if node := old[i].Node; i == 0 || node != old[i-1].Node {
			s := f.seats[node]
			f.setKeptOn(s, node, dropped(f.keptOn(s, node), id))
			changed = append(changed, s)
		}
	}
	for len(slots) > 0 {
		node, on := slots[0].Node, 1
		for on < len(slots) && slots[on].Node == node {
			on++
		}
		s := f.seats[node]
		f.setKeptOn(s, node, added(f.keptOn(s, node), &k, slots[:on]))
		changed, slots = append(changed, s), slots[on:]
	}
	if len(k.slots) > 0 {
		f.kept.by[id] = k
	} else {
		delete(f.kept.by, id)
	}
	for _, s := range changed {
		if s != nil {
			s.leaving = f.leavingOn(s)
			f.settleAs(s, whatLeft)
		}
	}
	clear(changed)
	f.work.seats = changed
	f.noteKept(id)
}

// keptOn returns the reservations on a node. If the node is present, they are read from its seat.
func (f *Tree) keptOn(s *seat, node NodeID) []keptFor {
	if s != nil {
		return s.kept
	}
	return f.kept.on[node]
}

func (f *Tree) setKeptOn(s *seat, node NodeID, all []keptFor) {
	if s != nil {
		s.kept = all
	}
	if len(all) > 0 {
		f.kept.on[node] = all
	} else {
		delete(f.kept.on, node)
	}
}

func dropped(all []keptFor, id KeepID) (rest []keptFor) {
	if len(all) == 1 && all[0].id == id { // the usual case
		return nil
	}
	for _, kept := range all {
		if kept.id != id {
			rest = append(rest, kept)
		}
	}
	return rest
}

func added(all []keptFor, k *keep, slots []Slot) []keptFor {
	at, ok := slices.BinarySearchFunc(all, k.id, func(kept keptFor, id KeepID) int { return cmp.Compare(kept.id, id) })
	if ok {
		all = slices.Clone(all)
	} else {
		all = slices.Concat(all[:at], []keptFor{{id: k.id, from: k.from}}, all[at:])
	}
	amounts := make([]Resources, 0, len(all[at].amounts)+len(slots))
	amounts = append(amounts, all[at].amounts...)
	for i := range slots {
		amounts = append(amounts, slots[i].Amount)
	}
	all[at].amounts = amounts
	return all
}

// Kept returns the capacity that is reserved for one promise; nil: none. The caller only reads it.
func (f *Tree) Kept(id KeepID) []Slot { return f.kept.by[id].slots }

// Keeps reports whether any capacity is reserved for a job.
func (f *Tree) Keeps(job JobID) bool {
	own := KeepID(job)
	return len(f.Kept(own)) > 0 || len(f.Kept(own.Former())) > 0
}

// EachKept visits the reservations on a node, in the order of IDs.
func (f *Tree) EachKept(node NodeID, visit func(id KeepID, amount Resources)) {
	all := f.kept.on[node]
	for i := range all {
		visit(all[i].id, all[i].sum())
	}
}

// Lent selects the reserved capacity that counts as free in one search: all of it, or some reservations.
type Lent struct {
	All bool
	Of  []KeepID
}

// lentSet holds the form of Lent that a lens reads; nil: nothing is lent.
type lentSet struct {
	all bool
	of  map[KeepID]bool
}

func (l *lentSet) has(id KeepID) bool { return l != nil && (l.all || l.of[id]) }

// lentText returns a text that identifies the lent reservations. Reservations without capacity are omitted.
func (f *Tree) lentText(lent Lent) string {
	if lent.All {
		return "*"
	}
	if len(lent.Of) == 0 {
		return ""
	}
	w := &f.work
	w.keeps = f.keeping(w.keeps[:0], lent)
	return f.remembered(appendNames(w.text[:0], w.keeps))
}

// lentOf returns the reservations that lentText names.
func (f *Tree) lentOf(lent Lent) *lentSet {
	return &lentSet{all: lent.All, of: setOf(f.keeping(nil, lent))}
}

func (f *Tree) keeping(ids []KeepID, lent Lent) []KeepID {
	for _, id := range lent.Of {
		if len(f.Kept(id)) > 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// left returns the part of a node's capacity that is not reserved, or is lent. Capacity that leaves before the
// reservation begins need not be free now (leaving.go).
func (s *seat) left(c Capacity, lent *lentSet) Capacity { return s.beside(c, lent, s.leaving) }

// beside returns the part of a capacity that is not reserved, or is lent, if the given amount leaves before the
// reservation begins.
func (s *seat) beside(c Capacity, lent *lentSet, leaving Resources) Capacity {
	total := s.machine.Total
	c.MilliCPU, c.MemoryBytes = min(c.MilliCPU, total.MilliCPU), min(c.MemoryBytes, total.MemoryBytes)
	devices := total.MilliGPU / WholeGPU
	c.WholeGPUs = int32(min(int64(c.WholeGPUs), devices))
	// More ends may be known than there are devices. A part beyond the devices would make the capacity shrink when
	// the part becomes a whole device.
	if most := int(devices) - int(c.WholeGPUs); len(c.Parts) > most {
		c.Parts = c.Parts[:most]
	}
	var k claims
	for i := range s.kept {
		if !lent.has(s.kept[i].id) {
			k.add(s.kept[i].amounts)
		}
	}
	if leaving != (Resources{}) {
		k.relieve(leaving, total, c)
	}
	c, _ = k.from(c)
	return c
}

// claims are amounts that one node must provide at the same time.
type claims struct {
	sum     Resources // without the shares of devices
	devices []int64   // thousandths of one device each
}

func (k *claims) add(amounts []Resources) {
	for _, a := range amounts {
		if share := a.MilliGPU % WholeGPU; share > 0 {
			k.devices = append(k.devices, share)
			a.MilliGPU -= share
		}
		k.sum = k.sum.Plus(a)
	}
}

// join packs the shares onto devices, largest first. It does not use the state of the node, so the result does not
// depend on the free capacity.
func (k *claims) join() {
	slices.SortFunc(k.devices, largestFirst)
	n := 0
	for _, share := range k.devices {
		at := slices.IndexFunc(k.devices[:n], func(d int64) bool { return d+share <= WholeGPU })
		if at < 0 {
			at, n = n, n+1
			k.devices[at] = 0
		}
		k.devices[at] += share
	}
	k.devices = k.devices[:n]
	slices.SortFunc(k.devices, largestFirst)
}

// from subtracts the claims from a capacity. It returns the remainder without negative amounts, and whether the
// capacity was sufficient. Each claimed device takes the smallest part that holds it. If a device is missing, no part
// remains, because each part may grow into that device.
func (k *claims) from(c Capacity) (left Capacity, held bool) {
	left = Capacity{MilliCPU: c.MilliCPU - k.sum.MilliCPU, MemoryBytes: c.MemoryBytes - k.sum.MemoryBytes, Parts: c.Parts}
	whole := int64(c.WholeGPUs) - k.sum.MilliGPU/WholeGPU
	if len(k.devices) > 0 {
		k.join()
		left.Parts, whole = k.fromParts(c.Parts, whole)
	}
	held = left.MilliCPU >= 0 && left.MemoryBytes >= 0 && whole >= 0
	if whole < 0 {
		left.Parts = nil
	}
	left.WholeGPUs = int32(max(whole, 0))
	left.MilliCPU, left.MemoryBytes = max(left.MilliCPU, 0), max(left.MemoryBytes, 0)
	return left, held
}

// fromParts takes the claimed devices from the parts, and from whole devices if no part is large enough.
func (k *claims) fromParts(parts []int64, whole int64) (left []int64, rest int64) {
	unused := slices.Clone(parts)
	for _, claim := range k.devices {
		size := int64(WholeGPU)
		if at := smallest(unused, claim); at >= 0 {
			size = unused[at]
			unused = slices.Delete(unused, at, at+1)
		} else {
			whole--
		}
		if size > claim {
			left = append(left, size-claim)
		}
	}
	left = append(left, unused...)
	slices.SortFunc(left, largestFirst)
	return left, whole
}
