package topology

// This file owns the fabric: the view of every machine and what it has free.

import "sort"

// NodeLevel is the finest level of every fabric: the machine itself.
const NodeLevel = "node"

// Fabric is the tree of places with the machines in it.
type Fabric struct {
	levels []string
	seats  map[NodeID]*seat
}

type seat struct {
	machine Machine
	free    Capacity
	why     string
}

// Mark is a point to which a fabric can be rolled back.
type Mark struct{ depth int }

// NewFabric makes an empty fabric; levels are coarse to fine above the node.
func NewFabric(levels []string) *Fabric {
	return &Fabric{levels: levels, seats: map[NodeID]*seat{}}
}

func (f *Fabric) Join(m Machine, free Capacity) { f.seats[m.ID] = &seat{machine: m, free: free} }
func (f *Fabric) Remove(id NodeID)              { delete(f.seats, id) }
func (f *Fabric) SetFree(id NodeID, free Capacity) {
	if s := f.seats[id]; s != nil {
		s.free = free
	}
}
func (f *Fabric) SetUsable(id NodeID, why string) {
	if s := f.seats[id]; s != nil {
		s.why = why
	}
}

// Unusable is the reason why a machine gets no new work; "" when it does.
func (f *Fabric) Unusable(id NodeID) string {
	if s := f.seats[id]; s != nil {
		return s.why
	}
	return ""
}

// Len counts the machines.
func (f *Fabric) Len() int { return len(f.seats) }

// Levels lists the levels coarse to fine, the node last.
func (f *Fabric) Levels() []string { return append(append([]string(nil), f.levels...), NodeLevel) }

func (f *Fabric) Free(id NodeID) (Capacity, bool) {
	s := f.seats[id]
	if s == nil {
		return Capacity{}, false
	}
	return s.free, true
}
func (f *Fabric) Machine(id NodeID) (Machine, bool) {
	s := f.seats[id]
	if s == nil {
		return Machine{}, false
	}
	return s.machine, true
}
func (f *Fabric) add(p Placement, sign int64) {
	for _, s := range p.Slots {
		if t := f.seats[s.Node]; t != nil {
			t.free.MilliCPU += sign * s.Amount.MilliCPU
			t.free.MemoryBytes += sign * s.Amount.MemoryBytes
			t.free.WholeGPUs += int32(sign * s.Amount.MilliGPU / WholeGPU)
		}
	}
}
func (f *Fabric) Take(p Placement) { f.add(p, -1) }
func (f *Fabric) Give(p Placement) { f.add(p, 1) }

// Mark opens a checkpoint; close it with Rollback (undo) or Keep.
func (f *Fabric) Mark() Mark      { return Mark{} }
func (f *Fabric) Rollback(m Mark) {}
func (f *Fabric) Keep(m Mark)     {}

// Clone copies the fabric.
func (f *Fabric) Clone() *Fabric { return f }

// Walk visits every machine in the order of the fabric.
func (f *Fabric) Walk(visit func(m Machine, free Capacity, why string)) {
	for _, id := range f.ids() {
		s := f.seats[id]
		visit(s.machine, s.free, s.why)
	}
}

func (f *Fabric) ids() []NodeID {
	ids := make([]NodeID, 0, len(f.seats))
	for id := range f.seats {
		ids = append(ids, id)
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i] < ids[j] })
	return ids
}
