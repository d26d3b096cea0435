package topology

// This file owns which lenses are kept, and finding the one for a demand.

import "slices"

// lensBudget bounds the memory of all lenses together; lensCost is what a lens
// takes per shelf. Beyond the budget the lens unused for longest goes.
const (
	lensBudget = 128 << 20
	lensCost   = 96
	lensFewest = 64
)

type lensCache struct {
	all   map[lensKey]*lens
	clock uint64
	spare *lens // for questions that will not be asked again
	brief bool  // questions are answered with the spare lens
}

func newLensCache() lensCache { return lensCache{all: map[lensKey]*lens{}} }

// knows reports whether a rate is seen through a lens of its own already. A brief
// question has no lens to spare for a look without CPU and memory.
func (c *lensCache) knows(key lensKey) bool { return c.brief || c.all[key] != nil }

// lens finds the lens of a key, or makes it, and brings it up to date.
func (f *Fabric) lens(key lensKey, g *Gang) *lens {
	l := f.lenses.all[key]
	if l == nil {
		l = f.newLens(key, g)
	}
	f.lenses.clock++
	l.used = f.lenses.clock
	l.refresh(f)
	return l
}

// keyOf is the key of the lens through which a gang's demand is seen.
func (f *Fabric) keyOf(d *demand, g *Gang, idle, all bool) lensKey {
	key := lensKey{
		rate: d.rate, gpuType: d.gpuType, idle: idle, all: all, only: f.namesText(g.Only), exclude: f.namesText(g.out()),
		speaks: g.Vocabulary,
	}
	if len(g.Selector) > 0 {
		key.selector = f.selectorText(g.Selector)
	}
	return key
}

// bare is the key without CPU and memory.
func (k lensKey) bare() lensKey {
	k.cpu, k.mem, k.den = 0, 0, 1
	return k
}

func (f *Fabric) newLens(key lensKey, g *Gang) *lens {
	c := &f.lenses
	if c.brief {
		if c.spare == nil {
			c.spare = &lens{}
		}
		l := c.spare
		l.lensKey, l.selects, l.named, l.out = key, g.Selector, setOf(g.Only), setOf(g.out())
		l.counted, l.match = false, l.match[:0]
		l.prepare()
		return l
	}
	for len(c.all) >= max(lensFewest, lensBudget/(lensCost*(len(f.plan.shelves)+1))) {
		c.drop()
	}
	l := &lens{lensKey: key, selects: slices.Clone(g.Selector), named: setOf(g.Only), out: setOf(g.out())}
	l.prepare()
	c.all[key] = l
	return l
}

func setOf(ids []NodeID) map[NodeID]bool {
	if len(ids) == 0 {
		return nil
	}
	set := make(map[NodeID]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}

// drop forgets the lens that was not used for longest.
func (c *lensCache) drop() {
	var oldest *lens
	for _, l := range c.all { //order: uses are numbered, so the least is the same in any order
		if oldest == nil || l.used < oldest.used {
			oldest = l
		}
	}
	delete(c.all, oldest.lensKey)
}

// selectorText names a selector; one text per set of labels, whatever their
// order. It allocates only for a selector it meets for the first time.
func (f *Fabric) selectorText(selector []Label) string {
	w := &f.work
	w.labels = append(w.labels[:0], selector...)
	sortLabels(w.labels)
	w.labels = slices.Compact(w.labels)
	return f.remembered(appendLabels(w.text[:0], w.labels))
}

// namesText names a set of machines, likewise.
func (f *Fabric) namesText(ids []NodeID) string {
	if len(ids) == 0 {
		return ""
	}
	w := &f.work
	w.names = append(w.names[:0], ids...)
	return f.remembered(appendNames(w.text[:0], w.names))
}

// remembered is a text as it was met first, so that it costs memory once.
func (f *Fabric) remembered(text []byte) string {
	w := &f.work
	w.text = text
	if s, ok := f.kinds.selectors[string(w.text)]; ok {
		return s
	}
	if len(f.kinds.selectors) >= selectorLimit {
		clear(f.kinds.selectors)
	}
	s := string(w.text)
	f.kinds.selectors[s] = s
	return s
}

// selectorLimit bounds the texts that are remembered.
const selectorLimit = 4096
