package topology

// This file owns asking again. Most questions to the horizon have been asked before, and since then one job has ended
// somewhere. An answer is remembered with what it was found from; it holds as long as nothing has changed that could be
// seen by its instant. Room only grows with time, so the first instant depends on no later one.
//
// It must never answer what a search would not: where it cannot tell, it searches.

import "slices"

// Findings holds the answers of the last round of questions. They belong to the caller. The same question may occur
// several times in a round, each time with more reserved capacity. Its answers are given in the same order again. If a
// question is added or removed, all later answers belong to other questions.
type Findings struct {
	all   map[questionKey]*findings
	spare []*finding // whose memory is used again
}

type findings struct {
	last, now []*finding // those of the last round that are used again are taken out
	shift     int        // by how many the answers to the last question came later than in the last round
}

// Again begins a round. What nobody asked for in the last one is forgotten.
func (m *Findings) Again() {
	for a, f := range m.all { //order: each by itself
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

// again looks for an answer of the last round that is what a search would find now; nil: none is known to be.
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

// note remembers an answer.
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

// finding is an answer of Earliest with what it was found from; the zero value is none.

type finding struct {
	h       *Horizon
	version uint64      // of the layout
	kinds   uint64      // of the table of kinds
	stamps  []uint64    // of the rows
	of      [3]*outlook // as in question: bulk, rest, one
	seen    [3][][]gain // by each of them
	size    int64       // as in question
	rows    []int       // of the racks of the place
	courses []uint64    // of those rows until the instant, a print each
	from    int64
	at      int64
	place   Placement
}

// questionKey holds all of a question that its answer depends on, beside the machines.
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

// EarliestAgain is Earliest, quicker where what was found in the last round holds.
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

// answer searches.
func (q *question) answer(from int64) (at int64, p Placement, ok bool) {
	if at = q.instant(from); at == Never {
		return 0, Placement{}, false
	}
	return at, q.place(at), true
}

// note remembers an answer with what it was found from.
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
			continue // slots are in the order of the fabric
		}
		for row := first; row < end; row++ {
			f.rows, f.courses = append(f.rows, row), append(f.courses, q.c.printed(row, at))
		}
	}
}

// holds reports whether the answer is what a search would find now.
func (f *finding) holds(q *question, from int64) bool {
	// What fitted at the very instant from which it was looked for may have fitted before.
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

// isAlike reports whether a row that changed, of a rack of which the place takes nothing, is until the instant as it
// was, as far as a search would see. It sees how many units the row holds, and more only where one machine may hold
// all.
func (f *finding) isAlike(q *question, i int) bool {
	enough := q.demand.units
	if f.size > 0 {
		enough = 1
	}
	for n, o := range f.of {
		if o == nil {
			if n == 0 { // the instant was found by trying
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
