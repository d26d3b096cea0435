package topology

// This file stores the lenses. It finds the lens of a demand and removes unused lenses.

import (
	"math"
	"slices"
)

// lensBudget limits the memory of all lenses. lensCost is the memory of a lens per shelf. Beyond the budget, the least
// recently used lens is removed. The same applies beyond lensMost, because each job with lent reservations has a
// separate lens that later becomes useless.
const (
	lensBudget = 128 << 20
	lensCost   = 104
	lensFewest = 64
	lensMost   = 1024
)

type lensCache struct {
	all   map[lensKey]*lens
	clock uint64
	spare *lens // for questions that are not repeated
	brief bool  // use the spare lens
}

func newLensCache() lensCache { return lensCache{all: map[lensKey]*lens{}} }

// knows reports whether a rate already has a lens. A brief question uses no second lens for the rate without CPU and
// memory.
func (c *lensCache) knows(key lensKey) bool { return c.brief || c.all[key] != nil }

// lens returns the lens of a key. It creates the lens if necessary, and updates it.
func (f *Tree) lens(key lensKey, s *search) *lens {
	l := f.lenses.all[key]
	if l == nil {
		l = f.newLens(key, s)
	}
	f.lenses.clock++
	l.used = f.lenses.clock
	l.refresh(f)
	return l
}

// keyOf returns the key of the lens for a search.
func (f *Tree) keyOf(s *search) lensKey {
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

// bare returns the key without CPU and memory.
func (k lensKey) bare() lensKey {
	k.cpu, k.mem, k.den = 0, 0, 1
	return k
}

func (f *Tree) newLens(key lensKey, s *search) *lens {
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

// become resets a lens for a key, without counts.
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

// drop removes the least recently used lens.
func (c *lensCache) drop() { forgetOldest(c.all, func(l *lens) uint64 { return l.used }) }

// forgetOldest removes the least recently used entry.
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

// selectorText returns a text that identifies a set of labels, independent of their order. It allocates memory only for
// a new selector.
func (f *Tree) selectorText(selector []Label) string {
	w := &f.work
	w.labels = append(w.labels[:0], selector...)
	sortLabels(w.labels)
	w.labels = slices.Compact(w.labels)
	return f.remembered(appendLabels(w.text[:0], w.labels))
}

// namesText returns a text that identifies a set of nodes, in the same way.
func (f *Tree) namesText(ids []NodeID) string {
	if len(ids) == 0 {
		return ""
	}
	w := &f.work
	w.names = append(w.names[:0], ids...)
	return f.remembered(appendNames(w.text[:0], w.names))
}

// remembered returns the cached copy of a text, so that equal texts share memory.
func (f *Tree) remembered(text []byte) string {
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

// selectorLimit limits the number of cached texts.
const selectorLimit = 4096
