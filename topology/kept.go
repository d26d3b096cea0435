package topology

// This file owns kept room: what a promise keeps on machines for a gang that is to start later. It is a layer beside
// what is free: a report replaces what a machine has free and must not erase what is kept there, and a machine that
// leaves and joins again is kept for the same promise as before. Placing sees what is free less what is kept, unless
// that is lent to the search.
//
// What is kept does not depend on the order of promises, and what is left beside it only grows while more comes free:
// the horizon relies on both (horizon.go). For shared devices neither holds by itself: taken one after another by
// Capacity.Less, kept shares would lie on one device today and on another tomorrow.

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// KeepID names whom room is kept for: the promise of a job.
type KeepID string

// Former names what is still kept where a promise was before.
func (id KeepID) Former() KeepID { return id + former }

// Job returns the job of the reservation.
func (id KeepID) Job() JobID { return JobID(strings.TrimSuffix(string(id), former)) }

// former is in no id of a job.
const former = "~"

// keep holds the capacity that is reserved for one promise; no slots: none.
type keep struct {
	id    KeepID
	slots []Slot
	from  int64 // when the promise is expected to begin; 0: it may at any time
}

// keptFor holds the capacity of one node that is reserved for one promise.
type keptFor struct {
	id      KeepID
	amounts []Resources
	from    int64 // as in keep
}

// keptRoom is all that is kept. What the maps hold is never written to, so that copies share it.
type keptRoom struct {
	by map[KeepID]keep
	on map[NodeID][]keptFor // in the order of ids; machines that are not here too
}

func newKeptRoom() keptRoom { return keptRoom{by: map[KeepID]keep{}, on: map[NodeID][]keptFor{}} }

func (k *keptRoom) clone() keptRoom { return keptRoom{by: maps.Clone(k.by), on: maps.Clone(k.on)} }

// Keep keeps a placement's amounts for one promise, in place of what was kept for it. The machines need not have that
// much free: what comes free there is kept too, until they do.
func (f *Fabric) Keep(id KeepID, p Placement) { f.changeKeep(id, p.Slots, 0) }

// Unkeep gives back what is kept for one promise.
func (f *Fabric) Unkeep(id KeepID) { f.changeKeep(id, nil, 0) }

func (f *Fabric) changeKeep(id KeepID, slots []Slot, from int64) {
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

// setKeep replaces what is kept for one promise. Machines are settled once all of it is replaced, so that none seems to
// gain what was kept there before and is kept again.
func (f *Fabric) setKeep(k keep) {
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
func (f *Fabric) keptOn(s *seat, node NodeID) []keptFor {
	if s != nil {
		return s.kept
	}
	return f.kept.on[node]
}

func (f *Fabric) setKeptOn(s *seat, node NodeID, all []keptFor) {
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
	if len(all) == 1 && all[0].id == id { // most often
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
func (f *Fabric) Kept(id KeepID) []Slot { return f.kept.by[id].slots }

// Keeps reports whether anything is kept for a job.
func (f *Fabric) Keeps(job JobID) bool {
	own := KeepID(job)
	return len(f.Kept(own)) > 0 || len(f.Kept(own.Former())) > 0
}

// EachKept visits what is kept on a machine, in the order of ids.
func (f *Fabric) EachKept(node NodeID, visit func(id KeepID, amount Resources)) {
	all := f.kept.on[node]
	for i := range all {
		visit(all[i].id, all[i].sum())
	}
}

// Lent says which kept room counts as free for one search: all of it, or what is kept for some.
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

// lentText names what is lent, one text per set. Promises that keep nothing are left out.
func (f *Fabric) lentText(lent Lent) string {
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
func (f *Fabric) lentOf(lent Lent) *lentSet {
	return &lentSet{all: lent.All, of: setOf(f.keeping(nil, lent))}
}

func (f *Fabric) keeping(ids []KeepID, lent Lent) []KeepID {
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
	// More may seem to end than there is. A part beyond the devices would make room shrink once it is a whole one.
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

// claims are amounts that one machine is to give at once.
type claims struct {
	sum     Resources // without the shares
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

// join packs shares onto devices, the largest first, without looking at the machine: where they lie does not depend on
// what is free.
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

// from takes the claims from a capacity: what is left, nothing below zero, and whether it held them all. Each claimed
// device is a different one, the smallest part that holds it. While one is lacking, no part is left to others: any part
// may grow into it.
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

// fromParts takes the devices from the parts, and those that no part holds from whole devices.
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
