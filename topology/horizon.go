package topology

// This file has the horizon: the capacity that will be free, by node and time, and the earliest time at which a gang
// fits. The horizon knows the end of each allocation. It reads the rest from its topology tree: free capacity,
// reservations and unavailable nodes. All members of a gang must fit at the same time. This time can be later than the
// earliest time of each single member.
//
// Free capacity only grows with time, because the horizon contains ends and no starts. A gang that fits at one time
// fits at every later time.

import (
	"cmp"
	"math"
	"slices"
)

// Never is the time of an event that does not happen.
const Never = math.MaxInt64

// Basis is the source of an end.
type Basis uint8

const (
	// ByLimit: the latest end, by the time limit.
	ByLimit Basis = iota
	// ByEstimate: the expected end.
	ByEstimate
	bases
)

// End is an amount that becomes free on a node, with two times in ns above zero. Hard is by the limit (Never if there
// is none), and Likely is by the estimate.
type End struct {
	Amount       Resources
	Hard, Likely int64
	Of           JobID // adjacent amounts of one job with equal ends become free together; "": each separately
}

func (e *End) by(b Basis) int64 {
	if b == ByLimit {
		return e.Hard
	}
	return e.Likely
}

// Horizon knows which capacity will be free on which node at which time, in addition to the tree, which knows what is
// free now. It follows every change of that tree by itself.
type Horizon struct {
	f         *Tree
	machines  map[NodeID]*lodging
	revision  uint64
	made      uint64 // counts added and removed lodgings
	forecasts [bases]forecast

	// Memory that is reused between questions.
	lens     lens // to view the tree at one time
	instants []int64
	gains    []gain
	sums     []gain
}

// lodging holds the known ends on one node.
type lodging struct {
	told     []End
	ends     [bases][]ending
	backOff  int64 // end of the node's backoff; 0: none
	revision uint64
}

// ending is an end by one basis.
type ending struct {
	at     int64
	amount Resources
}

// NewHorizon returns a horizon without ends, and attaches it to a tree.
func NewHorizon(f *Tree) *Horizon {
	h := &Horizon{f: f, machines: map[NodeID]*lodging{}}
	for b := range h.forecasts {
		h.forecasts[b] = forecast{h: h, by: Basis(b), outlooks: map[outlookKey]*outlook{}}
	}
	f.horizon = h
	for id := range f.kept.on { //order: each independent
		h.settle(f.seats[id])
	}
	return h
}

// Set replaces the known ends on a node. It may be called before the node joins.
func (h *Horizon) Set(id NodeID, ends []End) {
	if l := h.lodging(id, len(ends) > 0); l != nil && !slices.Equal(l.told, ends) {
		l.told = append(l.told[:0], ends...)
		for by := range bases {
			l.ends[by] = endingsOf(l.ends[by][:0], ends, by)
		}
		h.touch(id, l)
	}
}

// BackedOff sets the end of a node's backoff, or 0 for none. A node that is unschedulable without a backoff never
// becomes schedulable in the horizon.
func (h *Horizon) BackedOff(id NodeID, until int64) {
	if l := h.lodging(id, until > 0); l != nil && l.backOff != until {
		l.backOff = until
		h.touch(id, l)
	}
}

// Remove removes all data of a node.
func (h *Horizon) Remove(id NodeID) {
	if l := h.machines[id]; l != nil {
		delete(h.machines, id)
		h.made++
		h.touch(id, l)
	}
}

func (h *Horizon) lodging(id NodeID, made bool) *lodging {
	l := h.machines[id]
	if l == nil && made {
		l = &lodging{}
		h.machines[id] = l
		h.made++
	}
	return l
}

// touch records that the course of a node has changed.
func (h *Horizon) touch(id NodeID, l *lodging) {
	h.revision++
	l.revision = h.revision
	if s := h.f.seats[id]; s != nil {
		h.f.touches++
		s.shelf.touched = h.f.touches
		h.f.changes.note(s.shelf, whatWill)
		h.settle(s)
	}
}

// settle updates the amount that leaves a node before its reservations begin.
func (h *Horizon) settle(s *seat) {
	if s != nil && len(s.kept) > 0 {
		h.f.setLeaving(s, h.f.leavingOn(s))
	}
}

// Earliest returns the earliest time, not before from, at which the complete gang fits next to all reservations. It
// also returns the placement of the tree at that time. An end in the past counts as an end at from.
func (h *Horizon) Earliest(g *Gang, from int64, by Basis) (at int64, p Placement, ok bool) {
	return h.EarliestAgain(g, from, by, nil)
}

// When returns the earliest time at which all amounts of a placement are free on its nodes, next to all reservations
// except own. It returns 0 if they are free now.
func (h *Horizon) When(p Placement, by Basis, own ...KeepID) (at int64) {
	lent := h.f.lentOf(Lent{Of: own})
	for i := 0; i < len(p.Slots); {
		var k claims
		node := p.Slots[i].Node
		for ; i < len(p.Slots) && p.Slots[i].Node == node; i++ {
			k.add([]Resources{p.Slots[i].Amount})
		}
		at = max(at, h.whenOn(node, by, lent, &k))
	}
	return at
}

// Lost reports whether a node of the placement can no longer provide its part. Such a node is unknown, unschedulable
// without a backoff, or now too small. An unknown end on a node does not count, because the end will become known.
func (h *Horizon) Lost(p Placement) bool {
	for i := 0; i < len(p.Slots); {
		var sum Resources
		node := p.Slots[i].Node
		for ; i < len(p.Slots) && p.Slots[i].Node == node; i++ {
			sum = sum.Plus(p.Slots[i].Amount)
		}
		s, l := h.f.seats[node], h.machines[node]
		if s == nil || s.why != "" && (l == nil || l.backOff <= 0) || !sum.Within(s.machine.Total) {
			return true
		}
	}
	return false
}

// whenOn returns the earliest time at which one node has the claimed amounts.
func (h *Horizon) whenOn(node NodeID, by Basis, lent *lentSet, k *claims) int64 {
	s := h.f.seats[node]
	if s == nil {
		return Never
	}
	for _, step := range courseOf(nil, s, h.machines[node], by, lent) {
		free := Capacity{step.room.cpu, step.room.mem, step.room.whole, step.parts}
		if _, held := k.from(free); held {
			return step.at
		}
	}
	return Never
}

// endingsOf returns the ends that happen, earliest first. Equal times stay in their order.
func endingsOf(to []ending, ends []End, by Basis) []ending {
	for i := range ends {
		if at := ends[i].by(by); at < Never {
			to = append(to, ending{at, ends[i].Amount})
		}
	}
	slices.SortStableFunc(to, func(a, b ending) int { return cmp.Compare(a.at, b.at) })
	return to
}
