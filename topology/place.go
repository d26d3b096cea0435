package topology

// This file has the search for the place of a complete gang in the topology tree.
//
// The phases of a placement:
//  1. Reduce the gang to a demand: a number of units of one rate (demand.go).
//  2. Read the lens of the rate: exact and current units per shelf, rack, block and zone (lens.go, count.go).
//  3. Find the finest level, up to the required one, with a domain that holds all units. Choose the tightest such
//     domain, so that large free areas stay whole, and the first by name among equals.
//  4. In that domain, use the fewest racks, and choose them so that the last one is filled best (pack.go; whole.go for
//     totals in whole nodes).
//  5. In each rack, use partly used nodes before whole ones, as few nodes as possible, and fill the last one best.
//  6. Assign ranks in the order of the tree: by domain, then by node ID.
//
// A placement changes nothing except the indexes of the lenses.

import (
	"cmp"
	"slices"
)

// search is one search in the tree.
type search struct {
	f      *Tree
	g      *Gang
	demand demand
	widest int  // the coarsest allowed tier
	idle   bool // assume that nothing runs
	all    bool // assume that all nodes are in service
	lent   Lent // reserved capacity that counts as free

	lens  *lens
	tier  int // the tier where the gang fits
	index int
	node  machineAt
}

// machineAt is the position of a node in the layout.
type machineAt struct{ shelf, seat int32 }

// pick holds the part of a placement on one node.
type pick struct {
	machineAt
	units int64
}

// scratch is memory that searches reuse.
type scratch struct {
	search  search
	refusal Refusal
	picks   []pick
	seats   []*seat
	racks   []uint64
	some    []uint64
	chosen  []uint64
	blocks  []uint64
	loose   []uint64
	whole   []uint64
	mix     mix
	labels  []Label
	names   []NodeID
	keeps   []KeepID
	text    []byte
}

// Place returns the placement of a gang, or the reason why it has none now. Place does not change the view; Take does.
func Place(f *Tree, g Gang) (Placement, *Refusal) {
	p, ok := PlaceInto(f, &g, &f.work.refusal)
	if ok {
		return p, nil
	}
	r := f.work.refusal
	return Placement{}, &r
}

// PlaceInto is Place without an allocation for the refusal: it writes the refusal to memory of the caller if ok is
// false.
func PlaceInto(f *Tree, g *Gang, r *Refusal) (p Placement, ok bool) {
	return PlaceLent(f, g, Lent{}, r)
}

// PlaceLent is PlaceInto with some reserved capacity counted as free.
func PlaceLent(f *Tree, g *Gang, lent Lent, r *Refusal) (p Placement, ok bool) {
	s := f.newSearch(g)
	s.lent = lent
	if !s.start(r) {
		return Placement{}, false
	}
	if !s.find() {
		s.refuse(r)
		return Placement{}, false
	}
	return s.placement(), true
}

// Feasible reports whether the known nodes could hold a gang if all were idle and in service. If not, it returns the
// refusal.
func Feasible(f *Tree, g Gang) (bool, *Refusal) {
	s := f.newSearch(&g)
	s.idle, s.all = true, true
	r := &f.work.refusal
	if s.start(r) {
		if s.find() {
			return true, nil
		}
		s.refuse(r)
	}
	out := *r
	(&explainer{f: f, g: g}).detail(&out, true)
	return false, &out
}

// InService reports whether the schedulable nodes could hold a gang if all were idle. Lost, drained and otherwise
// unschedulable nodes do not count.
func InService(f *Tree, g *Gang) bool {
	s := f.newSearch(g)
	s.idle = true
	return s.start(&f.work.refusal) && s.find()
}

func (f *Tree) newSearch(g *Gang) *search {
	f.work.search = search{f: f, g: g}
	return &f.work.search
}

// start reduces the gang and finds its lens. It returns false and a refusal for an invalid gang.
func (s *search) start(r *Refusal) bool {
	if !s.reduce(r) {
		return false
	}
	s.look()
	return true
}

// reduce is the part of start that needs no counting.
func (s *search) reduce(r *Refusal) bool {
	s.demand = demandOf(s.g)
	widest, ok := s.f.tierOf(s.g.Required)
	_, knownToo := s.f.tierOf(s.g.Preferred)
	switch {
	case s.demand.problem != "":
		*r = Refusal{Cause: Senseless, Text: s.demand.problem}
		return false
	case !ok:
		*r = Refusal{Cause: NoSuchLevel, Level: s.g.Required}
		return false
	case !knownToo:
		*r = Refusal{Cause: NoSuchLevel, Level: s.g.Preferred}
		return false
	}
	s.widest = widest
	return true
}

// tierOf returns the tier of a level. "" is the root, above all levels.
func (f *Tree) tierOf(level string) (int, bool) {
	if level == "" {
		return 0, true
	}
	if level == NodeLevel {
		return len(f.levels) + 1, true
	}
	i := slices.Index(f.levels, level)
	return i + 1, i >= 0
}

// levelOf returns the level of a tier.
func (f *Tree) levelOf(tier int) string {
	switch {
	case tier == 0:
		return ""
	case tier > len(f.levels):
		return NodeLevel
	}
	return f.levels[tier-1]
}

// look selects the lens of the search. A new rate of devices is first tried without its CPU and memory. If that simpler
// rate does not fit, the complete rate does not fit either. A queue with many unusual rates on a full cluster therefore
// needs only a few lenses.
func (s *search) look() {
	f := s.f
	key := f.keyOf(s)
	if bare := key.bare(); key.gpus > 0 && bare != key && !f.lenses.knows(key) {
		s.lens = f.lens(bare, s)
		if !s.find() {
			return
		}
	}
	s.lens = f.lens(key, s)
}

// find searches the finest level that holds the gang, and the tightest domain at that level.
func (s *search) find() bool {
	if s.findNode() {
		s.tier = s.f.plan.racks() + 1
		return true
	}
	if !s.withinReach() {
		return false
	}
	for t := s.f.plan.racks(); t >= s.widest; t-- {
		if i := s.findDomain(t); i >= 0 {
			s.tier, s.index = t, i
			return true
		}
	}
	return false
}

// withinReach reports whether all domains together have enough units. It avoids a useless search.
func (s *search) withinReach() bool {
	have := s.lens.tiers[0].units[0]
	if s.lens.rate.whole {
		have += s.lens.largestLoose()
	}
	return have >= s.demand.units
}

// findDomain returns the tightest domain of a tier that holds the gang, or -1.
func (s *search) findDomain(t int) int {
	tier, k := &s.lens.tiers[t], s.demand.units
	if s.lens.rate.whole {
		return s.findWholeDomain(t)
	}
	if len(tier.units) == 0 || tier.units[tier.most()] < k {
		return -1
	}
	if s.lens.then != nil {
		return tier.tightest(k)
	}
	tier.rank()
	if at := from(tier.order, k); at < len(tier.order) {
		return keyIndex(tier.order[at])
	}
	return -1
}

// findNode searches one node that holds the gang. It prefers a partly used node to a whole one, then the tightest node,
// then the node in the tightest rack.
func (s *search) findNode() bool {
	l, k := s.lens, s.demand.units
	for _, whole := range [2]bool{false, true} {
		buckets := &l.loose
		if whole {
			buckets = &l.whole
		}
		for b := bucketOf(k); b < len(buckets); b++ {
			if buckets[b] > 0 && s.findInBucket(b, whole) {
				return true
			}
		}
	}
	return false
}

// findInBucket searches the racks, tightest first, for a node of one bucket. All nodes of an exact bucket, and of a
// bucket above the gang's, are large enough. The first rack with such a node therefore ends the search.
func (s *search) findInBucket(b int, whole bool) bool {
	l, plan := s.lens, &s.f.plan
	for _, key := range s.racksWith(b, whole) {
		lo, hi := plan.shelfSpan(keyIndex(key))
		best := int64(-1)
		for i := lo; i < hi; i++ {
			mask := l.cells[i].loose
			if whole {
				mask = l.cells[i].whole
			}
			if mask>>b&1 == 0 {
				continue
			}
			best = s.tightestOn(i, b, whole, best)
			if best >= 0 && b < exactBuckets {
				break
			}
		}
		if best >= 0 {
			return true
		}
	}
	return false
}

// racksWith returns racks, tightest first: all that may have a node of a bucket. A lens that is used once sorts only
// the racks that have one.
func (s *search) racksWith(b int, whole bool) []uint64 {
	l, w := s.lens, &s.f.work
	racks := &l.tiers[s.f.plan.racks()]
	if l.then == nil {
		racks.rank()
		fewest := min(s.demand.units, 1)
		if l.rate.whole {
			fewest = 0
		}
		return racks.order[from(racks.order, fewest):]
	}
	w.racks = w.racks[:0]
	for i := range l.cells {
		mask := l.cells[i].loose
		if whole {
			mask = l.cells[i].whole
		}
		if mask>>b&1 == 1 {
			rack := int(s.f.plan.rackOf[i])
			w.racks = append(w.racks, rankKey(racks.units[rack], rack))
		}
	}
	slices.Sort(w.racks)
	w.racks = slices.Compact(w.racks)
	return w.racks
}

// tightestOn searches one shelf for a node of a bucket that is large enough and smaller than the best so far (-1:
// none). It returns the new best.
func (s *search) tightestOn(shelf, b int, whole bool, best int64) int64 {
	sh := s.f.plan.shelves[shelf]
	for i := range sh.rooms {
		_, size, isWhole := s.lens.look(sh, i)
		if size < s.demand.units || isWhole != whole || bucketOf(size) != b || best >= 0 && size >= best {
			continue
		}
		best = size
		s.node = machineAt{int32(shelf), int32(i)}
		if b < exactBuckets {
			return best
		}
	}
	return best
}

// placement returns the result of a successful search.
func (s *search) placement() Placement {
	w := &s.f.work
	w.picks = w.picks[:0]
	switch {
	case s.tier > s.f.plan.racks():
		w.picks = append(w.picks, pick{s.node, s.demand.units})
	case s.lens.rate.whole:
		s.packWhole()
	default:
		s.packUnits()
	}
	slices.SortFunc(w.picks, func(a, b pick) int {
		return cmp.Or(cmp.Compare(a.shelf, b.shelf), cmp.Compare(a.seat, b.seat))
	})
	p := Placement{Level: s.f.levelOf(s.tier)}
	if s.g.Split == SplitNone {
		p.Slots = s.replicaSlots()
	} else {
		p.Slots = s.shareSlots()
	}
	return p
}

// replicaSlots creates one slot per unit.
func (s *search) replicaSlots() []Slot {
	slots := make([]Slot, 0, s.demand.units)
	for _, p := range s.f.work.picks {
		id := s.f.plan.shelves[p.shelf].seats[p.seat].id
		for range p.units {
			slots = append(slots, Slot{Rank: Rank(len(slots)), Node: id, Amount: s.g.Each})
		}
	}
	return slots
}

// shareSlots divides the total: one task per node, in proportion to its units. Each share is the difference of two
// running sums. The shares therefore add up to the total exactly, and each differs from its exact value by at most one
// unit of CPU or memory.
func (s *search) shareSlots() []Slot {
	slots := make([]Slot, 0, len(s.f.work.picks))
	var given Resources
	var units int64
	for _, p := range s.f.work.picks {
		units += p.units
		upTo := s.g.Total
		if units < s.demand.units {
			upTo.MilliCPU = mulDivWide(s.g.Total.MilliCPU, units, s.demand.units, 0)
			upTo.MemoryBytes = mulDivWide(s.g.Total.MemoryBytes, units, s.demand.units, 0)
			upTo.MilliGPU = s.demand.gpus * units * WholeGPU
		}
		id := s.f.plan.shelves[p.shelf].seats[p.seat].id
		slots = append(slots, Slot{Rank: Rank(len(slots)), Node: id, Amount: upTo.Minus(given)})
		given = upTo
	}
	return slots
}
