package topology

// This file owns the forecast: an option that makes placing look at what it
// spoils. Told which gangs are likely to come, Place compares a few of the
// tightest places of the level that it chose anyway and takes the one that leaves
// most room for those gangs: whole racks for gangs that fill a rack, whole
// machines for gangs of whole machines. Whether a gang is placed, and at which
// level, does not depend on it.

import "slices"

// Likely is a gang that is expected to come, and how much it weighs.
type Likely struct {
	Gang   Gang
	Weight int64
}

const (
	likelyLimit = 16 // gangs of a forecast that are listened to
	placesTried = 8  // places compared for one gang
)

// likely is one gang of the forecast, reduced.
type likely struct {
	Likely
	demand demand
}

// Expect sets the forecast; none turns the option off. Gangs that make no sense
// are left out.
func (f *Fabric) Expect(gangs []Likely) {
	f.likely = f.likely[:0]
	for _, g := range gangs {
		d := demandOf(&g.Gang)
		if d.problem == "" && g.Weight > 0 && len(f.likely) < likelyLimit {
			f.likely = append(f.likely, likely{g, d})
		}
	}
}

// Fragmentation is the share of the free amount (devices, or CPU) that the
// forecast's gangs cannot use because it is in pieces, 0 to 1, weighed.
func (f *Fabric) Fragmentation() float64 {
	var free, lost float64
	f.arrange()
	for i := range f.likely {
		w := &f.likely[i]
		l := f.lensOf(w, false)
		idle := f.lensOf(w, true)
		root := l.tiers[0].free[0]
		useful := int64(0)
		for r := range l.tiers[f.plan.racks()].units {
			useful += f.useful(w, l, idle, r)
		}
		free += float64(w.Weight) * float64(root)
		lost += float64(w.Weight) * float64(max(0, root-useful*w.demand.worth()))
	}
	if free == 0 {
		return 0
	}
	return lost / free
}

// worth is one unit in the currency of the lens's free amounts.
func (d *demand) worth() int64 {
	r := Refusal{rate: d.rate}
	return max(1, r.unit())
}

func (f *Fabric) lensOf(w *likely, idle bool) *lens {
	return f.lens(f.keyOf(&w.demand, &w.Gang, idle, idle), &w.Gang)
}

// useful is how many units of a rack a gang of the forecast can use: as many as
// make up whole gangs, or, of a gang that no rack could hold, whole racks.
func (f *Fabric) useful(w *likely, now, idle *lens, rack int) int64 {
	t := f.plan.racks()
	chunk := min(w.demand.units, idle.tiers[t].units[rack])
	if chunk == 0 {
		return 0
	}
	units := now.tiers[t].units[rack]
	return units - units%chunk
}

// spare chooses among the places like the one that was found the one whose use
// spoils least; of equals the tightest, which was found first.
func (s *search) spare() Placement {
	best := s.placement()
	least := s.spoils(best)
	for range placesTried - 1 {
		if least == 0 || !s.next() {
			break
		}
		p := s.placement()
		if cost := s.spoils(p); cost < least {
			best, least = p, cost
		}
	}
	return best
}

// spoils is what the forecast's gangs lose by a placement, in weighed units. The
// placement is tried on the view and taken back, and the revision with it: nobody
// but the lenses can tell.
func (s *search) spoils(p Placement) int64 {
	f := s.f
	f.work.touched = f.work.touched[:0]
	for _, at := range f.work.picks {
		if r := int(f.plan.rackOf[at.shelf]); !slices.Contains(f.work.touched, r) {
			f.work.touched = append(f.work.touched, r)
		}
	}
	revision, gained := f.revision, f.gained
	before := f.outlook()
	mark := f.Mark()
	f.Take(p)
	after := f.outlook()
	f.Rollback(mark)
	f.revision, f.gained = revision, gained
	s.lens.refresh(f)
	return before - after
}

// outlook is how much of the touched racks the forecast can use.
func (f *Fabric) outlook() int64 {
	sum := int64(0)
	for i := range f.likely {
		w := &f.likely[i]
		now, idle := f.lensOf(w, false), f.lensOf(w, true)
		for _, r := range f.work.touched {
			sum += w.Weight * f.useful(w, now, idle, r) * max(1, w.demand.gpus)
		}
	}
	return sum
}

// next moves the search to the next place of the same level: the next tightest
// domain, or a machine of the same kind in the next tightest rack.
func (s *search) next() bool {
	racks := s.f.plan.racks()
	if s.tier > racks {
		at := s.node
		_, size, whole := s.lens.look(s.f.plan.shelves[at.shelf], int(at.seat))
		return s.findInBucket(bucketOf(size), whole, s.rackAfter(at))
	}
	t := &s.lens.tiers[s.tier]
	t.rank()
	here := from(t.order, t.units[s.index])
	for t.order[here] != rankKey(t.units[s.index], s.index) {
		here++
	}
	for _, key := range t.order[here+1:] {
		if !s.lens.rate.whole || s.wholeFits(s.tier, keyIndex(key)) {
			s.index = keyIndex(key)
			return true
		}
	}
	return false
}

// rackAfter is the position after a machine's rack in the order of the racks.
func (s *search) rackAfter(at machineAt) int {
	t := &s.lens.tiers[s.f.plan.racks()]
	rack := int(s.f.plan.rackOf[at.shelf])
	i, _ := slices.BinarySearch(t.order, rankKey(t.units[rack], rack))
	return i + 1
}
