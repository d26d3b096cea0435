package topology

// This file caches answers of the horizon. Most questions are asked again after a small change, such as the end of one
// job. A cached answer stays valid if nothing changed that is visible at its time. Free capacity only grows with time,
// so the earliest time does not depend on any later one.
//
// A cached answer must equal the answer of a new search. In doubt, the code searches again.

import "slices"

// Findings holds the answers of the last round of questions. They belong to the caller. The same question may occur
// several times in a round, each time with more reserved capacity. Its answers are given in the same order again. If a
// question is added or removed, all later answers belong to other questions.
type Findings struct {
	all   map[questionKey]*findings
	spare []*finding // memory to reuse
}

type findings struct {
	last, now []*finding // answers of the last round, or nil after they were reused
	shift     int        // position difference between the last reused answer in this and the last round
}

// Again starts a round. Answers that the last round did not use are dropped.
func (m *Findings) Again() {
	for a, f := range m.all { //order: each independent
		for _, known := range f.last {
			if known != nil {
				m.spare = append(m.spare, known)
			}
		}
		clear(f.last)
		if len(f.now) == 0 {
			delete(m.all, a)
		}
		f.last, f.now, f.shift = f.now, f.last[:0], 0
	}
}

// again returns an answer of the last round that is still valid, or nil.
func (m *Findings) again(q *question, a questionKey, from int64) *finding {
	f := m.all[a]
	if f == nil {
		return nil
	}
	for _, shift := range [...]int{f.shift, f.shift + 1, f.shift - 1} {
		at := len(f.now) + shift
		if at < 0 || at >= len(f.last) || f.last[at] == nil || !f.last[at].holds(q, from) {
			continue
		}
		known := f.last[at]
		f.last[at], f.now, f.shift = nil, append(f.now, known), shift
		return known
	}
	return nil
}

// note stores an answer.
func (m *Findings) note(q *question, a questionKey, from, at int64, p Placement) {
	if m.all == nil {
		m.all = map[questionKey]*findings{}
	}
	f := m.all[a]
	if f == nil {
		f = &findings{}
		m.all[a] = f
	}
	known := &finding{}
	if n := len(m.spare); n > 0 {
		known, m.spare = m.spare[n-1], m.spare[:n-1]
	}
	known.note(q, from, at, p)
	f.now = append(f.now, known)
}

// finding is an answer of Earliest with the data that it depends on. The zero value is no answer.

type finding struct {
	h       *Horizon
	version uint64      // of the layout
	kinds   uint64      // of the table of kinds
	stamps  []uint64    // of the rows
	of      [3]*outlook // as in question: bulk, rest, one
	seen    [3][][]gain // gains of each outlook
	size    int64       // as in question
	rows    []int       // of the racks in the placement
	courses []uint64    // one print per such row, up to the answer's time
	from    int64
	at      int64
	place   Placement
}

// questionKey holds everything that the answer to a question depends on, except for the nodes.
type questionKey struct {
	lensKey
	demand      demand
	each, total Resources
	split       Split
	widest      int
	by          Basis
}

func (q *question) asked() questionKey {
	g := q.g
	return questionKey{q.f.keyOf(q.search), q.demand, g.Each, g.Total, g.Split, q.widest, q.c.by}
}

// EarliestAgain returns the same answer as Earliest. It reuses an answer of the last round that is still valid.
func (h *Horizon) EarliestAgain(g *Gang, from int64, by Basis, m *Findings) (at int64, p Placement, ok bool) {
	q := question{search: h.f.newSearch(g), c: &h.forecasts[by]}
	if !q.reduce(&h.f.work.refusal) {
		return 0, Placement{}, false
	}
	q.c.refresh()
	if m == nil {
		return q.answer(from)
	}
	asked := q.asked()
	if known := m.again(&q, asked, from); known != nil {
		return known.at, known.place, true
	}

	if at, p, ok = q.answer(from); ok {
		m.note(&q, asked, from, at, p)
	}
	return at, p, ok
}

// answer searches without the cache.
func (q *question) answer(from int64) (at int64, p Placement, ok bool) {
	if at = q.instant(from); at == Never {
		return 0, Placement{}, false
	}
	return at, q.place(at), true
}

// note stores an answer with the data that it depends on.
func (f *finding) note(q *question, from, at int64, p Placement) {
	f.h, f.version, f.kinds, f.size = q.c.h, q.c.version, q.f.kinds.version, q.size
	f.from, f.at, f.place = from, at, p
	f.stamps = append(f.stamps[:0], q.c.stamps...)
	f.of = [3]*outlook{q.bulk, q.rest, q.one}
	for n, o := range f.of {
		if f.seen[n] = f.seen[n][:0]; o != nil {
			f.seen[n] = append(f.seen[n], o.gains...)
		}
	}
	f.rows, f.courses = f.rows[:0], f.courses[:0]
	for i := range p.Slots {
		rack := int(q.f.plan.rackOf[q.f.seats[p.Slots[i].Node].shelf.at])
		first, end := q.f.plan.shelfSpan(rack)
		if n := len(f.rows); n > 0 && f.rows[n-1] >= first {
			continue // slots are in the order of the tree
		}
		for row := first; row < end; row++ {
			f.rows, f.courses = append(f.rows, row), append(f.courses, q.c.printed(row, at))
		}
	}
}

// holds reports whether a search would find the same answer now.
func (f *finding) holds(q *question, from int64) bool {
	// If the gang already fitted at the start of the search, it may fit before, so the answer is not reusable.
	if f.h != q.c.h || from > f.at || f.at == f.from || f.version != q.c.version || f.kinds != q.f.kinds.version {
		return false
	}
	for i, stamp := range q.c.stamps {
		if f.stamps[i] == stamp {
			continue
		}
		at, in := slices.BinarySearch(f.rows, i)
		if in && f.courses[at] != q.c.printed(i, f.at) || !in && !f.isAlike(q, i) {
			return false
		}
	}
	copy(f.stamps, q.c.stamps)
	return true
}

// isAlike reports whether a changed row, outside of the racks of the placement, looks the same to a search up to the
// answer's time. A search reads the number of units in the row, and more details only if one node may hold the complete
// gang.
func (f *finding) isAlike(q *question, i int) bool {
	enough := q.demand.units
	if f.size > 0 {
		enough = 1
	}
	for n, o := range f.of {
		if o == nil {
			if n == 0 { // the time was found by trying
				return false
			}
			continue
		}
		o.lens.learnKinds(&q.f.kinds)
		now, sizes := o.count(q.c, i)
		was := f.seen[n][i]
		if f.size > 0 && sizes&^(1|1<<f.size) != 0 {
			return false
		}
		if seen := now[:after(now, f.at)]; !slices.Equal(seen, was[:after(was, f.at)]) ||
			n < 2 && len(seen) > 0 && seen[len(seen)-1].units >= enough {
			return false
		}
		if !slices.Equal(now, was) {
			f.seen[n][i] = slices.Clone(now)
		}
	}
	return true
}
