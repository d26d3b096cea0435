package topology

// This file owns the lenses that are kept: it finds the one for a demand and forgets what is not used.

import (
	"math"
	"slices"
)

// lensBudget bounds the memory of all lenses together; lensCost is what a lens
// takes per shelf. Beyond the budget the lens that was unused for longest is dropped; so it is beyond lensMost, for
// each job that has kept room lent to it sees through one of its own, which nobody needs when that is over.
const (
	lensBudget = 128 << 20
	lensCost   = 104
	lensFewest = 64
	lensMost   = 1024
)

type lensCache struct {
	all   map[lensKey]*lens
	clock uint64
	spare *lens // for questions that will not be asked again
	brief bool  // questions are answered with the spare lens
}

func newLensCache() lensCache { return lensCache{all: map[lensKey]*lens{}} }

// knows reports whether a rate has a lens of its own already. A brief question has no second lens for a look without
// CPU and memory.
func (c *lensCache) knows(key lensKey) bool { return c.brief || c.all[key] != nil }

// lens finds the lens of a key, or makes it, and brings it up to date.
func (f *Fabric) lens(key lensKey, s *search) *lens {
	l := f.lenses.all[key]
	if l == nil {
		l = f.newLens(key, s)
	}
	f.lenses.clock++
	l.used = f.lenses.clock
	l.refresh(f)
	return l
}

// keyOf is the key of the lens through which a search sees its demand.
func (f *Fabric) keyOf(s *search) lensKey {
	g := s.g
	key := lensKey{
		rate: s.demand.rate, gpuType: s.demand.gpuType, idle: s.idle, all: s.all, only: f.namesText(g.Only),
		exclude: f.namesText(g.out()), lent: f.lentText(s.lent),
		speaks: g.Vocabulary, account: g.Account,
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

func (f *Fabric) newLens(key lensKey, s *search) *lens {
	c := &f.lenses
	if c.brief {
		if c.spare == nil {
			c.spare = &lens{}
		}
		c.spare.become(key, s)
		return c.spare
	}
	for len(c.all) >= min(max(lensFewest, lensBudget/(lensCost*(len(f.plan.shelves)+1))), lensMost) {
		c.drop()
	}
	l := &lens{}
	l.become(key, s)
	l.selects = slices.Clone(s.g.Selector)
	c.all[key] = l
	return l
}

// become turns a lens into one for a key, with nothing counted yet.
func (l *lens) become(key lensKey, s *search) {
	l.lensKey, l.selects, l.named, l.out = key, s.g.Selector, setOf(s.g.Only), setOf(s.g.out())
	if l.lends = nil; key.lent != "" {
		l.lends = s.f.lentOf(s.lent)
	}
	l.special = l.idle || l.all || l.lends != nil || l.then != nil
	l.counted, l.match = false, l.match[:0]
	l.prepare()
}

func setOf[ID ~string](ids []ID) map[ID]bool {
	if len(ids) == 0 {
		return nil
	}
	set := make(map[ID]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}

// drop forgets the lens that has not been used for longest.
func (c *lensCache) drop() { forgetOldest(c.all, func(l *lens) uint64 { return l.used }) }

// forgetOldest forgets what has not been used for longest.
func forgetOldest[K comparable, V any](all map[K]V, used func(V) uint64) {
	var oldest K
	least := uint64(math.MaxUint64)
	for key, v := range all { //order: uses are numbered, so the least is the same in any order
		if n := used(v); n < least {
			oldest, least = key, n
		}
	}
	delete(all, oldest)
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

// namesText names a set of machines in the same way.
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
