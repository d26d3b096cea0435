package topology

// This file has placements on few nodes. A tight placement fills small gaps on many nodes, and may use more nodes than
// a limit allows.

import (
	"cmp"
	"slices"
)

// PlaceOnFew returns a placement on nodes of own and on at most a number of other nodes. It searches the domains of the
// required level in the order of their names. In each domain, it considers the other nodes that hold the most.
func PlaceOnFew(f *Tree, g *Gang, lent Lent, own map[NodeID]int, others int) (p Placement, ok bool) {
	var refusal Refusal
	s := f.newSearch(g)
	s.lent = lent
	if !s.start(&refusal) || !s.find() || s.widest > f.plan.racks() {
		return p, false
	}
	var tries [][]NodeID
	for domain, units := range s.lens.tiers[s.widest].units {
		if units > 0 {
			tries = append(tries, s.largestIn(domain, own, others))
		}
	}
	few := *g
	for _, few.Only = range tries {
		if len(few.Only) == 0 { // an empty list would allow all nodes
			continue
		}
		if p, ok = PlaceLent(f, &few, lent, &refusal); ok {
			return p, true
		}
	}
	return p, false
}

// largestIn returns the nodes of own in a domain of the required level, and the other nodes there that hold the most.
func (s *search) largestIn(domain int, own map[NodeID]int, others int) (nodes []NodeID) {
	type room struct {
		id   NodeID
		size int64
	}
	var rooms []room
	lo, hi := s.f.plan.rackSpan(s.widest, domain)
	for rack := lo; rack < hi; rack++ {
		first, end := s.f.plan.shelfSpan(rack)
		for _, sh := range s.f.plan.shelves[first:end] {
			for i := range sh.rooms {
				_, size, _ := s.lens.look(sh, i)
				switch id := sh.seats[i].id; {
				case size == 0:
				case own[id] > 0:
					nodes = append(nodes, id)
				default:
					rooms = append(rooms, room{id, size})
				}
			}
		}
	}
	slices.SortFunc(rooms, func(a, b room) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.id, b.id))
	})
	for _, r := range rooms[:min(max(others, 0), len(rooms))] {
		nodes = append(nodes, r.id)
	}
	return nodes
}
