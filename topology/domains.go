package topology

// This file has the tree of domains and its layout. The layout stores the same tree in dense arrays in the order of
// names, and the indexes of placement use it. In the layout, the subdomains of a domain are adjacent, so a zone is a
// range of racks. The index of an entry is its position in the total order, which breaks all ties.

import (
	"cmp"
	"slices"
)

// domain is one topology domain: a zone, a block, a rack. The root contains all of them.
type domain struct {
	name     string
	path     string // the names from the root down, joined by slashes
	parent   *domain
	children []*domain // in the order of their names
	shelves  []*shelf  // of a domain of the finest level, in the order of IDs
}

// unnamed is the displayed name of a domain whose nodes did not name it.
const unnamed = "-"

func (d *domain) findChild(name string) (int, bool) {
	return slices.BinarySearchFunc(d.children, name, func(c *domain, name string) int {
		return cmp.Compare(c.name, name)
	})
}

// childNamed returns a child, and creates it if necessary. Domains are created as nodes join.
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

// shelfFor returns the shelf whose range of IDs contains an ID, or nil if there are no shelves.
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

// layout is the tree in arrays. Tier 0 is the root, tier 1 the coarsest level, and the last tier the finest level above
// the node, which the code calls racks.
type layout struct {
	stale   bool
	version uint64
	tiers   []tierLayout
	shelves []*shelf
	rackOf  []int32 // of each shelf
}

// tierLayout is one level: its domains, the parent of each domain, and the range of children of each domain in the tier
// below (shelves, for racks).
type tierLayout struct {
	domains []*domain
	parent  []int32
	first   []int32 // has one entry more than domains: the children of i are first[i]..first[i+1]
}

// arrange updates the layout to the current tree.
func (f *Tree) arrange() {
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

// racks returns the number of the last tier.
func (p *layout) racks() int { return len(p.tiers) - 1 }

// rackSpan returns the range of racks in a domain.
func (p *layout) rackSpan(tier, i int) (lo, hi int) {
	lo, hi = i, i+1
	for t := tier; t < p.racks(); t++ {
		lo, hi = int(p.tiers[t].first[lo]), int(p.tiers[t].first[hi])
	}
	return lo, hi
}

// shelfSpan returns the range of shelves of a rack.
func (p *layout) shelfSpan(rack int) (lo, hi int) {
	first := p.tiers[p.racks()].first
	return int(first[rack]), int(first[rack+1])
}

// changeLog lists the shelves that changed, so that each index counts only the shelves that changed after its last
// read.
type changeLog struct {
	log  []*shelf
	base uint64 // position of log[0]
	read uint64 // largest position that any index has read
}

// changeLimit limits the log. An index that is further behind counts everything, which costs no more than a log of that
// length.
const changeLimit = 1 << 16

func (c *changeLog) end() uint64 { return c.base + uint64(len(c.log)) }

// aspect is the property of a shelf that changed. A change of one aspect includes a change of all earlier ones.
type aspect uint8

const (
	whatWill aspect = iota // capacity that will be free
	whatLeft               // free and not reserved
	whatFree               // free, reserved or not
	aspects
)

// note adds a shelf to the log, unless its last entry has not been read by any index.
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

// since visits the shelves of a layout that have changed after a position, each once: at the position of its last
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
