package topology

// This file owns the tree of domains and its layout: the same tree as dense
// arrays in the order of names, which is what the indexes of placing are built
// over. In a layout the domains below one domain are neighbours, so "within this
// zone" is a range of racks, and an index is a place in the total order that
// breaks every tie.

import (
	"cmp"
	"slices"
)

// domain is one place: a zone, a block, a rack. The root stands for all of them.
type domain struct {
	name     string
	path     string // the names from the root down, joined by slashes
	parent   *domain
	children []*domain // in the order of their names
	shelves  []*shelf  // of a domain of the finest level, in the order of ids
}

// unnamed is the name shown for a domain that its machines did not name.
const unnamed = "-"

func (d *domain) findChild(name string) (int, bool) {
	return slices.BinarySearchFunc(d.children, name, func(c *domain, name string) int {
		return cmp.Compare(c.name, name)
	})
}

// childNamed finds a child, or makes it: places appear as machines join.
func (d *domain) childNamed(name string) *domain {
	i, ok := d.findChild(name)
	if !ok {
		path := cmp.Or(name, unnamed)
		if d.parent != nil {
			path = d.path + "/" + path
		}
		d.children = slices.Insert(d.children, i, &domain{name: name, path: path, parent: d})
	}
	return d.children[i]
}

func (d *domain) dropChild(child *domain) {
	if i, ok := d.findChild(child.name); ok {
		d.children = slices.Delete(d.children, i, i+1)
	}
}

// shelfFor is the shelf whose range of ids an id falls into; nil when there are
// no shelves yet.
func (d *domain) shelfFor(id NodeID) *shelf {
	i, ok := slices.BinarySearchFunc(d.shelves, id, func(sh *shelf, id NodeID) int {
		return cmp.Compare(sh.seats[0].id, id)
	})
	if !ok && i > 0 {
		i--
	}
	if i == len(d.shelves) {
		return nil
	}
	return d.shelves[i]
}

// layout is the tree as arrays. Tier 0 is the root, tier 1 the coarsest level,
// the last tier the finest level above the node (called racks throughout).
type layout struct {
	stale   bool
	version uint64
	tiers   []tierLayout
	shelves []*shelf
	rackOf  []int32 // of each shelf
}

// tierLayout is one level: its domains, which domain each belongs to in the tier above, and which entries of the tier
// below (of the shelves, for racks) are its own.
type tierLayout struct {
	domains []*domain
	parent  []int32
	first   []int32 // one more than domains: the entries of i are first[i]..first[i+1]
}

// arrange brings the layout up to date with the tree.
func (f *Fabric) arrange() {
	if !f.plan.stale {
		return
	}
	tiers := make([]tierLayout, len(f.levels)+1)
	tiers[0] = tierLayout{domains: []*domain{f.root}, parent: []int32{0}}
	for t := range tiers[1:] {
		above, below := &tiers[t], &tiers[t+1]
		for i, d := range above.domains {
			above.first = append(above.first, int32(len(below.domains)))
			below.domains = append(below.domains, d.children...)
			for range d.children {
				below.parent = append(below.parent, int32(i))
			}
		}
		above.first = append(above.first, int32(len(below.domains)))
	}
	racks := &tiers[len(tiers)-1]
	var shelves []*shelf
	var rackOf []int32
	for i, d := range racks.domains {
		racks.first = append(racks.first, int32(len(shelves)))
		for _, sh := range d.shelves {
			sh.at = int32(len(shelves))
			shelves = append(shelves, sh)
			rackOf = append(rackOf, int32(i))
		}
	}
	racks.first = append(racks.first, int32(len(shelves)))
	f.plan = layout{version: f.plan.version + 1, tiers: tiers, shelves: shelves, rackOf: rackOf}
}

// racks is the number of the last tier.
func (p *layout) racks() int { return len(p.tiers) - 1 }

// rackSpan is the range of racks below a domain.
func (p *layout) rackSpan(tier, i int) (lo, hi int) {
	lo, hi = i, i+1
	for t := tier; t < p.racks(); t++ {
		lo, hi = int(p.tiers[t].first[lo]), int(p.tiers[t].first[hi])
	}
	return lo, hi
}

// shelfSpan is the range of shelves of a rack.
func (p *layout) shelfSpan(rack int) (lo, hi int) {
	first := p.tiers[p.racks()].first
	return int(first[rack]), int(first[rack+1])
}

// changeLog lists the shelves that changed, so that each index counts again only
// what changed since it was last read.
type changeLog struct {
	log  []*shelf
	base uint64 // the position of log[0]
	read uint64 // the furthest position any index has read to
}

// changeLimit bounds the log. An index that is further behind counts everything
// again, which costs no more than a log of that length.
const changeLimit = 1 << 16

func (c *changeLog) end() uint64 { return c.base + uint64(len(c.log)) }

// aspect says which property of a shelf changed. A change of one aspect includes a change of all earlier ones.
type aspect uint8

const (
	whatWill aspect = iota // be free, or is
	whatLeft               // is, beside what is kept
	whatFree               // is, whether it is kept or not
	aspects
)

// note enters a shelf, unless it stands where no index has read it yet.
func (c *changeLog) note(sh *shelf, what aspect) {
	at := sh.changed[whatWill]
	if at <= c.read {
		if len(c.log) == changeLimit {
			c.base = c.end()
			c.log = c.log[:0]
		}
		c.log = append(c.log, sh)
		at = c.end()
	}
	for i := range what + 1 {
		sh.changed[i] = at
	}
}

// since visits the shelves of a layout that have changed since a position, each once: at the position of its last
// change.
func (c *changeLog) since(pos uint64, shelves []*shelf, what aspect, visit func(i int)) {
	if pos < c.base || c.end()-pos > uint64(len(shelves)) {
		for i, sh := range shelves {
			if sh.changed[what] > pos {
				visit(i)
			}
		}
		return
	}
	for i, sh := range c.log[pos-c.base:] {
		if sh.changed[what] == pos+uint64(i)+1 && sh.at >= 0 && shelves[sh.at] == sh {
			visit(int(sh.at))
		}
	}
}
