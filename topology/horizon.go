package topology

// This file owns the horizon: what will be free where and when, and the first instant at which a whole gang fits. It
// knows the ends of what is on each machine and reads the rest from its fabric: what is free now, what promises keep,
// who is out of service. All of a gang must fit at once, so its instant may be later than that of each member alone:
// each may find room earlier while together they do not.
//
// Room only grows with time: here nothing begins. So a gang that fits at one instant fits at every later one.

import (
	"cmp"
	"math"
	"slices"
)

// Never is the instant of what does not end by itself.
const Never = math.MaxInt64

// Basis is how an end is known.
type Basis uint8

const (
	// ByLimit: it ends by then at the latest.
	ByLimit Basis = iota
	// ByEstimate: it is expected to end then.
	ByEstimate
	bases
)

// End is an amount that leaves a machine, and when (ns, above zero): by its limit (Never where it has none), and by
// estimate.
type End struct {
	Amount       Resources
	Hard, Likely int64
	Of           JobID // amounts of one job that follow each other, with the same ends, leave at once; "": each by itself
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
	f         *Fabric
	machines  map[NodeID]*lodging
	revision  uint64
	made      uint64 // counts lodgings that came or went
	forecasts [bases]forecast

	// Memory that questions use again and again.
	lens     lens // through which one instant is seen
	instants []int64
	gains    []gain
	sums     []gain
}

// lodging holds the known ends on one node.
type lodging struct {
	told     []End
	ends     [bases][]ending
	bench    int64 // when its bench ends; 0: it has none
	revision uint64
}

// ending is an end by one basis.
type ending struct {
	at     int64
	amount Resources
}

// NewHorizon makes a horizon that knows no ends.
func NewHorizon(f *Fabric) *Horizon {
	h := &Horizon{f: f, machines: map[NodeID]*lodging{}}
	for b := range h.forecasts {
		h.forecasts[b] = forecast{h: h, by: Basis(b), outlooks: map[outlookKey]*outlook{}}
	}
	f.horizon = h
	for id := range f.kept.on { //order: each by itself
		h.settle(f.seats[id])
	}
	return h
}

// Set replaces the known ends on one machine. It may be called before the machine joins.
func (h *Horizon) Set(id NodeID, ends []End) {
	if l := h.lodging(id, len(ends) > 0); l != nil && !slices.Equal(l.told, ends) {
		l.told = append(l.told[:0], ends...)
		for by := range bases {
			l.ends[by] = endingsOf(l.ends[by][:0], ends, by)
		}
		h.touch(id, l)
	}
}

// Benched says until when a machine is left out; 0: it is not. A machine that is unusable and on no bench never becomes
// usable here.
func (h *Horizon) Benched(id NodeID, until int64) {
	if l := h.lodging(id, until > 0); l != nil && l.bench != until {
		l.bench = until
		h.touch(id, l)
	}
}

// Remove forgets what is known of a machine.
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

// touch notes that a machine's course has changed.
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

// settle brings a machine up to date with what leaves it before anything begins that is kept there.
func (h *Horizon) settle(s *seat) {
	if s != nil && len(s.kept) > 0 {
		h.f.setLeaving(s, h.f.leavingOn(s))
	}
}

// Earliest is the first instant, not before from, at which all of a gang fits beside what promises keep, and where: the
// place that the fabric would answer in its state of that instant. An end that has passed counts as one at from.
func (h *Horizon) Earliest(g *Gang, from int64, by Basis) (at int64, p Placement, ok bool) {
	return h.EarliestAgain(g, from, by, nil)
}

// When is the first instant at which all amounts of a placement are free on its machines, beside what is kept for
// others than its own; 0: they are now.
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

// Lost reports whether machines of a placement, as they are, can no longer give it: one is not there, takes nothing new
// and is on no bench, or has lost a part of itself. A machine that holds something without a known end is not lost: the
// end will be known.
func (h *Horizon) Lost(p Placement) bool {
	for i := 0; i < len(p.Slots); {
		var sum Resources
		node := p.Slots[i].Node
		for ; i < len(p.Slots) && p.Slots[i].Node == node; i++ {
			sum = sum.Plus(p.Slots[i].Amount)
		}
		s, l := h.f.seats[node], h.machines[node]
		if s == nil || s.why != "" && (l == nil || l.bench <= 0) || !sum.Within(s.machine.Total) {
			return true
		}
	}
	return false
}

// whenOn is when one machine can give what is claimed of it.
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

// endingsOf lists what ends at all, the first to end first; those of one instant in the order in which they were given.
func endingsOf(to []ending, ends []End, by Basis) []ending {
	for i := range ends {
		if at := ends[i].by(by); at < Never {
			to = append(to, ending{at, ends[i].Amount})
		}
	}
	slices.SortStableFunc(to, func(a, b ending) int { return cmp.Compare(a.at, b.at) })
	return to
}
